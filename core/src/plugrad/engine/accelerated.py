"""Twins in C of the engine's hottest functions, where a compiler has made them.

A function under ``@compiled`` says what is done. Its twin in ``core/src_c`` does the
same in the usual case, and calls it in every other: nothing depends on whether there is
one, but time. ``PLUGRAD_COMPILED=0`` leaves all to Python.
"""

from __future__ import annotations

import copyreg
import functools
import os
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeVar, cast

from plugrad.tensor.tensor import ASSIGNED, Tensor

F = TypeVar("F", bound=Callable[..., Any])

_speedups: Any = None
missing = ""  # why there are no twins, if there are none
try:
    _speedups = import_module("plugrad._speedups")
except ImportError as error:
    missing = str(error)
else:  # a twin is pickled and copied by its name, as a function is
    copyreg.pickle(_speedups.Twin, attrgetter("__qualname__"))


def compiled(f: F) -> F:
    """Return the twin of ``f``, or ``f`` where there is none."""
    if _speedups is None:
        return f
    return cast("F", functools.update_wrapper(_speedups.Twin(f), f))


def enable(on: bool) -> None:
    """Have the twins do the usual case, or leave everything to Python."""
    if _speedups is not None:
        _speedups.enable(on)


def start() -> None:
    """Enable the accelerators, once all modules have been imported."""
    if _speedups is not None:
        _speedups.fix_members(Tensor, ASSIGNED)
    enable(os.environ.get("PLUGRAD_COMPILED") != "0")


def how() -> str:
    """Return what does the usual case: "C" or "Python"."""
    return "C" if _speedups is not None and _speedups.enabled() else "Python"
