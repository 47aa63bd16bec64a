"""Element-wise regions give the same bits as eager mode."""

import functools

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts
from plugrad_llvm.kernels import ELEMENTWISE

from .helpers import SPECIAL, check, values

ATTRS = {
    "ClipByValue": [
        {"min": low, "max": high}
        for low, high in [(-1.0, 0.5), (0.0, np.inf), (np.nan, 1.0), (0.0, np.nan)]
    ],
    "LeakyRelu": [{"alpha": 0.2}, {"alpha": -1.5}],
    "Step": [{"alpha": 0.0}, {"alpha": 0.3}],
    "BroadcastTo": [],  # not tried here
    "Cast": [],
    "Pow": [],
}
NAMES = sorted(set(ELEMENTWISE) - {name for name, rows in ATTRS.items() if not rows})
LENGTHS = [*range(1, 34), 1000]


def after_another(name, attrs, x, *more):
    """Run a kernel after another one, because a single kernel is not compiled."""
    first = pg.logical_not(x) if x.dtype.kind == "b" else -x
    return pg.run_kernel(name, [first, *more], attrs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_each_kernel(name, dtype):
    kernel = contracts()[name]
    kinds = ELEMENTWISE[name].kinds
    if dtype == "float64" and "d" not in kinds and name != "Select":
        assert name not in {"Add", "Multiply"}
        return
    count = 3 if kernel.variadic else len(kernel.inputs)
    for attrs in ATTRS.get(name, [{}]):
        f = functools.partial(after_another, name, attrs)
        for n in LENGTHS:
            xs = [values(n, seed, dtype) for seed in range(count)]
            if "?" in kinds:
                xs = [x > 0 for x in xs[: 1 if name == "Select" else count]]
                xs += [values(n, 9, dtype), values(n, 8, dtype)][: count - len(xs)]
            others = [x[::-1].copy() for x in xs]
            assert len(check(f, xs, others)[0]) == 2


def test_all_pairs_of_special_numbers():
    a, b = (x.ravel().astype("float32") for x in np.meshgrid(SPECIAL, SPECIAL))
    for name in NAMES:
        kernel = contracts()[name]
        if len(kernel.inputs) == 2 and "?" not in ELEMENTWISE[name].kinds:
            f = functools.partial(after_another, name, {})
            assert len(check(f, [a, b])[0]) == 2
