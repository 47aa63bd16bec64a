"""Python's operators on tensors and variables: each symbol runs its op."""

import operator

import numpy as np
import plugrad as pg
import pytest

BINARY = [
    (operator.add, pg.add),
    (operator.sub, pg.subtract),
    (operator.mul, pg.multiply),
    (operator.truediv, pg.divide),
    (operator.floordiv, pg.floor_divide),
    (operator.mod, pg.remainder),
    (operator.pow, pg.pow),
    (operator.and_, pg.bitwise_and),
    (operator.or_, pg.bitwise_or),
    (operator.xor, pg.bitwise_xor),
    (operator.lshift, pg.bitwise_left_shift),
    (operator.rshift, pg.bitwise_right_shift),
    (operator.eq, pg.equal),
    (operator.ne, pg.not_equal),
    (operator.gt, pg.greater),
    (operator.ge, pg.greater_equal),
    (operator.lt, pg.less),
    (operator.le, pg.less_equal),
]
A = np.asarray([7, 2, 3], np.int32)
B = np.asarray([2, 2, 5], np.int32)


@pytest.mark.parametrize(("symbol", "op"), BINARY, ids=lambda f: f.__name__)
def test_operators(symbol, op, backend):
    a = pg.asarray(A)
    b = pg.asarray(B)
    expected = op(a, b).numpy()
    np.testing.assert_allclose(expected, symbol(A, B), rtol=1e-6)
    for x, y in [
        (a, b),
        (a, B),
        (A, b),
        (a, B.tolist()),
        (A.tolist(), b),
        (pg.Variable(a), b),
        (a, pg.Variable(b)),
        (pg.Variable(a), pg.Variable(b)),
        (pg.Variable(a), B),
        (A, pg.Variable(b)),
    ]:
        found = symbol(x, y)
        assert isinstance(found, pg.Tensor)
        np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("scalar", [5, np.int8(5), True], ids=repr)
@pytest.mark.parametrize(("symbol", "op"), BINARY, ids=lambda f: f.__name__)
def test_scalars_on_either_side(symbol, op, scalar, backend):
    for b in (pg.asarray(B), pg.Variable(pg.asarray(B))):
        left = symbol(scalar, b)
        right = symbol(b, scalar)
        assert isinstance(left, pg.Tensor)
        assert left.dtype == right.dtype == op(b, scalar).dtype
        as_int32 = np.int32(scalar)
        np.testing.assert_allclose(left.numpy(), symbol(as_int32, B), rtol=1e-6)
        np.testing.assert_allclose(right.numpy(), symbol(B, as_int32), rtol=1e-6)


UNARY = [(operator.neg, [-7, -2]), (operator.abs, [7, 2]), (operator.invert, [-8, -3])]


@pytest.mark.parametrize(("symbol", "expected"), UNARY, ids=lambda f: str(f))
def test_unary_operators(symbol, expected, backend):
    x = pg.asarray([7, 2])
    assert symbol(x).tolist() == symbol(pg.Variable(x)).tolist() == expected
    assert (~pg.asarray([True, False])).tolist() == [False, True]


def test_matrix_products(backend):
    a = np.arange(6.0).reshape(2, 3)
    b = np.arange(12.0).reshape(3, 4)
    x = pg.asarray(a)
    y = pg.asarray(b)
    for left, right in [
        (x, y),
        (x, b),
        (a, y),
        (pg.Variable(x), y),
        (x, pg.Variable(y)),
        (pg.Variable(x), b),
        (a, pg.Variable(y)),
    ]:
        found = left @ right
        assert isinstance(found, pg.Tensor)
        np.testing.assert_array_equal(found.numpy(), a @ b)


def test_logic_of_masks(backend):
    x = pg.asarray([1.0, 2.0, 3.0])
    assert ((x > 1) & (x < 3)).tolist() == [False, True, False]
    assert ((x < 2) | ~(x < 3)).tolist() == [True, False, True]
    assert ((x > 1) ^ True).tolist() == [True, False, False]


def test_objects_that_are_not_numbers_are_not_equal(backend):
    for x in (pg.asarray([1.0, 2.0]), pg.Variable([1.0, 2.0])):
        for other in (None, "x", object(), {}):
            assert (x == other) is False
            assert (x != other) is True
            assert (other == x) is False
    assert pg.asarray([1.0]) != {"a": 1}
    with pytest.raises(TypeError, match="cannot make a tensor of NoneType"):
        pg.asarray([1.0]) < None  # noqa: B015


def test_tensors_and_variables_are_hashable(backend):
    x = pg.asarray([1.0, 2.0])
    v = pg.Variable([1.0, 2.0])
    assert {x: 1, v: 2}[x] == 1
    assert {x, x, v} == {x, v}


def test_the_gradient_passes_through_every_operator(backend):
    f = lambda x: pg.sum((2 - x) * 3 / (1 + x) ** 2 - (5 % x) + 2**x - abs(-x) + x // 1)
    x = 1.5
    expected = (
        -3 / (1 + x) ** 2 - 6 * (2 - x) / (1 + x) ** 3 + 5 // x + 2**x * np.log(2) - 1
    )
    found = pg.grad(f)(pg.asarray(np.asarray([x])))
    np.testing.assert_allclose(found.numpy(), [expected])


def test_operators_read_variables(backend):
    v = pg.Variable([[1.0, 2.0], [3.0, 4.0]])
    x = pg.asarray([[1.0], [-1.0]])
    value, found = pg.variable_grads(lambda: pg.sum(2 - (v * 2) @ x))
    assert value.item() == 8.0
    assert found[v].tolist() == [[-2.0, 2.0], [-2.0, 2.0]]
    v.assign(v + 1)
    assert v.value.tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_in_place_operators_make_a_new_tensor(backend):
    x = y = pg.asarray([1.0])
    x += 1
    x *= 3
    assert (x.tolist(), y.tolist()) == ([6.0], [1.0])


def test_transposes_as_attributes(backend):
    x = pg.reshape(pg.arange(6), (2, 3))
    assert x.T.tolist() == x.mT.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert pg.ones((4, 2, 3)).mT.shape == (4, 3, 2)
    with pytest.raises(ValueError, match=r"T: is for matrices; .* got shape \(2,\)"):
        _ = pg.ones((2,)).T


def test_methods_are_the_ops(backend):
    methods = {"sum", "relu", "mean", "square"}  # the method reshape also takes sizes
    assert all(getattr(pg.Tensor, name) is getattr(pg, name) for name in methods)
    x = pg.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=0).tolist() == [4.0, 6.0]
    assert x.relu().reshape((4,)).max().item() == 4.0
    assert pg.Variable(x).mean().item() == 2.5
    assert pg.grad(lambda x: x.square().sum())(x).tolist() == (x * 2).tolist()
