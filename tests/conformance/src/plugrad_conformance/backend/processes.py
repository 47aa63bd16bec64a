"""Runs programs in separate processes, on the backend under test."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from ..backends import distribution_of

START = """
import plugrad as pg
name = {name!r}
if name == "primitives":
    from plugrad_conformance.toy import only_primitives
    context = only_primitives()
    context.__enter__()
pg.set_backend(name)
"""


def program(
    backend: str, source: str, *, start: str = START, timeout: float = 120, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a program with ``backend`` active; it must succeed before the timeout."""
    if backend != "primitives" and not distribution_of(backend)[1]:
        pytest.skip(f"{backend} is registered in this process only, not installed")
    code = start.format(name=backend) + textwrap.dedent(source)
    try:
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=os.environ | env,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.fail(f"the program does not end within {timeout:.0f} seconds")
    assert result.returncode == 0, (
        f"exit {result.returncode}:\n{result.stdout}{result.stderr}"
    )
    return result
