"""Variables: ops read them, tapes watch them, and programs assign them."""

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.context import Scope


def test_ops_and_operators_accept_variables(backend):
    v = pg.Variable([1.0, 2.0])
    assert (v * 2).tolist() == (2 * v).tolist() == pg.multiply(v, 2.0).tolist()
    assert (v + v).tolist() == [2.0, 4.0]
    assert pg.sum(v).item() == 3.0
    assert (v.shape, v.dtype) == ((2,), np.float32)


def test_gradients_with_respect_to_the_variables_that_were_read(backend):
    w = pg.Variable([1.0, 2.0])
    b = pg.Variable(3.0)
    unread = pg.Variable(1.0)
    frozen = pg.Variable(5.0, trainable=False)
    steps = pg.Variable(7)
    value, grads = pg.variable_grads(lambda: pg.sum(w * w * frozen) + b * steps)
    assert value.item() == 46.0
    assert {v: g.tolist() for v, g in grads.items()} == {w: [10.0, 20.0], b: 7.0}
    _, chosen = pg.variable_grads(lambda: pg.sum(w * frozen), [frozen, unread])
    assert [g.item() for g in chosen.values()] == [3.0, 0.0]


def test_a_variable_that_f_assigns(backend):
    v = pg.Variable(3.0)

    def f():
        v.assign(v * v)
        return v * 2.0

    value, grads = pg.variable_grads(f)
    assert (value.item(), grads[v].item()) == (18.0, 12.0)
    assert v.value.item() == 9.0


def test_second_derivatives_with_respect_to_variables(backend):
    v = pg.Variable(3.0)

    def slope():
        _, grads = pg.variable_grads(lambda: v * v * v)
        return grads[v]

    assert pg.variable_grads(slope)[1][v].item() == 18.0
    mixed_derivative = pg.grad(lambda x: pg.variable_grads(lambda: v * v * x)[1][v])
    assert mixed_derivative(2.0).item() == 6.0


def test_a_variable_among_the_arguments_of_grad(backend):
    v = pg.Variable([2.0])
    assert pg.grad(lambda p: pg.sum(p["v"] * p["v"]))({"v": v})["v"].tolist() == [4.0]


def test_training_steps(backend):
    v = pg.Variable(4.0)
    for _ in range(50):
        _, grads = pg.variable_grads(lambda: (v - 1.0) * (v - 1.0))
        v.assign(v - 0.1 * grads[v])
    assert v.value.item() == pytest.approx(1.0, abs=1e-3)


def test_wrong_assignments_and_wrong_gradients_are_refused(backend):
    v = pg.Variable([1.0], name="bias")
    with pytest.raises(ValueError, match=r"'bias'.*cannot hold shape \(2,\)"):
        v.assign([1.0, 2.0])
    with pytest.raises(TypeError, match="cannot hold int32; cast it"):
        v.assign([1])
    assert v.value.tolist() == [1.0]
    with pytest.raises(TypeError, match="is not a floating Variable"):
        pg.variable_grads(lambda: pg.sum(v), [pg.Variable(1)])
    with pytest.raises(ValueError, match="f has read no trainable variable"):
        pg.variable_grads(lambda: pg.ones(()))
    with pytest.raises(ValueError, match="must return a scalar"):
        pg.variable_grads(lambda: v * 2.0)


def test_two_variables_of_one_tensor_are_independent(backend):
    x = pg.asarray(1.0)
    a = pg.Variable(x)
    b = pg.Variable(x)
    _, grads = pg.variable_grads(lambda: 2.0 * a + 3.0 * b)
    assert (grads[a].item(), grads[b].item()) == (2.0, 3.0)
    a.assign(b.value)
    _, grads = pg.variable_grads(lambda: 2.0 * a + 3.0 * b)
    assert (grads[a].item(), grads[b].item()) == (2.0, 3.0)
    x.dispose()
    assert a.value.item() == 1.0
    np.testing.assert_array_equal(np.asarray(a), 1.0)


@pytest.mark.parametrize(
    "op",
    [
        lambda v, x: v + x,
        lambda v, x: x * v,
        lambda v, x: 2.0 * v,
        pg.matmul,
        lambda v, x: pg.vmap(lambda row: row - v)(x),
    ],
)
def test_an_op_tells_observers_once_that_it_reads_a_variable(op):
    class Observer:
        def __init__(self):
            self.read = []

        def __call__(self, *_):
            pass

        def variable(self, v):
            self.read.append(v)

    v = pg.Variable(np.ones((2, 2), np.float32))
    observer = Observer()
    with Scope(observer=observer):
        op(v, pg.ones((2, 2)))
    assert observer.read == [v]


def test_an_op_on_a_variable_is_recorded_by_all_tapes():
    v = pg.Variable(3.0)
    inner = lambda: pg.variable_grads(lambda: v * v * 2.0)[1][v]
    assert pg.variable_grads(inner)[1][v].item() == 4.0
    assert pg.variable_grads(lambda: v - v, [v])[1][v].item() == 0.0
