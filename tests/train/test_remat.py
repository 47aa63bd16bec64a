"""Rematerialization: the same gradients, of every order, with less memory."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

ROOT = Path(__file__).parents[2]


def assert_same(a, b):
    for x, y in zip(pg.tree.leaves(a), pg.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x.numpy(), y.numpy())


def dense(x, layer):
    return {"y": pg.tanh(x @ layer["w"] + layer["b"])}


def network_loss(layers, x, block):
    for layer in layers:
        x = block(x, layer)["y"]
    return pg.sum(x * x)


def layers():
    return [
        {"w": pg.random.normal((4, 4), seed=i), "b": pg.zeros(4), "none": None}
        for i in range(3)
    ]


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_gradients_have_the_same_bits(jit, backend):
    gradient = lambda block: lambda layers, x: pg.grad(network_loss)(layers, x, block)
    wrap = pg.jit if jit else lambda f: f
    for _ in range(2):
        found = wrap(gradient(pt.remat(dense)))(layers(), pg.asarray(X))
        assert_same(found, gradient(dense)(layers(), pg.asarray(X)))


def test_jit_runs_a_block_twice(backend):
    count = {}
    for name, block in (("plain", dense), ("remat", pt.remat(dense))):
        step = pg.jit(
            lambda layers, x, block=block: pg.grad(network_loss)(layers, x, block)
        )
        graph = step.explain(layers(), pg.asarray(X)).graph
        count[name] = [step.kernel.name for step in graph.steps].count("BatchMatMul")
    # Five products are in gradients: of three weights, and of the inputs of two blocks.
    assert count == {"plain": 3 + 5, "remat": 2 * 3 + 5}


class Pair(NamedTuple):
    """Two outputs."""

    first: pg.Tensor
    second: pg.Tensor


FUNCTIONS = {  # a function, and its arguments
    "static": (lambda x, n, flag: x**3 if flag else x * n, (pg.asarray(2.0), 3, True)),
    "integers": (lambda x, i: pg.take(x, i), (pg.asarray([1.0, 2.0]), pg.asarray([1]))),
    "two outputs": (lambda x, y: (x * y, [pg.sin(x)]), (2.0, 3.0)),
    "a namedtuple": (lambda x: Pair(x * x, pg.sin(x)), (2.0,)),
    "a dict": (lambda x: {"a": x * x, "b": (pg.sin(x),)}, (2.0,)),
    "float64": (lambda x: pg.exp(x), (np.ones(2),)),
    "constant": (lambda x, y: x * 2.0, (1.0, 2.0)),
}


@pytest.mark.parametrize("row", FUNCTIONS)
def test_arguments_and_results_of_any_kind(row):
    f, args = FUNCTIONS[row]
    total = lambda g: lambda *xs: sum(pg.sum(y) for y in pg.tree.leaves(g(*xs)))
    tensors = [i for i, x in enumerate(args) if not isinstance(x, int | bool)]
    for i in tensors:
        if isinstance(args[i], pg.Tensor) and pg.isdtype(args[i].dtype, "integral"):
            continue
        gradient_of = lambda g, i=i: pg.grad(total(g), argnums=i)(*args)
        assert_same(gradient_of(pt.remat(f)), gradient_of(f))


def test_derivatives_of_every_order(backend):
    f = lambda x: pg.sin(x) * x
    third = lambda f: pg.grad(pg.grad(pg.grad(f)))(0.7)
    assert_same(third(pt.remat(f)), third(f))
    assert_same(
        pg.hessian(pt.remat(f))(pg.asarray(0.7)), pg.hessian(f)(pg.asarray(0.7))
    )
    tangent = lambda f: pg.jvp(f, (0.7,), (1.0,))
    assert_same(tangent(pt.remat(f)), tangent(f))
    each = pg.vmap(pg.grad(pt.remat(f)))(pg.asarray([0.5, 0.7]))
    assert_same(each, pg.vmap(pg.grad(f))(pg.asarray([0.5, 0.7])))


def test_overrides_of_the_first_run_apply_to_the_second(backend):
    f = pt.remat(lambda x: pg.relu(x) * 2.0)
    with pg.override_gradient("Relu", x=lambda dy: 10.0 * dy):
        _, inside = pg.vjp(f, pg.asarray(-1.0))
    _, outside = pg.vjp(f, pg.asarray(-1.0))
    assert inside(1.0)[0].item() == 20.0
    with pg.override_gradient("Relu", x=lambda dy: 30.0 * dy):
        assert outside(1.0)[0].item() == 0.0
        assert inside(1.0)[0].item() == 20.0


def test_random_numbers_with_a_key_are_drawn_again(backend):
    f = lambda x, key: pg.dropout(x, 0.5, seed=key) ** 2
    key = pg.random.key(1)
    x = pg.ones(16)
    total = lambda f: pg.grad(lambda x: pg.sum(f(x, key)))(x)
    assert_same(total(pt.remat(f)), total(f))


def test_a_tensor_that_is_not_an_argument_is_refused():
    def loss(x, w):
        return pt.remat(lambda x: x * w)(x)

    with pytest.raises(TypeError, match="reads a tensor that is being differentiated"):
        pg.grad(loss, argnums=(0, 1))(1.0, 2.0)


PROGRAM = """
import sys
import plugrad as pg, plugrad_train as pt
def block(x, w):
    for _ in range(4):
        x = pg.tanh(x @ w)
    return x
if sys.argv[1] == "remat":
    block = pt.remat(block)
def loss(ws, x):
    for w in ws:
        x = block(x, w)
    return pg.sum(x * x)
ws = [pg.random.normal((32, 32), seed=i) * 0.1 for i in range(16)]
pg.grad(loss)(ws, pg.ones((1024, 32)))
print(pg.memory().backends["wasm"].peak)
"""


def test_a_deep_network_needs_less_memory():
    """With 16 blocks of 4 layers, remat holds 16 + 4 results at once instead of 64."""
    if "wasm" not in pg.backends():
        pytest.skip("needs wasm, which reports its peak memory")
    peaks = {}
    for name in ("plain", "remat"):
        program = f"import plugrad as pg; pg.set_backend('wasm')\n{PROGRAM}"
        command = [sys.executable, "-c", program, name]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks[name] = int(done.stdout)
    assert peaks["remat"] < 0.45 * peaks["plain"], peaks
