"""Replays give the same bits as eager mode, for the recorded numbers and others."""

import dataclasses
import xml.etree.ElementTree as ElementTree
from collections import namedtuple

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

from .helpers import floats, kernels, look, reason, runs

Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Layer:
    weights: pg.Tensor
    name: str = dataclasses.field(default="layer", metadata={"static": True})


@pg.custom_grad
def doubled(x):
    return x * x, lambda dy: dy * 2 * x


def assigned(x):
    y = x * 2
    y[1] = 7.0
    return y, x


def local_variable(x):
    v = pg.Variable(x * 2)
    v.assign(v + x)
    return v.value


def on_the_host(x):
    with pg.use_backend("cpu"):
        return x + 1


def with_unused_results(x):
    pg.exp(x)
    return x


X = floats(3, 4)
Y = floats(3, 4, scale=0.5)
# name: (function, arguments of the first call, arguments of another call)
CALLS = {
    "one": (lambda x: pg.tanh(x * x), (X,), (Y,)),
    "gradient": (pg.grad(lambda x: pg.sum(pg.tanh(x * x + x))), (X,), (Y,)),
    "second order": (
        pg.grad(lambda x: pg.sum(pg.grad(lambda x: pg.sum(pg.sin(x) * x))(x) ** 2)),
        (X,),
        (Y,),
    ),
    "vjp": (lambda x: pg.vjp(pg.exp, x)[1](x), (X,), (Y,)),
    "jvp": (lambda x: pg.jvp(pg.exp, [x], [x]), (X,), (Y,)),
    "hessian": (pg.hessian(lambda x: pg.sum(x**3)), (X[0],), (Y[0],)),
    "vmap": (pg.vmap(lambda x: pg.softmax(x) * 2), (X,), (Y,)),
    "vmap of grad": (pg.vmap(pg.grad(lambda x: pg.sum(x**2))), (X,), (Y,)),
    "grad of vmap": (
        pg.grad(lambda x: pg.sum(pg.vmap(lambda x: x * pg.sum(x))(x))),
        (X,),
        (Y,),
    ),
    "custom_grad": (pg.grad(lambda x: pg.sum(doubled(x))), (X,), (Y,)),
    "stop_gradient": (
        pg.grad(lambda x: pg.sum(x * pg.stop_gradient(x))),
        (X,),
        (Y,),
    ),
    "jit in jit": (pg.jit(lambda x: pg.jit(pg.exp)(x) + 1), (X,), (Y,)),
    "trees": (
        lambda p: {"b": [p["w"] + 1], "a": (p["n"], None, Pair(p["w"], 3))},
        ({"w": X, "n": Y},),
        ({"w": Y, "n": X},),
    ),
    "dataclass": (
        lambda layer: dataclasses.replace(layer, weights=layer.weights * 2),
        (Layer(X),),
        (Layer(Y),),
    ),
    "numpy arguments": (lambda x: pg.multiply(x, 2), (X.numpy(),), (Y.numpy(),)),
    "static values": (
        lambda x, n, how: pg.sum(x, axis=n) if how == "sum" else x,
        (X, 1, "sum"),
        (Y, 1, "sum"),
    ),
    "the same tensor twice": (lambda x, y: x - 2 * y, (X, X), (X, Y)),
    "two tensors, then one": (lambda x, y: x - 2 * y, (X, Y), (Y, Y)),
    "an argument is returned": (lambda x: x, (X,), (Y,)),
    "a result twice": (lambda x: [y := x + 1, y, x], (X,), (Y,)),
    "a constant": (lambda x: pg.zeros(3), (X,), (Y,)),
    "a large constant": (lambda x: pg.sum(pg.ones((200, 200)) * 2) + x, (X,), (Y,)),
    "an item is assigned": (assigned, (X,), (Y,)),
    "a local variable": (local_variable, (X,), (Y,)),
    "truth values": (
        lambda x, y: (pg.sum(x) > 0, pg.logical_and(pg.sum(y) > 0, pg.sum(x) > -9)),
        (X, Y),
        (-X, -Y),
    ),
    "another backend": (
        lambda x: (x.to("toy") * 2, on_the_host(x.to("toy"))),
        (X,),
        (Y,),
    ),
    "a decomposition": (
        lambda x: pg.softmax(x.to("toy")).to("cpu"),
        (X,),
        (Y,),
    ),
    "nothing is used": (with_unused_results, (X,), (Y,)),
    "no tensors": (lambda n: pg.arange(n), (3,), (3,)),
    "several outputs": (lambda x: pg.top_k(x, 2)[1], (X,), (Y,)),
    "optional inputs": (lambda x: pg.layer_norm(x), (X,), (Y,)),
    "variadic": (lambda x, y: pg.concat([x, y, x]), (X, Y), (Y, X)),
    "strings": (
        pg.strings.to_hash_bucket_fast,
        (pg.asarray(["a", "b"]), 7),
        (pg.asarray(["c", "a"]), 7),
    ),
    "complex": (lambda x: pg.fft.fft(pg.astype(x, "complex64")), (X,), (Y,)),
}


