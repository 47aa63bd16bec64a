"""Regular expressions of models, which must not run for ever.

ONNX means those of RE2, whose time is linear in the text: package ``google-re2``, if it
is installed. Python's ``re`` tries alternatives one after the other, so without that
package a pattern is refused if there may be too many of them.
"""

from __future__ import annotations

import functools
import importlib
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["matcher"]

MAX_WAYS = 10**6  # of Python's re to match parts of one text: tens of milliseconds
SINGLE = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY")


@functools.lru_cache(maxsize=64)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return a function that tells whether all of a text matches a pattern.

    Raises:
        ValueError: It is no pattern; or, at the call, a text may take too long.

    """
    try:
        re2: Any = importlib.import_module("re2")
    except ImportError:
        return _guarded(pattern)
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise _invalid(pattern, error) from None
    return lambda text: compiled.fullmatch(text) is not None


def _invalid(pattern: str, why: object) -> ValueError:
    return ValueError(f"RegexFullMatch: {pattern!r} is no pattern of RE2: {why}")


def _guarded(pattern: str) -> Callable[[str], bool]:
    """Return what matches by Python's ``re``, or raises if that may take too long."""
    try:
        compiled = re.compile(pattern)
        parsed = importlib.import_module("re._parser").parse(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise _invalid(pattern, error) from None

    def matches(text: str) -> bool:
        if _ways(parsed, len(text), pattern) > MAX_WAYS:
            raise ValueError(
                f"RegexFullMatch: {pattern!r} may take very long on a text of "
                f"{len(text)} characters; `pip install google-re2`, whose time is "
                "linear"
            )
        return compiled.fullmatch(text) is not None

    return matches


def _ways(items: Iterable[Any], size: int, pattern: str) -> float:
    """Return a bound of the ways in which a pattern can match parts of a text."""
    found = 1.0
    for op, value in items:
        name = str(op)
        if name == "BRANCH":
            found *= sum(_ways(one, size, pattern) for one in value[1])
        elif name == "SUBPATTERN":
            found *= _ways(value[3], size, pattern)
        elif name.endswith("_REPEAT"):
            least, most, body = value
            inner, count = _ways(body, size, pattern), min(int(most), size)
            plain = len(body) == 1 and str(body[0][0]) in SINGLE
            found *= max(count - (least if plain else 0), 0) + 1
            found *= _power(inner, count)
        elif name not in (*SINGLE, "AT"):
            raise _invalid(pattern, f"RE2 has no {name.lower()}")
    return found


def _power(base: float, exponent: int) -> float:
    """Return a power, or infinity if it is far too large."""
    return math.inf if exponent * math.log2(base) > 64 else base**exponent
