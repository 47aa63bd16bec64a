"""Pyright, which editors run, reads the types of plugrad as mypy does."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import plugrad
import pytest

from tests.typing.test_typing import HERE, ROOT, marked

pytest.importorskip("pyright", reason="needs pyright: make .venv/.group-pyright")

SCORE = 0.94  # of all modules without an underscore, those of the engine included
MODULES = ("plugin", "geometry", "tree", "fft", "fused", "image", "linalg", "losses")
MODULES += ("quantized", "random", "signal", "sparse", "strings")


def told(*arguments):
    """Return what pyright finds, as it would for a user of an installed plugrad."""
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    command += ["--pythonpath", sys.executable, *map(str, arguments)]
    # With --verifytypes, pyright takes the first Python of PATH all the same.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    return json.loads(done.stdout)


def test_it_finds_exactly_the_mistakes():
    paths = [HERE / f"{name}.py" for name in ("program", "star", "mistakes")]
    found = {path.name: set() for path in paths}
    for one in told(*paths)["generalDiagnostics"]:
        if one["severity"] == "error":
            name = one["file"].replace("\\", "/").rpartition("/")[2]
            found[name].add(one["range"]["start"]["line"] + 1)
    mistakes = {*marked(HERE / "mistakes.py")}
    assert found == {"program.py": set(), "star.py": set(), "mistakes.py": mistakes}


def public():
    """Return the full names of what users and authors of plugins import."""
    names = {f"plugrad.{name}" for name in plugrad.__all__}
    for module in MODULES:
        found = importlib.import_module(f"plugrad.{module}").__all__
        names |= {f"plugrad.{module}.{name}" for name in found}
    return names


def test_every_public_name_has_a_known_type():
    report = told("--verifytypes", "plugrad", "--ignoreexternal")["typeCompleteness"]
    known = {one["name"]: one["isTypeKnown"] for one in report["symbols"]}
    asked = public() & known.keys()
    assert len(asked) > 300
    assert not [name for name in asked if not known[name]]
    assert report["completenessScore"] > SCORE
