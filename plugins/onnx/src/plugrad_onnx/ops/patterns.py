"""Regular expressions from models, matched in time linear in the text.

ONNX specifies the syntax of RE2, from the package ``google-re2`` (the extra
``plugrad-onnx[re2]``). Python's ``re`` cannot replace it: it backtracks, so a model
could make it run for ever, and its character classes are those of Unicode.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["compile_pattern"]


@functools.lru_cache(maxsize=64)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return a function that returns whether a whole text matches a pattern.

    Bytes that are not UTF-8 are surrogates in both; they match no character.

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
        why = error.args[0].decode() if error.args else "unknown reason"
        raise ValueError(
            f"RegexFullMatch: {pattern!r} is not a valid RE2 pattern: {why}"
        ) from None
    return lambda text: compiled.fullmatch(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
