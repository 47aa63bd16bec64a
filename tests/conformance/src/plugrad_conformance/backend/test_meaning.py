"""Tests details that a contract describes in ``doc``, in addition to its formula.

Each row contains inputs and outputs, or an error instead of outputs. The signs
of zeros are compared as well; NaN equals NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

NAN = np.nan
INF = np.inf
INT32_MAX = 2**31 - 1


class Row(NamedTuple):
    """A call of a kernel; inputs and outputs are (dtype, values)."""

    kernel: str
    inputs: list[tuple[str, Any]]
    attrs: dict[str, Any]
    outputs: list[tuple[str, Any]] | type[Exception]


def cast(old: str, values: Any, new: str, wanted: Any) -> Row:
    return Row("Cast", [(old, values)], {"dtype": new}, [(new, wanted)])


def top_k(values: Any, k: int, ordered: bool, largest: Any, indices: Any) -> Row:
    outputs = [("float32", largest), ("int32", indices)]
    return Row("TopK", [("float32", values)], {"k": k, "sorted": ordered}, outputs)


def search(side: str, wanted: Any) -> Row:
    arrays = [[-INF, -0.0, 0.0, 1, INF, NAN, NAN]], [[NAN, INF, -0.0, 2]]
    inputs = [("float32", x) for x in arrays]
    return Row("SearchSorted", inputs, {"side": side}, [("int32", wanted)])


def segment_sum(dtype: str, values: Any, ids: Any, wanted: Any) -> Row:
    attrs = {"num_segments": len(wanted)}
    inputs = [(dtype, values), ("int32", ids)]
    return Row("UnsortedSegmentSum", inputs, attrs, [(dtype, wanted)])


def creation(kernel: str, dtype: str, wanted: Any, **attrs: Any) -> Row:
    outputs = wanted if isinstance(wanted, type) else [(dtype, wanted)]
    return Row(kernel, [], {"dtype": dtype, **attrs}, outputs)


def mirror_pad(mode: str, wanted: Any) -> Row:
    attrs = {"paddings": ((2, 2),), "mode": mode}
    return Row("MirrorPad", [("int32", [1, 2, 3])], attrs, [("int32", wanted)])


def out_of_range(index: int) -> list[Row]:
    """Return calls that read or write at ``index`` of an axis of size 3."""
    x = ("float32", np.ones((3, 3)))
    at = ("int32", [[0, index]])
    one = ("float32", [1.0])
    below = ("int32", [[0, -4 if index == -1 else index]])  # -1 is the last element
    return [
        Row("GatherV2", [x, at], {"axis": 1, "batch_dims": 0}, IndexError),
        Row("Take", [x, below], {"axis": 1, "batch_dims": 0}, IndexError),
        Row("GatherNd", [x, at], {}, IndexError),
        Row("ScatterNd", [at, one], {"shape": (3, 3)}, IndexError),
        Row("TensorScatterUpdate", [x, at, one], {}, IndexError),
    ]


SIGNED_VALUES = [0.0, -0.0, NAN, -1, -0.0, INF, 0.0, -INF]
UNSORTED = [1, NAN, 3, -0.0, 0.0, 3, -INF, NAN, INF]
REPEATED_INDICES: list[tuple[str, Any]] = [("int32", [[1], [1], [0]])]

ROWS = [
    # creation
    cast("float32", [1.9, -1.9, NAN, INF, -INF], "int32", [1, -1, 0, 0, 0]),
    cast("float32", [3e9, -3e9, 2**31], "int32", [-1294967296, 1294967296, -(2**31)]),
    cast("float32", [300.7, -1.0], "uint8", [44, 255]),
    cast("int32", [300, -1, 128], "int8", [44, -1, -128]),
    cast("int32", [16777217, 16777219], "float32", [16777216, 16777220]),
    cast("float64", [3.5e38, -1e300, 0.1], "float32", [INF, -INF, np.float32(0.1)]),
    cast("float32", [2049, 2051, 65520], "float16", [2048, 2052, INF]),
    cast("float32", [NAN, -0.0, 0.1], "bool", [True, False, True]),
    cast("complex64", [2j, 0j, 1 + 2j], "bool", [True, False, True]),
    cast("complex64", [2j, -3.5 + 1j], "int32", [0, -3]),
    cast("bool", [True, False], "float32", [1, 0]),
    creation("Fill", "float32", [-0.0, -0.0], shape=2, value=-0.0),
    creation("Fill", "bool", [True], shape=1, value=2.5),
    creation("Fill", "int32", TypeError, shape=1, value=1.5),
    creation("Fill", "int32", OverflowError, shape=1, value=2**31),
    creation("Range", "int32", [3, 2, 1], start=3, step=-1, size=3),
    creation("Range", "int64", [2**53, 2**53 + 1], start=2**53, step=1, size=2),
    creation("Range", "float64", [2**53] * 2, start=2**53 + 1, step=1, size=2),
    creation("Range", "int32", [-1, 0, 0, 1], start=-1.5, step=1, size=4),
    creation("Range", "uint8", OverflowError, start=250, step=3, size=3),
    creation("LinSpace", "float32", [0, 0.5, 1], start=0, stop=1, num=3, endpoint=True),
    creation("LinSpace", "float32", [0, 0.5], start=0, stop=1, num=2, endpoint=False),
    creation("LinSpace", "float32", [2], start=2, stop=3, num=1, endpoint=True),
    creation("LinSpace", "float32", [], start=2, stop=3, num=0, endpoint=True),
    Row("ZerosLike", [("bool", [True])], {}, [("bool", [False])]),
    Row("OnesLike", [("complex64", [2j])], {}, [("complex64", [1])]),
    # shape and slicing
    Row("BroadcastArgs", [("int32", [2, 0]), ("int32", [1])], {}, [("int32", [2, 0])]),
    Row("BroadcastArgs", [("int32", [2]), ("int32", [3])], {}, ValueError),
    Row("Concat", [], {"axis": 0}, ValueError),
    Row("Pack", [], {"axis": 0}, ValueError),
    Row("Tile", [("int32", [[1, 2]])], {"repetitions": (2, 0)}, [("int32", [[], []])]),
    Row(
        "SplitV",
        [("int32", [1, 2])],
        {"sizes": (0, 2), "axis": 0},
        [("int32", []), ("int32", [1, 2])],
    ),
    Row(
        "StridedSlice",
        [("int32", [1, 2, 3, 4])],
        {"begin": (3,), "size": (2,), "strides": (-2,)},
        [("int32", [4, 2])],
    ),
    Row(
        "PadV2",
        [("float32", [1])],
        {"paddings": ((1, 0),), "constant_values": -0.0},
        [("float32", [-0.0, 1])],
    ),
    mirror_pad("reflect", [3, 2, 1, 2, 3, 2, 1]),
    mirror_pad("symmetric", [2, 1, 1, 2, 3, 3, 2]),
    # gather and scatter
    *[
        row
        for index in (-1, 3, INT32_MAX, -INT32_MAX - 1)
        for row in out_of_range(index)
    ],
    segment_sum("float32", [1, 2, 3, 4], [-1, 0, 0, 7], [5, 0]),
    segment_sum("float32", [INF, -INF, NAN], [0, 0, 1], [NAN, NAN]),
    segment_sum("int32", [INT32_MAX, 1], [0, 0], [-INT32_MAX - 1]),
    segment_sum("uint8", [200, 100], [0, 0], [44]),
    segment_sum("float16", [60000, 60000, -60000], [0, 0, 0], [60000]),
    segment_sum("float16", [1] * 5000, [0] * 5000, [5000]),
    Row(
        "OneHot",
        [("int32", [1, -1, 2])],
        {"depth": 2, "on_value": 5, "off_value": -1, "axis": 1, "dtype": "int32"},
        [("int32", [[-1, 5], [-1, -1], [-1, -1]])],
    ),
    Row(
        "GatherNd",
        [("int32", [1, 2]), ("int32", np.zeros((2, 0)))],
        {},
        [("int32", [[1, 2], [1, 2]])],
    ),
    Row(
        "ScatterNd",
        [*REPEATED_INDICES, ("bool", [True, True, False])],
        {"shape": (3,)},
        [("bool", [False, True, False])],
    ),
    Row(
        "TensorScatterUpdate",
        [("float32", [0, 0, 0]), *REPEATED_INDICES, ("float32", [1, 2, 3])],
        {},
        [("float32", [3, 2, 0])],
    ),
    # sorting and search
    top_k(UNSORTED, 3, True, [NAN, NAN, INF], [1, 7, 8]),
    top_k(UNSORTED, 5, True, [NAN, NAN, INF, 3, 3], [1, 7, 8, 2, 5]),
    top_k(UNSORTED, 5, False, [NAN, 3, 3, NAN, INF], [1, 2, 5, 7, 8]),
    top_k([-0.0, 0.0, -1, -0.0], 2, True, [-0.0, 0.0], [0, 1]),
    *[
        Row(
            "Sort",
            [("float32", SIGNED_VALUES)],
            {"axis": 0, "descending": descending},
            [("float32", wanted)],
        )
        for descending, wanted in (
            (False, [-INF, -1, 0.0, -0.0, -0.0, 0.0, INF, NAN]),
            (True, [NAN, INF, 0.0, -0.0, -0.0, 0.0, -1, -INF]),
        )
    ],
    search("left", [[5, 4, 1, 4]]),
    search("right", [[7, 5, 3, 4]]),
    Row(
        "Unique",
        [("float32", [-0.0, 0.0, NAN, 1, NAN])],
        {"axis": 0, "sorted": False},
        [("float32", [-0.0, NAN, 1, NAN]), ("int32", [0, 0, 1, 2, 3])],
    ),
    Row(
        "Unique",
        [("float32", [NAN, 1, -0.0, 0.0, -INF, 1])],
        {"axis": 0, "sorted": True},
        [("float32", [-INF, -0.0, 1, NAN]), ("int32", [3, 2, 1, 1, 0, 2])],
    ),
    Row(
        "Unique",
        [("complex64", [2, 1j, 1 + 1j, -1j, 2])],
        {"axis": 0, "sorted": True},
        [("complex64", [-1j, 1j, 1 + 1j, 2]), ("int32", [3, 1, 2, 0, 3])],
    ),
    Row(
        "Unique",
        [("float32", [[-0.0, NAN], [0.0, NAN], [0.0, 1], [-0.0, 1]])],
        {"axis": 0, "sorted": False},
        [("float32", [[-0.0, NAN], [0.0, NAN], [0.0, 1]]), ("int32", [0, 1, 2, 2])],
    ),
    Row(
        "Unique",
        [("int32", [[2, 1, 1], [0, 5, 4]])],
        {"axis": 1, "sorted": True},
        [("int32", [[1, 1, 2], [4, 5, 0]]), ("int32", [2, 1, 0])],
    ),
]


@pytest.mark.parametrize(
    "row", ROWS, ids=[f"{i}-{row.kernel}" for i, row in enumerate(ROWS)]
)
def test_details_in_contracts(row: Row, backend: str) -> None:
    outputs = row.outputs if isinstance(row.outputs, list) else []
    for name in {dtype for dtype, _ in row.inputs + outputs}:
        if name not in runtime(backend).dtypes:
            pytest.skip(f"{backend} has no {name}")
    with np.errstate(all="ignore"):
        inputs = [np.array(values).astype(dtype) for dtype, values in row.inputs]
    if isinstance(row.outputs, type):
        with pytest.raises(row.outputs, match=r"^\w+: "):
            _run(row, inputs)
        return
    for y, (dtype, values) in zip(_run(row, inputs), row.outputs, strict=True):
        wanted = np.array(values).astype(dtype)
        assert y.dtype == wanted.dtype
        np.testing.assert_array_equal(y, wanted)
        if y.dtype.kind == "f":
            zeros = wanted == 0
            np.testing.assert_array_equal(
                np.signbit(y)[zeros], np.signbit(wanted)[zeros]
            )


def _run(row: Row, inputs: list[Any]) -> list[Any]:
    found = pg.run_kernel(row.kernel, inputs, row.attrs)
    return [y.numpy() for y in (found if isinstance(found, tuple) else (found,))]