@pytest.mark.parametrize("name", CALLS)
def test_replays_have_the_bits_of_eager_mode(name, toy):
    f, first, other = CALLS[name]
    jitted = pg.jit(f)
    for args in (first, first, other, first):
        assert look(jitted(*args)) == look(f(*args))
    assert reason(jitted, *first) == ""
    if name != "the same tensor twice":
        assert len(jitted.explain(*other).retraces) == 0


def test_python_does_not_run_again():
    @pg.jit
    def f(x):
        runs()
        return x + 1

    before = runs()
    for _ in range(5):
        f(X)
    assert runs() == before + 3


def test_a_returned_argument_is_the_argument():
    jitted = pg.jit(lambda x, y: {"same": x, "new": x + y})
    jitted(X, Y)
    assert jitted(X, Y)["same"] is X


def test_a_tensor_returned_twice_is_one():
    jitted = pg.jit(lambda x: (y := x + 1, y))
    for _ in range(3):
        first, second = jitted(X)
        assert first is second


def test_another_order_of_a_dict_is_recorded_again():
    """The order of a dict determines the order of a sum, and therefore its bits."""
    big = pg.asarray(1e8)
    small = pg.asarray(1.0)
    jitted = pg.jit(lambda p: sum(p.values()) - 1e8)
    one = {"a": big, "b": small, "c": -big}
    two = {"c": -big, "a": big, "b": small}
    for p in (one, two, one, two):
        assert look(jitted(p)) == look(jitted.__wrapped__(p))
    assert len(jitted.explain(one).retraces) == 1


def test_methods():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @pg.jit
        def __call__(self, x):
            return x * self.scale

    models = [Model(2.0), Model(3.0)]
    for _ in range(3):
        assert [m(X).tolist() for m in models] == [(X * s).tolist() for s in (2.0, 3.0)]
    models[0].scale = 5.0
    assert models[0](X).tolist() == (X * 5.0).tolist()


def test_errors_equal_those_of_eager_mode():
    jitted = pg.jit(lambda x, i: pg.gather(x, i))
    good = pg.asarray([0, 1])
    bad = pg.asarray([0, 9])
    jitted(X, good)
    with pytest.raises(IndexError) as eager:
        pg.gather(X, bad)
    for function in (jitted, pg.jit(jitted.__wrapped__)):
        with pytest.raises(IndexError) as found:
            function(X, bad)
        assert str(found.value) == str(eager.value)
    assert look(jitted(X, good)) == look(pg.gather(X, good))


