"""Assigns levels to tests, in one table by file, function and kernel.

- ``primitives``: the kernels from which all others are composed, for every declared
  dtype and layout.
- ``inference``: every op of a forward pass.
- ``training``: the gradients.
- ``everything``: errors, threads, processes, strings, random numbers and the rest.
"""

from __future__ import annotations

import functools
import re

from .primitives import PRIMITIVES

LEVELS = ("primitives", "inference", "training", "everything")

# Families that inference and training of common networks do not need, by the names of
# the modules of ``golden/reach`` and ``ops``.
RARE = (
    "complex_special_values|complexes|eigenvalues|fft|linalg|matrix_factors|"
    "matrix_functions|ragged|random|signal|sparse|special|strings|string_dtype"
)

# (file, words in the name of the test, level); the first row that matches wins.
TABLE = (
    ("backend/test_(arrays|imports|life|primitives)", "", "primitives"),
    ("backend/test_(device_memory|huge|kernels|leaks|reference)", "", "inference"),
    ("backend/test_own_gradients", "", "training"),
    ("backend/.*", "", "everything"),
    (f"ops/test_({RARE})", "", "everything"),
    ("ops/.*", "errors?|refused|variables?|threads?", "everything"),
    ("ops/test_(losses|likelihoods|gradients_everywhere)", "", "training"),
    (
        "ops/.*",
        "backward|cotangents?|derivatives?|differentiated|gradients?|order|overrid.*|"
        "slopes?",
        "training",
    ),
    ("ops/.*", "", "inference"),
)


@functools.cache
def level(file: str, function: str) -> str:
    """Return the level of a test: ``level("ops/test_unary", "test_values")``."""
    return next((row[2] for row in TABLE if fits(row, file, function)), LEVELS[-1])


def fits(row: tuple[str, str, str], file: str, function: str) -> bool:
    """Return whether a row of the table matches a test."""
    pattern, names, _ = row
    words = function.split("_")
    matched = not names or any(re.fullmatch(names, word) for word in words)
    return matched and re.fullmatch(pattern, file) is not None


@functools.cache
def level_of_case(kind: str, kernel: str, family: str) -> str:
    """Return the level of a golden case, by its kernel and family."""
    if kind == "errors" or re.fullmatch(RARE, family):
        return "primitives" if kind == "kernels" and kernel in PRIMITIVES else LEVELS[3]
    if kind == "gradients" or re.search(r"(Grad|Backprop.*)$", kernel):
        return "training"
    return "primitives" if kernel in PRIMITIVES else "inference"
