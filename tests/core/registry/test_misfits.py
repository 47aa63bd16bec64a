"""Errors of output rules for kernels that are run by name with unsuitable inputs."""

import numpy as np
import plugrad as pg
import pytest

X = np.ones((2, 3), np.float32)
N = np.ones((2, 3), np.int32)
CUMULATIVE = {"exclusive": False, "reverse": False}
MISFITS = [
    ("Add", [X, X[:, :2]], {}, ValueError, r"\(2, 3\) and \(2, 2\) do not broadcast"),
    ("Add", [X, X > 0], {}, TypeError, "'b' must be float32, the dtype of a, got bool"),
    ("AddN", [], {}, ValueError, "inputs must have the same shape"),
    ("AddN", [X, X[0]], {}, ValueError, r"same shape; got shapes \(2, 3\) and \(3,\)"),
    ("EluGrad", [X, X[0]], {}, ValueError, "inputs must have the same shape"),
    ("Complex", [X, X[:1]], {}, ValueError, "inputs must have the same shape"),
    ("Complex", [N, N], {}, TypeError, "'real' must be float32 | float64, got int32"),
    ("Select", [X, X, X], {}, TypeError, "'condition' must be bool, got float32"),
    ("Sqrt", [N], {}, TypeError, "'x' must be inexact, got int32"),
    ("ClipByValue", [X], {"min": 2, "max": 1}, ValueError, "clip: min 2 is more than"),
    (
        "ClipByValue",
        [N],
        {"min": 0, "max": 0.5},
        TypeError,
        "clip: int32 cannot hold 0.5; cast x",
    ),
    ("ClipByValue", [X], {"min": 0, "max": 1j}, TypeError, "float32 cannot hold 1j"),
    ("ClipByValue", [N], {"min": 0, "max": 2**40}, OverflowError, "does not fit into"),
    ("LeakyRelu", [X], {"alpha": 1e39}, OverflowError, "leaky_relu: 1e[+]39 does not"),
    ("Step", [X], {"alpha": "x"}, TypeError, "Step: alpha must be a number, got 'x'"),
    (
        "Cumsum",
        [X[0, 0]],
        {"axis": 0, **CUMULATIVE},
        ValueError,
        "axis 0 is out of range",
    ),
    ("Cumprod", [X], {"axis": 2, **CUMULATIVE}, ValueError, "axis 2 is out of range"),
    (
        "Bincount",
        [N, X[0]],
        {"size": 3},
        ValueError,
        r"weights \(3,\) must have the sh",
    ),
    ("Bincount", [N, None], {"size": -1}, ValueError, "size -1 must be 0 or more"),
    ("Bincount", [X, None], {"size": 3}, TypeError, "'x' must be int32 | int64"),
    (
        "DenseBincount",
        [N[0, 0], None],
        {"size": 3, "binary_output": False},
        ValueError,
        "dense_bincount: x has no axes",
    ),
    ("Einsum", [], {"equation": "a->a"}, ValueError, "needs 1 operands, got 0"),
    (
        "Einsum",
        [X, X],
        {"equation": "ab,cb"},
        ValueError,
        "with 'ab,cb->ac' and shapes",
    ),
    ("Einsum", [X], {"equation": "...a->..."}, ValueError, "is not canonical"),
    ("Einsum", [X, X], {"equation": "ab,bc->ac"}, ValueError, "'b' in .* has sizes 3"),
]


@pytest.mark.parametrize(("kernel", "inputs", "attrs", "error", "message"), MISFITS)
def test_misfits_are_refused(kernel, inputs, attrs, error, message):
    with pytest.raises(error, match=message):
        pg.run_kernel(kernel, inputs, attrs)
