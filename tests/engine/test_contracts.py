"""The grammar of contracts, and rules for outputs against what kernels return."""

import numpy as np
import plugrad as pg
import pytest
from plugrad._context import observing
from plugrad._tape import spec
from plugrad.plugin import Kernel


def test_the_grammar():
    norm = Kernel("test.Norm(x, mean, scale?, offset?; epsilon)")
    assert repr(norm) == "test.Norm(x, mean, scale?, offset?; epsilon) -> y"
    assert norm.optional == {"scale", "offset"}
    ragged = Kernel("test.Ragged(*splits, values) -> *ys")
    assert repr(ragged) == "test.Ragged(*splits, values) -> *ys"
    assert ragged.bind([1, 2, 3]) == {"splits": (1, 2), "values": 3}
    with pytest.raises(TypeError, match="3 inputs do not fit"):
        norm.bind([1, 2, 3])


@pytest.mark.parametrize("words", ["x, y", "x, x", "x y", "x,,z", "3"])
def test_names_are_disjoint(words):
    with pytest.raises(ValueError, match="names must be identifiers and differ"):
        Kernel(f"test.Clash({words})")


def test_declaring_registers_nothing_and_two_must_agree():
    Kernel("test.Ghost(x)")
    with pytest.raises(ValueError, match=r"unknown kernel 'test\.Ghost'"):
        pg.run_kernel("test.Ghost", [], {})
    pg.register_kernel(Kernel("test.Twice(x)"), "cpu", np.exp)
    with pytest.raises(ValueError, match="is already declared as"):
        pg.register_kernel(Kernel("test.Twice(a, b)"), "cpu", np.add)
    with pytest.raises(ValueError, match="needs a dotted name"):
        pg.register_kernel(Kernel("Swish(x)"), "cpu", np.exp)


RUNS = [
    lambda x: pg.softmax(x) / 2 > x,
    lambda x: pg.max(x, axis=0, keepdims=True) == pg.mean(x, axis=1),
    lambda x: pg.split(pg.concat([x, x], axis=1), [2, 4], axis=1),
    lambda x: pg.astype(pg.broadcast_to(pg.reshape(x, (9, 1)), (9, 2)), "int32"),
    lambda x: pg.fused.conv2d(pg.reshape(x, (1, 3, 3, 1)), np.ones((2, 2, 1, 1))),
]


@pytest.mark.parametrize("run", RUNS)
def test_output_rules_agree_with_the_kernels(run, backend):
    def check(kernel, inputs, attrs, outputs):
        expected = kernel.out(*(x if x is None else spec(x) for x in inputs), **attrs)
        expected = (expected,) if kernel.single else expected
        assert tuple(map(spec, outputs)) == expected, kernel

    with observing(check):
        run(pg.asarray(np.ones((3, 3))))


@pytest.mark.parametrize(
    ("name", "inputs", "given", "message"),
    [
        ("AvgPool", 1, {}, "missing.*'filter_size'; give filter_size, or"),
        ("Conv2DBackpropInput", 2, {"pad": 1}, "missing.*'in_shape'; give in_shape"),
        ("ResizeBilinear", 1, {"size": 2, "to": 1}, "'to'; give size, align_corners"),
        ("Conv2D", 2, {"k": 3}, "has no k"),
    ],
)
def test_attributes_that_do_not_fit_are_named(name, inputs, given, message):
    xs = [pg.ones((1, 4, 4, 2)), pg.ones((2, 2, 2, 2))][:inputs]
    with pytest.raises(TypeError, match=rf"{name}: .*{message}"):
        pg.run_kernel(name, xs, given)
