"""``benchmarks/first_calls.py`` runs and prints a table."""

import subprocess
import sys

import pytest

from tests.benchmarks.test_growth import FOLDER


def test_it_has_a_row_for_each_workload():
    pytest.importorskip("plugrad_llvm", reason="plugrad-llvm is not installed")
    command = [sys.executable, str(FOLDER / "first_calls.py"), "--only", "grad_small"]
    command += ["--processes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    head, row = done.stdout.splitlines()
    assert head.split() == ["ms", "over", "others", "cpu", "cpu", "and", "llvm"]
    name, *cells = row.split()
    assert name == "grad_small"
    assert cells[1::3] == ["and", "and"]
    assert all(float(x) > -5 for x in (*cells[::3], *cells[2::3]))