def test_a_kernel_that_declines_later():
    """This kernel declines certain values, which no kernel of plugrad does."""
    neg = pg.get_kernel("Neg", "cpu")
    sent = []
    decline = lambda x: NotImplemented if np.all(x < 0) else neg(x)
    effect = plugin.Kernel("jittest.Send(x)", out=plugin.same, effect=True)
    pg.register_kernel("Neg", "cpu", decline)
    pg.register_kernel(effect, "cpu", lambda x: (sent.append(1), x * 2)[1])
    try:
        jitted = pg.jit(lambda x: pg.negative(plugin.run(effect, x)))
        for x in (pg.abs(X), pg.abs(X), pg.abs(Y)):
            assert look(jitted(x)) == look(x * -2)
        x = -pg.abs(X)
        assert look(jitted(x)) == look(x * -2)  # by the decomposition
        assert len(sent) == 4  # the kernel with the effect has not run again
    finally:
        pg.unregister_kernel("Neg", "cpu")
        pg.unregister_kernel("jittest.Send", "cpu")


def test_a_kernel_that_returns_its_input_for_some_values():
    """The tape saves the result, which is the input in one call and new in another."""
    kernel = plugin.Kernel("jittest.Positive(x)", out=plugin.same)
    plugin.gradients(kernel, x=lambda dy, y: dy * y)
    pg.register_kernel(kernel, "cpu", lambda x: x if np.all(x > 0) else np.abs(x))
    try:
        f = pg.value_and_grad(lambda x: pg.sum(plugin.run(kernel, x) * x))
        jitted = pg.jit(f)
        for x in (pg.abs(X), pg.abs(X), X):
            assert look(jitted(x)) == look(f(x))
    finally:
        pg.unregister_kernel("jittest.Positive", "cpu")


def test_graph_optimizations():
    def f(x):
        a = pg.exp(x) + pg.exp(x)  # Exp runs once
        pg.log(a)  # does not run
        same = pg.permute_dims(pg.permute_dims(a, (1, 0)), (1, 0))  # does not run
        return same * pg.sum(pg.ones(3))  # Sum is a constant

    jitted = pg.jit(f)
    assert kernels(jitted, X) == ["Exp", "Add", "Multiply"]
    assert look(jitted(X)) == look(f(X))


def test_steps_with_zeros_of_either_sign_are_not_merged():
    jitted = pg.jit(lambda x: (pg.clip(x, 0, 1), pg.clip(x, -0.0, 1), pg.clip(x, 0, 1)))
    assert look(jitted(X)) == look(jitted(X))
    assert len(kernels(jitted, X)) == 2


def test_equal_constants_are_one():
    """Each run of an op makes new constants from numbers and shapes."""
    f = lambda x: (pg.exp(x * 2.5 + [[1.0]]), pg.exp(x * 2.5 + [[1.0]]))
    jitted = pg.jit(f)
    assert kernels(jitted, X) == ["Multiply", "Add", "Exp"]
    assert look(jitted(X)) == look(f(X))
    one, minus_one, row = [[1.0]], [[-1.0]], [1.0]
    others = pg.jit(lambda x: (x + one, x + minus_one, x + row, x * one))
    assert len(kernels(others, X)) == 4


def test_graph():
    graph = pg.jit(lambda x: (pg.tanh(x) * 2, x)).explain(X).graph
    assert str(graph).splitlines() == [
        "inputs %0 float32[3, 4]",
        "%2 float32[] = constant",
        "%1 float32[3, 4] = Tanh(%0) on cpu",
        "%3 float32[3, 4] = Multiply(%1, %2) on cpu",
        "return %3, %0",
    ]
    dot = graph.to_dot()
    assert dot.startswith("digraph {")
    for line in ('s0 [label="Tanh\\ncpu"];', "v0 -> s0", "s0 -> s1", "s1 -> o0"):
        assert line in dot


def test_a_drawing_of_a_graph():
    """Each step has a box with its name, below the boxes of its inputs."""
    graph = pg.jit(lambda x: (pg.tanh(x) * 2, x)).explain(X).graph
    root = ElementTree.fromstring(graph.to_svg())
    texts = {t.text: t for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"input %0 float32[3, 4]", "Tanh", "Multiply", "output"} <= set(texts)
    height = {name: float(text.get("y")) for name, text in texts.items()}
    assert height["Tanh"] < height["Multiply"] < height["output"]
    titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles.count("%1 float32[3, 4]") == 1
    assert len(titles) == 5  # Tanh and Multiply read three values, two are returned
