"""Complaints about other compilers, which docs/decisions/0021-jit.md lists."""

import re
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest

from tests.processes import output

from .helpers import floats, kernels

ROOT = Path(__file__).parents[3]
DECISION = (ROOT / "docs/decisions/0021-jit.md").read_text()
LISTED_TESTS = re.findall(r"`(test_\w+)::(test_\w+)`", DECISION)


@pytest.mark.parametrize(("file", "test"), LISTED_TESTS, ids="::".join)
def test_the_listed_tests_exist(file, test):
    (path,) = [path for path in (ROOT / "tests").rglob(f"{file}.py")]
    assert f"def {test}(" in path.read_text()


def test_the_list_is_not_empty():
    assert len(LISTED_TESTS) > 10


def test_arrays_that_are_captured_are_not_copied():
    weights = floats(2**20)
    f = pg.jit(lambda x: x * weights)
    for _ in range(3):
        f(2.0)
    constants = f.explain(2.0).graph.constants.values()
    (large,) = [array for array in constants if array.size > 1]
    assert np.shares_memory(large, weights._data)


def test_convolutions_stay_kernels_of_the_backend():
    """Convolutions are not decomposed into kernels that a compiler could fuse."""
    x = floats(1, 8, 8, 2)
    w = floats(3, 3, 2, 4)
    f = pg.jit(pg.grad(lambda w: pg.sum(pg.relu(pg.conv2d(x, w)))))
    assert [name for name in kernels(f, w) if "Conv2D" in name] == [
        "Conv2D",
        "Conv2DBackpropFilter",
    ]


REFUSE_TO_START_PROGRAMS = """
import sys
STARTS = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork"}
def refuse(event, args):
    if event in STARTS:
        raise AssertionError((event, args))
import plugrad as pg
pg.set_backend(sys.argv[1])
sys.addaudithook(refuse)
f = pg.jit(lambda x: pg.tanh(x * x) + 1)
print(f(pg.ones(10000)).shape, f(pg.ones(10000)).shape)
print([region.by for region in f.explain(pg.ones(10000)).regions])
"""


@pytest.mark.parametrize("name", ["cpu", "wasm"])
def test_no_program_is_started(name):
    """``jit`` itself starts no compiler; OpenCL drivers may, as for any kernel."""
    if name not in pg.backends():
        pytest.skip(f"{name} is not installed")
    shapes, by = output(REFUSE_TO_START_PROGRAMS, name, PATH="").splitlines()
    assert shapes == "(10000,) (10000,)"
    assert f"plugrad-{name}" in by or "plugrad-llvm" in by
