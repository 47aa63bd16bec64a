"""Warnings about deprecated features, at the line of the caller that uses them.

``docs/stability.md`` makes the promise; this module implements it.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class PlugradDeprecationWarning(DeprecationWarning):
    """A feature will be removed; the message says when, and what replaces it."""


def outside() -> int:
    """Return the ``stacklevel`` of the first caller outside of plugrad."""
    return _first_outside()[0]


def line_outside() -> str:
    """Return the file and line of the first caller outside of plugrad."""
    frame = _first_outside()[1]
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _first_outside() -> tuple[int, FrameType]:
    level = 0
    frame = sys._getframe(1)
    while frame.f_back is not None and _ours(frame.f_globals.get("__name__", "")):
        level = level + 1
        frame = frame.f_back
    return level, frame


def _ours(module: str) -> bool:
    return module.partition(".")[0] == "plugrad"


def warn_deprecated(what: str, *, since: str, until: str, use: str) -> None:
    """Warn the first caller outside of plugrad that ``what`` will be removed.

    Args:
        what: The feature as the caller wrote it, such as ``"Runtime(wrap=)"``.
        since: The version that deprecates it.
        until: The version that removes it.
        use: What to write instead.

    """
    warnings.warn(
        f"{what} has been deprecated since plugrad {since} and will be removed in "
        f"{until}; use {use}",
        PlugradDeprecationWarning,
        stacklevel=outside(),
    )


def deprecated(*, since: str, until: str, use: str) -> Callable[[F], F]:
    """Make every call of the decorated function warn, as ``warn_deprecated`` does."""

    def mark(function: F) -> F:
        what = f"{function.__qualname__}()"

        @functools.wraps(function)
        def warning(*args: Any, **kwargs: Any) -> Any:
            warn_deprecated(what, since=since, until=until, use=use)
            return function(*args, **kwargs)

        return warning  # type: ignore[return-value]

    return mark
