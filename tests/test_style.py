"""Checks style, types and layers; ``make check`` runs only these tests."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = "from importlinter.cli import lint_imports_command as main; main()"
CHECKS = {  # the slowest first
    "types": ("-m", "mypy"),
    "layers": ("-c", LAYERS, "--no-logo"),
    "style": ("-m", "ruff", "check"),
    "format": ("-m", "ruff", "format", "--check"),
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_checkout_has_no_fault(name):
    if name == "types" and "PIP_CONSTRAINT" in os.environ:
        pytest.skip("types are checked only with the newest NumPy")
    command = [sys.executable, *CHECKS[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
