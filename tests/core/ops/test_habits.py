"""Habits of NumPy, PyTorch and JAX users that work here, or get a helpful error."""

import inspect
import re
from operator import attrgetter

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.tools.names import answers
from plugrad_conformance.check import require_dtypes

from tests.surface import ops

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod", "std", "var"])
def test_axis_by_position(op, backend):
    x = pg.asarray(X)
    expected = getattr(np, op)(X, 0)
    np.testing.assert_allclose(getattr(pg, op)(x, 0).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(getattr(x, op)(0).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("op", ["all", "any", "argmax", "argmin"])
def test_axis_by_position_of_logical_and_index_reductions(op, backend):
    expected = getattr(np, op)(X, 1)
    np.testing.assert_array_equal(getattr(pg.asarray(X), op)(1).numpy(), expected)


def test_more_ops_take_the_axis_by_position(backend):
    x = pg.asarray(X)
    np.testing.assert_allclose(pg.cumulative_sum(x, 0).numpy(), np.cumsum(X, 0))
    assert pg.softmax(x, 0).sum(0).tolist() == [1.0, 1.0, 1.0]
    assert pg.logsumexp(x, 1).shape == pg.log_softmax(x, 1).sum(1).shape == (2,)


def test_reshape_takes_sizes_as_arguments(backend):
    x = pg.asarray(X)
    for y in (x.reshape(3, 2), x.reshape((3, 2)), x.reshape(3, -1)):
        assert y.shape == (3, 2)
    assert x.reshape(-1).shape == x.reshape(6).shape == (6,)
    assert pg.ones(1).reshape().shape == ()


def axis_calls():
    x = pg.asarray(X)
    at = pg.asarray([1, 0])
    mask = pg.asarray([True, False])
    yield lambda *axis, **named: pg.concat([x, x], *axis, **named)
    yield lambda *axis, **named: pg.stack([x, x], *axis, **named)
    yield lambda *axis, **named: pg.boolean_mask(x, mask, *axis, **named)
    yield lambda *axis, **named: pg.quantile(x, 0.5, *axis, **named)
    yield lambda *axis, **named: pg.repeat(x, 2, *axis, **named)
    yield lambda *axis, **named: pg.roll(x, 1, *axis, **named)
    yield lambda *axis, **named: pg.concat(pg.split(x, 2, *axis, **named))
    for op in (pg.argsort, pg.flip, pg.median, pg.sort):
        yield lambda *axis, op=op, **named: op(x, *axis, **named)
    yield lambda *axis, **named: pg.stack(pg.unstack(x, *axis, **named))
    for op in (pg.gather, pg.take):
        yield lambda *axis, op=op, **named: op(x, at, *axis, **named)
    along = pg.asarray([[1, 0, 1]])
    yield lambda *axis, **named: pg.take_along_axis(x, along, *axis, **named)


@pytest.mark.parametrize("call", range(len([*axis_calls()])))
def test_axis_after_the_tensors(call, backend):
    call = [*axis_calls()][call]
    assert call(0).tolist() == call(axis=0).tolist()


def test_axes_after_the_tensors(backend):
    x = pg.asarray(X)
    assert pg.tensordot(x, x, 2).item() == pg.tensordot(x, x, axes=2).item() == 55.0
    for op in (pg.fft.fftshift, pg.fft.ifftshift):
        assert op(x, 1).tolist() == op(x, axes=1).tolist()


IMAGE = np.ones((1, 4, 4, 2), np.float32)
FILTERS = np.ones((2, 2, 2, 3), np.float32)
OPTIONAL = {  # op: (required inputs, an optional input by name)
    "fused.conv2d": ([IMAGE, FILTERS], {"bias": [1.0, 2.0, 3.0]}),
    "fused.depthwise_conv2d": ([IMAGE, FILTERS], {"bias": np.arange(6, dtype="f4")}),
    "fused.matmul": ([X, X.T], {"bias": [1.0, 2.0]}),
    "batch_norm": ([X, X[0], X[1]], {"offset": X[1]}),
    "layer_norm": ([X], {"scale": [1.0, 2.0, 3.0]}),
    "losses.absolute_difference": ([X, X + 1], {"weights": X}),
    "losses.compute_weighted_loss": ([X], {"weights": X}),
    "losses.hinge_loss": ([X, X + 1], {"weights": X}),
    "losses.huber_loss": ([X, X + 1], {"weights": X}),
    "losses.log_loss": ([X / 6, X / 6], {"weights": X}),
    "losses.mean_squared_error": ([X, X + 1], {"weights": X}),
    "losses.sigmoid_cross_entropy": ([X / 6, X], {"weights": X}),
    "losses.softmax_cross_entropy": ([X / 6, X], {"weights": [1.0, 2.0]}),
    "eye": ([2], {"m": 3}),
}


@pytest.mark.parametrize("name", OPTIONAL)
def test_optional_inputs_have_names(name, backend):
    tensors, named = OPTIONAL[name]
    op = attrgetter(name)(pg)
    plain = op(*tensors)
    by_name = op(*tensors, **named)
    assert op(*tensors, *named.values()).tolist() == by_name.tolist()
    assert plain.tolist() != by_name.tolist()


def test_optional_inputs_are_named_everywhere():
    """Only required inputs are positional-only, with two exceptions."""
    exceptions = {"random.seed", "where"}  # the standard has where(cond, x1, x2, /)
    for name, op in ops().items():
        found = inspect.signature(op).parameters.values()
        hidden = [p.name for p in found if p.kind is p.POSITIONAL_ONLY]
        optional = [p.name for p in found if p.default is not p.empty]
        assert name in exceptions or not {*hidden} & {*optional}, name


@pytest.mark.parametrize("op", ["zeros", "ones", "empty"])
def test_sizes_as_arguments(op, backend):
    make = getattr(pg, op)
    assert make(2, 3).tolist() == make((2, 3)).tolist() == make(shape=(2, 3)).tolist()
    assert make(2, 3, dtype="int32", device=backend).dtype == np.int32
    with pytest.raises(TypeError, match=r"the sizes .*got \(2, 'int32'\).*dtype="):
        make(2, "int32")
    with pytest.raises(
        TypeError, match=rf"must be int.*as one argument, {op}\(\(2, 3\)\)"
    ):
        make((2, 3), 4)
    with pytest.raises(ValueError, match="must not be negative"):
        make(2, -3)


@pytest.mark.parametrize("op", ["uniform", "normal", "truncated_normal", "exponential"])
def test_sizes_of_random_numbers_are_one_argument(op, backend):
    with pytest.raises(TypeError, match=rf"got {op}\(0, 1\); write {op}\(\(2, 3\)\)"):
        getattr(pg.random, op)(0, 1)  # in NumPy, the mean and the deviation


@pytest.mark.parametrize("kind", [bool, int, float, complex])
def test_python_types_and_their_names_as_dtypes(kind, backend):
    require_dtypes(backend, "string", "complex128" if kind is complex else "float32")
    x = pg.asarray([1.0, 0.0])
    assert x.astype(kind).dtype == x.astype(kind.__name__).dtype
    assert pg.zeros(2, dtype=kind).dtype == pg.zeros(2, dtype=kind.__name__).dtype
    assert pg.asarray(["a"], dtype="str").dtype == pg.string


def test_format_specifications(backend):
    x = pg.asarray(3.14159)
    assert f"{x:.3f}" == f"{pg.Variable(x):.3f}" == f"{pg.asarray([[3.14159]]):.3f}"
    assert f"{pg.asarray(3):04d}" == "0003"
    assert f"{pg.asarray([1.0, 2.0])}" == repr(pg.asarray([1.0, 2.0]))
    for y in (pg.asarray([1.0, 2.0]), pg.Variable([1.0, 2.0])):
        with pytest.raises(TypeError, match=r"format: '.3f' is for one .*shape \(2,\)"):
            f"{y:.3f}"


def test_a_variable_is_updated_in_place(backend):
    v = w = pg.Variable([4.0, 8.0])
    v += 1.0
    v -= pg.asarray([1.0, 5.0])
    v *= 2.0
    v /= 4.0
    assert v is w
    assert v.tolist() == [2.0, 2.0]
    v.assign_add(1.0)
    v.assign_sub([1.0, 0.0])
    assert v.tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="cannot hold shape"):
        v += pg.ones((2, 2))
    with pytest.raises(TypeError, match="cannot hold float"):
        pg.Variable([1]).assign_add(0.5)
    assert w.tolist() == [2.0, 3.0]


def test_a_variable_converts_like_a_tensor(backend):
    v = pg.Variable([[1.0, 2.0]])
    number = pg.Variable(2.0)
    assert (len(v), v.ndim, v.size) == (1, 2, 2)
    assert (number.item(), float(number), int(number), bool(number)) == (
        2.0,
        2,
        2,
        True,
    )
    assert f"{number:.2f}" == "2.00"
    assert f"{number}" == repr(number)
    assert complex(number) == 2


def scaled(x, y, *, power=2):
    return pg.sum(x**power * y)


def test_gradients_with_respect_to_other_arguments(backend):
    x = pg.asarray([1.0, 2.0])
    y = pg.asarray([3.0, 5.0])
    assert pg.grad(scaled, argnums=1)(x, y).tolist() == [1.0, 4.0]
    dx, dy = pg.grad(scaled, argnums=(0, 1))(x, y)
    assert (dx.tolist(), dy.tolist()) == ([6.0, 20.0], [1.0, 4.0])
    assert pg.grad(scaled, argnums=-1)(x, y, power=3).tolist() == [1.0, 8.0]
    value, (dy,) = pg.value_and_grad(scaled, argnums=[1])(x, y)
    assert (value.item(), dy.tolist()) == (23.0, [1.0, 4.0])
    second = pg.grad(lambda x: pg.sum(pg.grad(scaled, argnums=1)(x, y)))(x)
    assert second.tolist() == [2.0, 4.0]


def test_auxiliary_results_of_a_function(backend):
    f = lambda x: (pg.sum(x * x), {"twice": x * 2, "name": "f"})
    x = pg.asarray([1.0, 2.0])
    (value, aux), dx = pg.value_and_grad(f, has_aux=True)(x)
    assert (value.item(), dx.tolist()) == (5.0, [2.0, 4.0])
    assert (aux["twice"].tolist(), aux["name"]) == ([2.0, 4.0], "f")
    dx, aux = pg.grad(f, has_aux=True)(x)
    assert (dx.tolist(), aux["name"]) == ([2.0, 4.0], "f")


def test_wrong_options_of_grad_are_errors(backend):
    with pytest.raises(ValueError, match="argnums 2 is out of range for 2 positional"):
        pg.grad(scaled, argnums=2)(1.0, 2.0)
    with pytest.raises(ValueError, match="names one argument twice"):
        pg.grad(scaled, argnums=(0, -2))(1.0, 2.0)
    with pytest.raises(TypeError, match=r"must return \(value, aux\), got Tensor"):
        pg.grad(lambda x: x, has_aux=True)(1.0)
    with pytest.raises(TypeError, match="argnums"):
        pg.grad(scaled, argnums="x")
    with pytest.raises(TypeError, match="has_aux"):
        pg.grad(scaled, has_aux="yes")


@pytest.mark.parametrize("name", sorted(answers()))
def test_the_error_for_a_name_of_another_library_names_ours(name):
    row = answers()[name]
    message = f"'{name}'; it is plugrad.{row.here} here" if row.here else row.remark
    assert not row.here or attrgetter(row.here)(pg) is not None
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(pg, name)


MESSAGES = {  # name that a user writes: pattern of the message
    "arcsin": "it is plugrad.asin here$",
    "concatenate": "it is plugrad.concat here",
    "det": "it is plugrad.linalg.det here$",
    "dot": "it is plugrad.matmul here",
    "compile": "plugrad.jit",
    "no_grad": "leave it out: only .* is recorded; `pg.stop_gradient",
    "cross_entropy": r"losses.softmax_cross_entropy here \(the labels come first",
    "binary_cross_entropy": r"losses.log_loss here \(the labels come first\)$",
    "func": "the functions are in plugrad itself: `pg.grad`, `pg.custom_grad`",
    "random.PRNGKey": "it is plugrad.random.key here",
    "random.randn": "'plugrad.random' .*; it is plugrad.random.normal here",
    "linalg.norm": "'plugrad.linalg' .*; it is plugrad.linalg.vector_norm here",
    "linalg.sum": "it is plugrad.sum here$",
    "linalg.svdd": r"did you mean 'svd'\?$",
    "linalg._svd": "has no attribute '_svd'$",
    "trace": "it is plugrad.linalg.trace here$",
    "tree_map": "it is plugrad.tree.map here$",
    "zzzzz": "has no attribute 'zzzzz'$",
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_for_unknown_names(name):
    with pytest.raises(AttributeError, match=MESSAGES[name]):
        attrgetter(name)(pg)
    assert not hasattr(pg, name)


def test_a_misspelt_name(backend):
    with pytest.raises(AttributeError, match=r"'softmaxx'; did you mean 'softmax'\?"):
        _ = pg.softmaxx
    with pytest.raises(AttributeError, match=r"has no attribute '_private'$"):
        _ = pg._private


def test_the_error_of_a_numpy_function_names_ours(backend):
    x = pg.asarray([1.0, 2.0])
    with pytest.raises(TypeError, match=r"np.exp does not .*; use plugrad.exp, or"):
        np.exp(x)
    with pytest.raises(TypeError, match=r"np.arcsin does not .*; use plugrad.asin, or"):
        np.arcsin(x)
    with pytest.raises(TypeError, match=r"np.add does not accept"):
        np.add(np.ones(2, "f4"), x, out=np.ones(2, "f4"))
    with pytest.raises(TypeError, match=r"np.multiply does not accept"):
        np.multiply.reduce(x)
    with pytest.raises(TypeError, match=r"np.spacing does not accept .* a plugrad op"):
        np.spacing(pg.Variable(x))


OPERATORS = [
    *(lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b),
    *(lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a**b, lambda a, b: a < b),
    *(lambda a, b: a >= b, lambda a, b: a == b, lambda a, b: a != b),
]


@pytest.mark.parametrize("op", range(len(OPERATORS)))
def test_operators_of_an_array_and_a_tensor(op, backend):
    a = np.array([3.0, 2.0], np.float32)
    b = np.array([2.0, 2.0], np.float32)
    f = OPERATORS[op]
    for left in (a, np.float32(3.0)):
        y = f(left, pg.asarray(b))
        assert isinstance(y, pg.Tensor)
        np.testing.assert_allclose(y.numpy(), f(left, b), rtol=1e-6)
        assert isinstance(f(left, pg.Variable(b)), pg.Tensor)
    if op < 4:
        dx = pg.grad(lambda x: pg.sum(f(a, x)))(pg.asarray(b))
        assert dx.shape == (2,)


def test_operators_of_a_numpy_array_of_integers_and_a_tensor(backend):
    a = np.array([6, 5], np.int32)
    x = pg.asarray([3, 1])
    assert (a & x).tolist() == [2, 1]
    assert (a | x).tolist() == [7, 5]
    assert (a ^ x).tolist() == [5, 4]
    assert (a << x).tolist() == [48, 10]
    assert (a >> x).tolist() == [0, 2]
    assert (np.eye(2, dtype="f4") @ pg.asarray([1.0, 2.0])).tolist() == [1.0, 2.0]


def test_completion_shows_public_names():
    shown = dir(pg)
    assert {"float32", "Tensor", "grad", "random", "tree", "__version__"} <= {*shown}
    assert not {"Any", "TYPE_CHECKING", "accelerated", "import_module"} & {*shown}
    assert not [name for name in shown if name.startswith("_") and "__" not in name]
    assert all(hasattr(pg, name) for name in shown)


@pytest.mark.parametrize("axes", [(), ((1, 0, 2),), ([2, 0, 1],), ((-1, 1, 0),)])
def test_the_method_transpose(axes, backend):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    expected = x.transpose(*axes)
    for tensor in (pg.asarray(x), pg.Variable(x)):
        np.testing.assert_array_equal(tensor.transpose(*axes).numpy(), expected)


@pytest.mark.parametrize("axes", [(0, 1), (0,), (None,), ((0, 1), (1, 0))])
def test_transpose_takes_one_sequence(axes, backend):
    with pytest.raises(
        TypeError, match=r"transpose: pass the new order as one sequence"
    ):
        pg.asarray(X).transpose(*axes)


LOST_GRADIENT = (
    r"np.asarray: a tensor of shape \(2,\) is being differentiated, and has no grad"
)
RECORDED = [
    lambda x, v: pg.grad(lambda x: pg.sum(x * np.asarray(x)))(x),
    lambda x, v: pg.grad(lambda x: pg.sum(np.array([1.0, 1.0]) * np.asarray(2 * x)))(x),
    lambda x, v: pg.vjp(lambda x: pg.asarray(np.array(x, np.float64)), x),
    lambda x, v: pg.variable_grads(lambda: pg.sum(v * np.asarray(v))),
]
NOT_RECORDED = [
    lambda x, v: np.asarray(x),
    lambda x, v: (np.asarray(v), pg.variable_grads(lambda: pg.sum(v * v))),
    lambda x, v: pg.grad(lambda x: pg.sum(x * x.numpy()))(x),
    lambda x, v: pg.grad(lambda x: pg.sum(x * np.asarray(pg.stop_gradient(x))))(x),
    lambda x, v: pg.grad(lambda y: pg.sum(y * np.asarray(x)))(pg.asarray([1.0, 1.0])),
    lambda x, v: pg.grad(lambda x: pg.sum(x * np.asarray(pg.argmax(x))))(x),
]


@pytest.mark.parametrize("call", RECORDED)
def test_a_gradient_that_is_lost_in_numpy_warns(call, backend):
    x = pg.asarray([1.0, 2.0])
    with pytest.warns(UserWarning, match=LOST_GRADIENT) as warned:
        call(x, pg.Variable(x))
    assert warned[0].filename == __file__


@pytest.mark.parametrize("call", NOT_RECORDED)
def test_conversions_that_lose_no_gradient_do_not_warn(call, backend):
    x = pg.asarray([1.0, 2.0])
    call(x, pg.Variable(x))  # warnings are errors


def test_numpy_inside_of_custom_grad(backend):
    exp = pg.custom_grad(
        lambda x: (pg.asarray(np.exp(np.asarray(x))), lambda dy: dy * pg.exp(x))
    )
    slope = pg.grad(lambda x: pg.sum(exp(x)))
    x = pg.asarray([0.0, 0.0])
    assert slope(x).tolist() == [1.0, 1.0]
    assert pg.grad(lambda x: pg.sum(slope(x)))(x).tolist() == [1.0, 1.0]


def test_a_namespace_lists_its_public_names():
    assert dir(pg.random) == sorted(pg.random.__all__)
    assert "normal" in dir(pg.random)
    from plugrad.linalg import svd

    assert svd is pg.linalg.svd
