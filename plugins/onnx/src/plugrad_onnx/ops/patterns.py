"""Regular expressions of models, which must not run for ever.

ONNX means those of RE2, whose time is linear in the text: package ``google-re2``, of
the extra ``plugrad-onnx[re2]``. Python's ``re`` tries alternatives one after the other,
and its classes are those of Unicode, so that it cannot take the place of RE2.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

__all__ = ["matcher"]


@functools.lru_cache(maxsize=64)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether all of a text matches a pattern.

    Bytes that are not UTF-8 are surrogates in both, and match no character.

    Raises:
        ValueError: It is no pattern of RE2.
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
            f"RegexFullMatch: {pattern!r} is no pattern of RE2: {why}"
        ) from None
    return lambda text: compiled.fullmatch(_encoded(text)) is not None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
