"""Every program in docs/tools.md runs and prints what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, promised

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
PROGRAMS = blocks("python", PAGE)


def test_every_tool_is_shown():
    assert len(PROGRAMS) >= 6
    code = "\n".join(PROGRAMS)
    for name in (
        "tidy",
        "keep",
        "memory",
        "profile",
        "debug",
        "check_gradients",
        "explain",
    ):
        assert f"pg.{name}(" in code, name
    assert all(promised(code) for code in PROGRAMS)


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_it_says(number, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAMS[number]],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(PROGRAMS[number])
