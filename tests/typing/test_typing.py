"""The types of plugrad: mypy accepts a correct program, and finds every mistake."""

import os
import re
import subprocess
import sys
from pathlib import Path

import plugrad as pg
import pytest

from tests.typing import program

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MARK = "# error: "
ERROR = re.compile(r"(\w+)\.py:(\d+): error: .* \[([\w-]+)\]")
# with --strict, but without the settings of this repository, as users run it
COMMAND = [sys.executable, "-m", "mypy", "--strict", "--config-file="]
COMMAND += ["--follow-imports=silent", "--hide-error-context"]
COMMAND += [f"--cache-dir={ROOT / '.cache' / 'mypy-typing'}"]


def marked(path):
    """Return the error codes that comments announce, by line."""
    lines = enumerate(path.read_text().splitlines(), 1)
    return {n: set(line.split(MARK)[1].split()) for n, line in lines if MARK in line}


@pytest.fixture(scope="module")
def found():
    """Return the error codes that mypy reports, by file and line."""
    paths = [HERE / f"{name}.py" for name in ("program", "star", "mistakes")]
    source = str(ROOT / "core" / "src")
    done = subprocess.run(
        [*COMMAND, *map(str, paths)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": source},
    )
    assert not done.stderr
    errors = {path.stem: {} for path in paths}
    for line in done.stdout.splitlines():
        if ": error: " in line:
            stem, number, code = ERROR.search(line).groups()
            errors[stem].setdefault(int(number), set()).add(code)
    return errors


@pytest.mark.parametrize("name", ["program", "star"])
def test_a_correct_program_has_no_error(found, name):
    assert found[name] == {}


def test_exactly_the_mistakes_are_found(found):
    assert found["mistakes"] == marked(HERE / "mistakes.py")


def test_the_program_runs():
    with pg.use_backend("cpu"):
        program.main()
