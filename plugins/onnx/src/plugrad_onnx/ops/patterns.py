"""Regular expressions from models, matched in time linear in the text.

ONNX specifies the syntax of RE2, which the package ``google-re2`` provides (the extra
``plugrad-onnx[re2]``). Python's ``re`` cannot replace RE2: it backtracks, so a model
could make it run almost forever, and its character classes include all of Unicode.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["compile_pattern"]


@functools.lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether a whole text matches a pattern.

    In the text and in the pattern, surrogates stand for bytes that are not UTF-8; such
    bytes match no character.

    Raises:
        ValueError: The pattern is not valid in RE2.
        ModuleNotFoundError: RE2 is not installed.

    """
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(_encoded(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args else "unknown reason"
        raise ValueError(
            f"RegexFullMatch: {pattern!r} is not a valid RE2 pattern: {reason}"
        ) from None
    return lambda text: compiled.fullmatch(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
