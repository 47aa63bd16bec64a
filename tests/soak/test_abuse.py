"""No call of a public function ends the process or hangs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_no_call_ends_the_process(backend, request, tmp_path):
    if backend == "primitives":
        pytest.skip("primitives uses cpu's arrays and kernels, which cpu tests")
    calls = 100 if request.config.getoption("--all") else 5
    command = [sys.executable, "-m", "tests.soak.abuse", backend, str(calls), "1"]
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    last = (tmp_path / "abuse.log").read_text().splitlines()[-1]
    assert done.returncode == 0, f"{last}\n{done.stdout}{done.stderr}"
    counts = re.search(rf"^{backend}: (\d+) calls: .*$", done.stdout, re.MULTILINE)
    assert counts is not None, done.stdout
    request.node.user_properties.append(("calls", counts[0]))
    assert int(counts[1]) > 500 * calls
