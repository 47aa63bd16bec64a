"""Kernels called with invalid arguments, which no op passes: an error, never a crash.

The core would refuse most of the arguments, so these tests call kernels directly.
"""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from tests.opencl.styles import run_as_gpu

FLOAT = np.dtype(np.float32)
SHAPE = (64, 3, 4)

# For each kernel, calls: the inputs as shapes or values, and the attributes.
CASES = {
    "Cumsum": [
        ([SHAPE], {"axis": axis, "exclusive": False, "reverse": False})
        for axis in (-1, 3)
    ],
    "Cumprod": [([SHAPE], {"axis": -1, "exclusive": True, "reverse": True})],
    "ArgMax": [([SHAPE], {"axis": axis}) for axis in (-1, 3, 10**9)],
    "ArgMin": [([SHAPE], {"axis": -1}), ([(3, 0)], {"axis": 1})],
    "Softmax": [([SHAPE], {"axis": axis}) for axis in (-1, 5)],
    "LogSoftmax": [([SHAPE], {"axis": -1})],
    "Sum": [([SHAPE], {"axis": axis, "keepdims": False}) for axis in ((-1,), (5,))],
    "Max": [([SHAPE], {"axis": (0, 3), "keepdims": True})],
    "Slice": [
        ([SHAPE], {"begin": begin, "size": size})
        for begin, size in [
            ((0, 0, 0), (-1, -1, -1)),
            ((0, 0, 0), (-1, 3, 4)),
            ((0, 0, 0), (2, -1, -2)),
            ((60, 0, 0), SHAPE),
            ((-1, 0, 0), (1, 3, 4)),
            ((0, 0, 0), (2**40, 3, 4)),
        ]
    ],
    "StridedSlice": [
        ([SHAPE], {"begin": (0, 0, 0), "size": SHAPE, "strides": strides})
        for strides in [(5, 1, 1), (-1, 1, 1)]
    ],
    "Reverse": [([SHAPE], {"axis": (-1,)})],
    "Transpose": [([SHAPE], {"axes": (0, 0, 0)})],
    "Tile": [([SHAPE], {"repetitions": n}) for n in [(-1, 1, 1), (-1, -1, 1)]],
    "BroadcastTo": [([(3, 4)], {"shape": (-1, 3, 4)})],
    "Concat": [
        ([SHAPE, SHAPE], {"axis": -1}),
        ([SHAPE, SHAPE], {"axis": 3}),
        ([SHAPE, (1, 9, 9)], {"axis": 0}),
        ([SHAPE, (64, 3, 5)], {"axis": 1}),
    ],
    "SplitV": [
        ([SHAPE], {"sizes": (100, -97), "axis": 1}),
        ([SHAPE], {"sizes": (2, 2), "axis": 1}),
    ],
    "Reshape": [([SHAPE], {"shape": s}) for s in [(99, 99), (-1,), (1,) * 65]],
    "ExpandDims": [([(1,) * 64], {"axis": 0})],
    "Fill": [
        ([], {"shape": shape, "value": 0.0, "dtype": FLOAT})
        for shape in [(-4,), (2, -4), (1,) * 65]
    ],
    "PadV2": [
        ([SHAPE], {"paddings": ((n, 0), (0, 0), (0, 0)), "constant_values": 0})
        for n in (-1, -70)
    ],
    "TopK": [([SHAPE], {"k": k, "sorted": True}) for k in (-1, 5, 999)],
    "BatchMatMul": [
        ([SHAPE, SHAPE], {"transpose_a": False, "transpose_b": False}),
        ([(2, 3), (2, 3)], {"transpose_a": True, "transpose_b": True}),
    ],
    "Add": [([SHAPE, (6400,)], {})],
    "UnsortedSegmentSum": [
        ([SHAPE, np.zeros(64, np.int32)], {"num_segments": -1}),
        ([SHAPE, np.zeros(3, np.int32)], {"num_segments": 2}),
    ],
}
ROWS = [(name, *row) for name, rows in CASES.items() for row in rows]


@pytest.mark.parametrize(("name", "inputs", "attrs"), ROWS)
def test_invalid_arguments_are_errors(name, inputs, attrs):
    opened = runtime("opencl")
    arrays = [
        opened.arrays.upload(np.zeros(x, FLOAT) if isinstance(x, tuple) else x)
        for x in inputs
    ]
    with pytest.raises((ValueError, MemoryError), match=r"opencl: |matmul: "):
        opened.kernels[name](*(arrays or [opened.arrays]), **attrs)
    opened.arrays.synchronize()


@pytest.mark.parametrize("items", [0, -1])
def test_a_launch_needs_work_items(items, device):
    with pg.use_backend("opencl"):
        pg.exp(pg.zeros((2,)))
    launch = next(n for n in device._launches.values() if n._name == "Exp")
    with pytest.raises(ValueError, match=f"Exp: {items} work items; there must be"):
        launch(1, items)


OPS = {
    "+": lambda x: x + 1.0,
    "exp": pg.exp,
    "sum": pg.sum,
    "two inputs": lambda x: x + pg.reshape(x, (1,)),
    "broadcast": lambda x: pg.broadcast_to(x, (2, *x.shape[1:])),
    "permute_dims": lambda x: pg.permute_dims(x, range(len(x.shape))[::-1]),
    "concat": lambda x: pg.concat([x, x], axis=-1),
    "matmul": lambda x: pg.matmul(x, x),
    "tile": lambda x: pg.tile(x, (3,) * 2 + (1,) * (len(x.shape) - 2)),
    "slice": lambda x: x[..., :1],
}


@pytest.mark.parametrize("rank", [33, 64])
@pytest.mark.parametrize("op", OPS)
def test_up_to_64_axes(op, rank):
    with pg.use_backend("opencl"):
        deep, flat = [OPS[op](pg.full((1,) * n, 3.0)) for n in (rank, 2)]
    np.testing.assert_array_equal(deep.numpy().ravel(), flat.numpy().ravel())


@pytest.mark.parametrize(
    "op",
    [
        lambda x: pg.reshape(x, (1,) * 65),
        lambda x: pg.expand_dims(x, axis=0),
        lambda x: pg.broadcast_to(x, (2, *x.shape)),
        lambda x: pg.ones((1,) * 65),
        lambda x: pg.stack([x, x]),
    ],
    ids=["reshape", "expand_dims", "broadcast_to", "ones", "stack"],
)
def test_65_axes_are_an_error_that_says_so(op):
    with pg.use_backend("opencl"):
        x = pg.ones((1,) * 64)
        with pytest.raises(ValueError, match="65 axes are more than the 64"):
            op(x)


def test_this_file_with_the_kernels_for_gpus(request, device):
    if device.style != "gpu":
        run_as_gpu(__file__, request.config)
