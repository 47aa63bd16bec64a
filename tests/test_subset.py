"""The selection of tests without ``--all`` is fixed and covers all kernels."""

from pathlib import Path

import pytest
from plugrad import plugin

from tests.subset import (
    ALL_ROWS_TEST,
    LEFT_OUT,
    NOT_ON_DEVICES,
    ONE_IN,
    ROWS,
    SAMPLED,
    SLOW,
    VERY_SLOW,
    device_of,
    most_different,
    sample,
)

ROOT = Path(__file__).parent


def test_rows_that_differ_most_are_chosen():
    rows = ["a0x", "a0y", "a1x", "b1y", "b1z"]
    assert most_different(rows, 1) == [0]
    assert most_different(rows, 2) == [0, 3]
    assert most_different(rows, 3) == [0, 3, 4]
    assert most_different(rows, 9) == [0, 1, 2, 3, 4]
    assert most_different([], 2) == []


@pytest.mark.parametrize("name", ROWS)
def test_large_tables_run_with_more_rows(name):
    count = 5 * ROWS[name]
    rows = [(str(i % 7), str(i)) for i in range(ONE_IN[name] * count)]
    chosen = sample(name, "ops/test_reduce.py::test_values", rows)
    assert len(chosen) == count
    assert len({rows[i][0] for i in chosen}) == min(7, count)


@pytest.mark.parametrize("name", ["mine", None])
def test_other_backends_run_with_all_rows(name):
    rows = [(str(i),) for i in range(100)]
    assert sample(name, "ops/test_reduce.py::test_values", rows) == [*range(100)]


@pytest.mark.parametrize("name", ROWS)
def test_each_kernel_runs_on_each_backend(name):
    """One function runs with all of its rows, one for each kernel."""
    rows = [(kernel,) for kernel in plugin.contracts()]
    found = sample(name, f"plugrad_conformance/{ALL_ROWS_TEST}", rows)
    assert found == [*range(len(rows))]
    file, test = ALL_ROWS_TEST.split("::")
    source = (ROOT / "conformance/src/plugrad_conformance" / file).read_text()
    assert f"def {test}(" in source


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/train/test_loop.py::test_a_line[opencl-2]", "opencl"),
        (
            "tests/core/jit/test_random_state.py::test_programs[C-of opencl-0]",
            "opencl",
        ),
        ("tests/train/test_loop.py::test_a_line[webgpu]", "webgpu"),
        ("tests/train/test_loop.py::test_a_line[cpu-2]", None),
        ("tests/train/test_loop.py::test_opencl", None),
        ("tests/opencl/test_moves.py::test_transposes[opencl]", None),
        (f"plugrad_conformance/{ALL_ROWS_TEST}[opencl-Relu]", None),
    ],
)
def test_what_runs_on_devices(test, expected):
    assert device_of(test) == expected


def test_the_folders_exist():
    for name in NOT_ON_DEVICES:
        assert (ROOT / name).is_dir(), name


def test_the_files_exist():
    for name in SAMPLED + SLOW + VERY_SLOW + LEFT_OUT:
        file, _, function = name.partition("::")
        folder = ROOT / "conformance/src" if file.startswith("plugrad_") else ROOT
        source = (folder / f"{file}.py").read_text()
        assert f"def {function}" in source, name
