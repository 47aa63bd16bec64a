"""C accelerators of the engine's hottest functions, if they are compiled.

A function under ``@accelerated`` is the complete definition. Its accelerator in
``core/src_c`` does the same on the fast path, and calls the function on the slow path:
they differ only in speed, as PEP 399 requires. ``PLUGRAD_COMPILED=0`` disables the
accelerators.
"""

from __future__ import annotations

import copyreg
import functools
import os
from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any, TypeVar, cast

from plugrad._src.tensor.tensor import ASSIGNED, Tensor

F = TypeVar("F", bound=Callable[..., Any])

_speedups: Any = None
missing = ""  # why there are no accelerators; empty if there are
try:
    _speedups = import_module("plugrad._speedups")
except ModuleNotFoundError:
    missing = "they were not compiled when plugrad was installed"
except ImportError as error:
    missing = str(error)
else:  # pickled and copied by name, like a function
    copyreg.pickle(_speedups.Accelerated, attrgetter("__qualname__"))


def watcher() -> Any:
    """Return the class of the profile function in C; None without the accelerators.

    An object of this class calls a Python function for code objects that it does not
    know yet. The method ``install`` does what ``sys.setprofile`` does.
    """
    if _speedups is None or not _speedups.enabled():
        return None
    return _speedups.Watcher


def accelerated(f: F) -> F:
    """Return ``f`` with its accelerator, or ``f`` where there is none."""
    if _speedups is None:
        return f
    return cast("F", functools.update_wrapper(_speedups.Accelerated(f), f))


def enable(on: bool) -> None:
    """Switch the fast paths in C on or off."""
    if _speedups is not None:
        _speedups.enable(on)


def start() -> None:
    """Enable the accelerators, once all modules have been imported."""
    if _speedups is not None:
        _speedups.fix_members(Tensor, ASSIGNED)
    enable(os.environ.get("PLUGRAD_COMPILED") != "0")


def fast_path_language() -> str:
    """Return the language that runs the fast paths: "C" or "Python"."""
    return "C" if _speedups is not None and _speedups.enabled() else "Python"
