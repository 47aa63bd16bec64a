"""What is no fault of a backend: a dtype that it never declared, no cpu beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import plugrad as pg
from plugrad.plugin import runtime

_LACKS = re.compile(r"backend \\?'([^'\\]+)\\?' has no (\w+)")


def excuse(error: BaseException, backend: str) -> str:
    """Return why a test that raised ``error`` cannot run on ``backend``, or ""."""
    for cause in _causes(error):
        told = isinstance(cause, TypeError | AssertionError)  # the other error's text
        found = _LACKS.search(str(cause)) if told else None
        if found and found[1] == backend:
            dtype = found[2].replace("strings", "string")
            if dtype not in runtime(backend).dtypes:
                return f"{backend} has no {dtype}"
        if _asked_for_cpu(cause) and runtime(backend).host != "cpu":
            return "needs plugrad-cpu, the reference"
    return ""


def _asked_for_cpu(error: BaseException) -> bool:
    """Tell whether the reference was asked for, and is not there."""
    missing = isinstance(error, pg.BackendUnavailable) and "'cpu'" in str(error)
    return missing and "cpu" not in pg.backends()


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
