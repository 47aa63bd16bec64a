"""Pyright, which editors use, finds the same types in plugrad as mypy."""

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

# The share of names with known types, in all modules without an underscore.
MIN_COMPLETENESS = 0.94
MODULES = ("plugin", "geometry", "tree", "fft", "fused", "image", "linalg", "losses")
MODULES += ("quantized", "random", "signal", "sparse", "strings")


def run_pyright(*arguments):
    """Return pyright's report, as for a user who has installed plugrad."""
    command = [sys.executable, "-m", "pyright", "--outputjson"]
    command += ["--pythonpath", sys.executable, *map(str, arguments)]
    # With --verifytypes, pyright always takes the first Python of PATH.
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


def test_pyright_finds_exactly_the_mistakes():
    paths = [HERE / f"{name}.py" for name in ("program", "star", "mistakes")]
    found = {path.name: set() for path in paths}
    for finding in run_pyright(*paths)["generalDiagnostics"]:
        if finding["severity"] == "error":
            name = finding["file"].replace("\\", "/").rpartition("/")[2]
            found[name].add(finding["range"]["start"]["line"] + 1)
    mistakes = {*marked(HERE / "mistakes.py")}
    assert found == {"program.py": set(), "star.py": set(), "mistakes.py": mistakes}


def public():
    """Return the full names that users and plugin authors import."""
    names = {f"plugrad.{name}" for name in plugrad.__all__}
    for module in MODULES:
        found = importlib.import_module(f"plugrad.{module}").__all__
        names |= {f"plugrad.{module}.{name}" for name in found}
    return names


def test_every_public_name_has_a_known_type():
    report = run_pyright("--verifytypes", "plugrad", "--ignoreexternal")[
        "typeCompleteness"
    ]
    known = {row["name"]: row["isTypeKnown"] for row in report["symbols"]}
    checked = public() & known.keys()
    assert len(checked) > 300
    assert not [name for name in checked if not known[name]]
    assert report["completenessScore"] > MIN_COMPLETENESS
