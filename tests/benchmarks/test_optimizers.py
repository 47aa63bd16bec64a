"""``benchmarks/optimizers.py``: its parameters, and that it runs."""

import subprocess
import sys

import numpy as np
import pytest

from tests.benchmarks.test_growth import FOLDER


@pytest.fixture
def optimizers(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import optimizers

    return optimizers


def test_the_number_of_parameters_is_about_the_requested_one(optimizers):
    arrays = optimizers.new_params(1_000_000, 20)
    assert len(arrays) == 20
    assert sum(x.size for x in arrays) == pytest.approx(1_000_000, rel=0.001)
    assert {x.dtype for x in arrays} == {np.dtype("float32")}


def test_it_runs_without_peers():
    command = [sys.executable, str(FOLDER / "optimizers.py"), "--peers", ""]
    command += ["--parameters", "1000", "--tensors", "4", "--turns", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    name, _, unit, ratio = done.stdout.split()
    assert (name, unit, ratio) == ("plugrad", "ms", "1.00")
