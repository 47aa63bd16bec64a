"""``custom_grad``: all kinds of arguments, higher orders, captures and misuse."""

import numpy as np
import plugrad as pg
import pytest


@pg.custom_grad
def clip_gradient(x, limit=1, note="kept"):
    assert type(limit) is int
    assert type(note) is str
    return x, lambda dy: pg.clip(dy, -limit, limit)


@pg.custom_grad
def dense(params, x, activate):
    """Return a layer; its value and its arguments are nested structures."""
    y = x @ params["w"] + params["b"][0]
    z = pg.tanh(y) if activate else y

    def grad_func(dys):
        dy = dys["z"] * (1 - z * z) if activate else dys["z"]
        return {"w": x.T @ dy, "b": [pg.sum(dy, axis=0)]}, dy @ params["w"].T

    return {"z": z, "untouched": (x,)}, grad_func


def _layer(params, x, activate):
    y = x @ params["w"] + params["b"][0]
    return pg.tanh(y) if activate else y


@pytest.mark.parametrize("passed_by", ["position", "name", "default"])
def test_static_arguments_keep_their_types(passed_by, backend):
    f = {
        "position": lambda x: clip_gradient(10.0 * x, 1, "kept"),
        "name": lambda x: clip_gradient(10.0 * x, note="kept", limit=1),
        "default": lambda x: clip_gradient(10.0 * x),
    }[passed_by]
    assert pg.value_and_grad(f)(2.0)[0].item() == 20.0
    assert pg.grad(f)(2.0).item() == 10.0
    scaled = lambda x: f(x) * 5.0
    assert pg.grad(scaled)(2.0).item() == 10.0  # 5 is clipped to 1


@pytest.mark.parametrize("activate", [True, False])
@pytest.mark.parametrize("order", [1, 2])
def test_nested_structures(activate, order, backend):
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(3, 2)), "b": [rng.normal(size=2)]}
    params = {
        "w": params["w"].astype(np.float32),
        "b": [params["b"][0].astype(np.float32)],
    }
    x = rng.normal(size=(4, 3)).astype(np.float32)
    by_hand = lambda p, x: pg.sum(pg.square(dense(p, x, activate)["z"]))
    plain = lambda p, x: pg.sum(pg.square(_layer(p, x, activate)))
    if order == 2:
        twice = lambda f: lambda p, x: pg.sum(pg.square(pg.grads(f)(p, x)[0]["w"]))
        by_hand = twice(by_hand)
        plain = twice(plain)
    found = pg.grads(by_hand)(params, x)
    wanted = pg.grads(plain)(params, x)
    for a, b in [
        (found[0]["w"], wanted[0]["w"]),
        (found[0]["b"][0], wanted[0]["b"][0]),
        (found[1], wanted[1]),
    ]:
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)


def test_one_argument_that_is_a_list(backend):
    @pg.custom_grad
    def first(xs):
        return xs[0] * 1.0, lambda dy: [dy * 3.0, None]

    grads = pg.grad(lambda xs: first(xs))([2.0, 5.0])
    assert [g.item() for g in grads] == [3.0, 0.0]


def test_several_outputs_take_one_cotangent_each(backend):
    @pg.custom_grad
    def split(x):
        return (x * 1.0, [x * 2.0]), lambda a, b: a + 2.0 * b[0]

    f = lambda x: (lambda y, z: y * 3.0 + z[0])(*split(x))
    assert pg.grad(f)(1.0).item() == 5.0


CAPTURES = {
    "a tensor": lambda w: pg.custom_grad(lambda x: (x * w, lambda dy: dy * w)),
    "a plain value": lambda w: pg.custom_grad(lambda x: (w, lambda dy: dy)),
    "inside of another": lambda w: pg.custom_grad(
        lambda x: (pg.custom_grad(lambda y: (y * w, lambda dy: dy))(x), lambda dy: dy)
    ),
}


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_captured_tensor_is_refused(capture, backend):
    with pytest.raises(TypeError, match="is not an argument"):
        pg.grads(lambda x, w: CAPTURES[capture](w)(x))(2.0, 3.0)
    assert pg.exp(1.0)._tape_id is None


def test_a_captured_variable_is_refused(backend):
    w = pg.Variable(3.0)
    layer = pg.custom_grad(lambda x: (x * w.value, lambda dy: dy * w.value))
    for factor in (0.0, 1.0):  # with 1, w is also read before the layer runs
        with pytest.raises(
            TypeError, match=r"reads a tensor .* pass it as an argument"
        ):
            pg.variable_grads(lambda b=factor: w * b + layer(2.0) if b else layer(2.0))
    assert layer(2.0).item() == 6.0  # nothing is differentiated


def test_a_tensor_inside_stop_gradient_may_be_captured(backend):
    w = pg.asarray(3.0)
    layer = lambda w: pg.custom_grad(
        lambda x: (x * pg.stop_gradient(w), lambda dy: dy * pg.stop_gradient(w))
    )
    assert pg.grad(lambda x: layer(w)(x))(2.0).item() == 3.0
    assert [g.item() for g in pg.grads(lambda x, w: layer(w)(x))(2.0, 3.0)] == [
        3.0,
        0.0,
    ]


def test_a_tensor_that_only_an_outer_tape_tracks_may_be_captured(backend):
    """The derivative of ``x * w`` with respect to ``x`` and then to ``w`` is 1."""

    def slope(w):
        times_w = pg.custom_grad(lambda x: (x * w, lambda dy: dy * w))
        return pg.grad(times_w)(2.0)

    assert pg.grad(slope)(3.0).item() == 1.0


WRONG_COTANGENTS = [
    (lambda x: (x, lambda dy: (dy, dy)), "for each input: 1, got 2"),
    (lambda x, n: (x, lambda dy: (dy, dy)), "an argument without tensors"),
    (lambda x, n: (x, lambda dy: (dy, None, dy)), "for each input: 1, got 3"),
]


@pytest.mark.parametrize(("f", "message"), WRONG_COTANGENTS)
def test_wrong_numbers_of_cotangents_are_refused(f, message, backend):
    static = f.__code__.co_argcount - 1
    with pytest.raises(ValueError, match=message):
        pg.grad(lambda x: pg.custom_grad(f)(x, *[3] * static))(1.0)


def test_cotangents_with_a_wrong_structure_are_refused(backend):
    for wrong in ({"b": 1.0}, (1.0,), 1.0):
        f = pg.custom_grad(lambda p, w=wrong: (p["a"] * 1.0, lambda dy: w))
        with pytest.raises(ValueError, match="must have the structure of its argument"):
            pg.grad(lambda p, f=f: f(p))({"a": 2.0})


def test_arguments_that_f_does_not_accept_are_refused(backend):
    with pytest.raises(
        TypeError, match=r"custom_grad: .*clip_gradient: got an unexpected"
    ):
        clip_gradient(1.0, limits=2)
    keyword_only = pg.custom_grad(lambda x, *, n: (x * n, lambda dy: dy * n))
    with pytest.raises(TypeError, match=r"keyword-only parameters \(n\)"):
        keyword_only(1.0, n=2)
