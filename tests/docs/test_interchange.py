"""Every program in docs/interchange.md runs and prints what it says."""

import importlib.util
import subprocess
import sys

import pytest

from tests.docs.blocks import README, blocks, promised

TEXT = (README.parent / "docs" / "interchange.md").read_text()
PROGRAMS = blocks("python", TEXT)
NEEDS = {
    "torch": "needs torch, of the bench group: make .venv/.group-bench",
    "safetensors": "needs safetensors: pip install plugrad[io]",
}


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_it_says(number):
    code = PROGRAMS[number]
    for module, reason in NEEDS.items():
        if module in code and importlib.util.find_spec(module) is None:
            pytest.skip(reason)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert promised(code)
    assert done.stdout.splitlines() == promised(code)
