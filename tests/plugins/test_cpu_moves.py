"""plugrad-cpu's reductions, scans and moves, in C and on NumPy, with threads."""

import hashlib
import importlib
import textwrap

import numpy as np
import plugrad as pg
import pytest
from plugrad.geometry import Resizing

from tests.plugins.cpu_moves import FAMILIES, KERNELS, RNG, check, draw
from tests.processes import output

native = pytest.importorskip("plugrad_cpu.native", reason="needs plugrad-cpu")
in_c = pytest.mark.skipif(not native.LOADED, reason=f"no C: {native.LIBRARY}")


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_results_are_those_of_numpy(family):
    assert check(family)


@in_c
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_results_without_c_are_those_of_numpy(family):
    program = f"""
    from plugrad_cpu import native
    from tests.plugins import cpu_moves
    assert not native.LOADED
    print(*cpu_moves.check(cpu_moves.{family.__name__}))
    """
    assert output(textwrap.dedent(program), PLUGRAD_CPU_NATIVE="0").split()


# --- large arrays ------------------------------------------------------------------

LARGE_CALLS = {  # kernel: arguments, attributes, and the table of C functions
    "Sum": ((draw((700, 700), "float32"),), {"axis": (1,), "keepdims": False}, "FOLDS"),
    "Max": ((draw((700, 700), "int64"),), {"axis": (0,), "keepdims": True}, "FOLDS"),
    "Any": ((draw((900, 700), "bool"),), {"axis": (0,), "keepdims": True}, "FOLDS"),
    "ArgMin": ((draw((700, 700), "float64"),), {"axis": 0}, "ARGS"),
    "Cumsum": (
        (draw((700, 700), "float32"),),
        {"axis": 1, "exclusive": True, "reverse": True},
        "SCANS",
    ),
    "Concat": ([draw((90_000, 4), "float32")] * 3, {"axis": 1}, "JOIN"),
    "Identity": ((draw((700, 900), "float32").T,), {}, "COPY"),
    "Reshape": ((draw((90, 4, 301), "float32").mT,), {"shape": (-1,)}, "COPY"),
    "GatherV2": (
        (draw((900, 300), "float32"), RNG.integers(0, 900, 4000).astype("int32")),
        {"axis": 0, "batch_dims": 0},
        "READ",
    ),
    "UnsortedSegmentSum": (
        (draw((5000, 200), "float32"), RNG.integers(0, 900, 5000).astype("int32")),
        {"num_segments": 900},
        "ADD",
    ),
    "Cast": ((draw((900, 700), "float32"),), {"dtype": np.dtype("int32")}, "CASTS"),
    "ResizeBilinear": (
        (draw((4, 90, 90, 3), "float32"),),
        {"geometry": Resizing((4, 90, 90, 3), (4, 200, 170, 3), False, False)},
        "MIX",
    ),
}
MODULES = ("reduce", "shape", "gather", "cumulative", "creation", "resize")
MODULES = [*(f"plugrad_cpu.kernels.{name}" for name in MODULES), "plugrad_cpu.native"]
PROGRAM = """
    from tests.plugins.test_cpu_moves import digests
    print(*digests())
"""


def digests():
    """Return a digest of each large result."""
    found = [
        KERNELS[name](*inputs, **attrs)
        for name, (inputs, attrs, _) in LARGE_CALLS.items()
    ]
    return [
        hashlib.sha256(np.ascontiguousarray(y).tobytes()).hexdigest() for y in found
    ]


def recorded(value, name, calls):
    """Wrap C functions, or tables of them, so that their calls are recorded."""
    if isinstance(value, dict):
        return {key: recorded(item, name, calls) for key, item in value.items()}
    if type(value).__name__ != "Function":
        return value
    return lambda *args: (calls.append(name), value(*args))


@in_c
@pytest.mark.parametrize("name", LARGE_CALLS)
def test_large_arrays_go_to_c(name, monkeypatch):
    inputs, attrs, table = LARGE_CALLS[name]
    calls = []
    for module in map(importlib.import_module, MODULES):
        for key, value in list(vars(module).items()):
            if key.isupper():
                monkeypatch.setattr(module, key, recorded(value, key, calls))
    KERNELS[name](*inputs, **attrs)
    assert table in calls


VIEWS = [
    lambda x: pg.permute_dims(x, (2, 0, 1)),
    lambda x: x[:, ::-1, 3:],
    lambda x: x[0],
]


@pytest.mark.parametrize("size", [2, 90])
@pytest.mark.parametrize("view_of", VIEWS)
def test_a_copy_is_contiguous(view_of, size):
    x = pg.asarray(draw((size, size + 2, 7), "float32"))
    with pg.use_backend("cpu"):
        view = view_of(x)
        y = pg.asarray(view_of(x), copy=True)
        assert y.numpy().flags.c_contiguous
        np.testing.assert_array_equal(y.numpy(), view.numpy())
        transposed = pg.asarray(np.asfortranarray(view.numpy()), copy=True).numpy()
        assert transposed.flags.c_contiguous
        repeated = pg.asarray(pg.broadcast_to(x[:1], x.shape), copy=True)
        assert repeated.numpy().flags.c_contiguous


POOLED = {
    "concat": lambda x: pg.concat([x, x], axis=1),
    "stack": lambda x: pg.stack([x, x]),
    "tile": lambda x: pg.tile(x, (2, 3)),
    "pad": lambda x: pg.pad(x, ((1, 1), (0, 2))),
    "permute_dims": lambda x: pg.asarray(pg.permute_dims(x, (1, 0)), copy=True),
    "sum": lambda x: pg.sum(pg.reshape(x, (2, -1)), axis=0),
    "take": lambda x: pg.take(x, pg.arange(600, dtype="int32"), axis=0),
}


@pytest.mark.skipif(not native.native, reason="there is no pool")
@pytest.mark.parametrize("name", POOLED)
def test_large_results_use_pooled_memory(name):
    x = pg.asarray(draw((700, 300), "float32"))
    with pg.use_backend("cpu"):
        before = native.native.pool_statistics()["used"]
        y = POOLED[name](x)
        used = native.native.pool_statistics()["used"] - before
    assert used >= y.numpy().nbytes


@in_c
def test_bits_do_not_depend_on_the_number_of_threads():
    program = textwrap.dedent(PROGRAM)
    found = []
    for count in ("1", "2", "8"):
        found.append(output(program, PLUGRAD_CPU_THREADS=count).split())
    assert len(found[0]) == len(LARGE_CALLS)
    assert found[0] == found[1] == found[2]
