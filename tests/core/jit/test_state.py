"""Side effects of calls: variables, random draws, and kernels with effects."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

from .helpers import floats, kernels, look, reason

X = floats(4, 3)
Y = floats(4, scale=2.0)


# --- variables -------------------------------------------------------------------


class Momentum:
    """SGD with momentum, whose state is in variables."""

    def __init__(self, parameters):
        self.velocity = {v: pg.Variable(pg.zeros_like(v.value)) for v in parameters}

    def step(self, gradients):
        for v, g in gradients.items():
            self.velocity[v].assign(self.velocity[v] * 0.9 + g)
            v.assign_sub(self.velocity[v] * 0.1)


class Adam:
    """Adam, whose step count is a variable."""

    def __init__(self, parameters):
        zeros = lambda: {v: pg.Variable(pg.zeros_like(v.value)) for v in parameters}
        self.m, self.v, self.count = zeros(), zeros(), pg.Variable(0.0)

    def step(self, gradients):
        self.count += 1.0
        for p, g in gradients.items():
            self.m[p].assign(self.m[p] * 0.9 + g * 0.1)
            self.v[p].assign(self.v[p] * 0.999 + g * g * 0.001)
            m = self.m[p] / (1 - 0.9**self.count)
            v = self.v[p] / (1 - 0.999**self.count)
            p.assign(p - 0.01 * m / (pg.sqrt(v) + 1e-8))


def trained(optimizer_class, wrap):
    """Train for a few steps; return losses and parameters, and the step function."""
    w = pg.Variable(floats(3))
    b = pg.Variable(0.0)
    optimizer = optimizer_class([w, b])

    @wrap
    def step(x, y):
        loss = lambda: pg.mean((pg.sum(x * w, axis=1) + b - y) ** 2)
        value, gradients = pg.variable_grads(loss, [w, b])
        optimizer.step(gradients)
        return value

    losses = [step(X, Y) for _ in range(5)]
    return [*losses, w.value, b.value], step


@pytest.mark.parametrize("optimizer", [Momentum, Adam])
def test_training(optimizer):
    (eager, _), (found, step) = (trained(optimizer, f) for f in (lambda f: f, pg.jit))
    assert look(found) == look(eager)
    assert reason(step, X, Y) == ""
    assert step.explain(X, Y).retraces == []


def swapped(v, w, x):
    a = v.value
    v.assign(w)
    w.assign(a)
    return v + x


def twice(v, w, x):
    v.assign(v + x)
    v.assign(v * 2)
    return w + v


def only_assigned(v, w, x):
    v.assign(x * 2)


def unchanged(v, w, x):
    v.assign(v)
    return w.value


def in_vmap(v, w, x):
    return pg.vmap(lambda y: y * v + w)(x)


def item(v, w, x):
    v[0] = 5.0
    return x


STEPS = [swapped, twice, only_assigned, unchanged, in_vmap, item]


@pytest.mark.parametrize("shared", [False, True], ids=["apart", "one array"])
@pytest.mark.parametrize("f", STEPS)
def test_variables(f, shared):
    x = floats(3)
    found = []
    for wrap in (lambda f: f, pg.jit):
        v = pg.Variable(floats(3))
        w = pg.Variable(v if shared else floats(3, scale=3.0))
        call = wrap(f)
        for _ in range(4):
            value = call(v, w, x)
            found.append(look((value, v.value, w.value)))
            v.assign(v + 1)  # outside of the call
    assert found[:4] == found[4:]
    assert reason(call, v, w, x) == ""


def test_another_variable_is_another_signature():
    f = pg.jit(lambda v: v.assign_add(1.0))
    v = pg.Variable(0.0)
    w = pg.Variable(10.0)
    for x in (v, v, w, w, v):
        f(x)
    assert (v.item(), w.item()) == (3.0, 12.0)
    assert len(f.explain(v).retraces) == 1


def test_a_variable_that_moves(toy):
    v = pg.Variable(floats(3))
    f = pg.jit(lambda: v * 2)
    for _ in range(2):
        assert f().backend == "cpu"
    v.assign(v.value.to("toy"))
    for _ in range(2):
        assert look(f()) == look(v * 2)
    assert f.explain().retraces == ["the backend of a variable"]


def test_a_failed_call_leaves_what_eager_leaves():
    v = pg.Variable(0.0)

    @pg.jit
    def f(x, i):
        v.assign(v + 1.0)
        return pg.gather(x, i)

    for _ in range(2):
        f(X, pg.asarray([0]))
    with pytest.raises(IndexError):
        f(X, pg.asarray([9]))
    assert v.item() == 3.0  # assigned before the kernel that raises


def test_a_failed_call_that_draws_assigns_nothing():
    """The call cannot be repeated eagerly, because it would draw other numbers."""
    v = pg.Variable(0.0)

    @pg.jit
    def f(x, i):
        v.assign(v + 1.0)
        return pg.gather(x, i) + pg.random.uniform(())

    for _ in range(3):
        f(X, pg.asarray([0]))
    with pytest.raises(IndexError):
        f(X, pg.asarray([9]))
    assert v.item() == 3.0


def test_item_assignment_to_a_result_leaves_a_variable_unchanged():
    v = pg.Variable(floats(3))
    f = pg.jit(lambda x: (v.assign(x), v.value)[1])
    for _ in range(3):
        y = f(floats(3))
        y[0] = 9.0
        assert look(v.value) == look(floats(3))


# --- draws -----------------------------------------------------------------------

KEY = pg.random.key(3)
DRAWS = {
    "uniform": lambda x, key: pg.random.uniform((3,)) + x,
    "normal": lambda x, key: x * pg.random.normal((3,), mean=1.0),
    "integers": lambda x, key: pg.random.uniform_int((3,), 0, 100),
    "gamma": lambda x, key: pg.random.gamma((3,), 2.0),
    "permutation": lambda x, key: pg.gather(x, pg.random.permutation(3)),
    "shuffle": lambda x, key: pg.random.shuffle(x),
    "choice": lambda x, key: pg.random.choice(x, (2,), replace=False),
    "multinomial": lambda x, key: pg.random.multinomial(x, 8),
    "dropout": lambda x, key: pg.dropout(pg.ones(32), 0.5),
    "twice": lambda x, key: (pg.random.uniform((3,)), pg.random.uniform((3,))),
    "unused": lambda x, key: (pg.random.uniform((3,)), x)[1],
    "constant seed": lambda x, key: pg.random.uniform((3,), seed=5),
    "key": lambda x, key: pg.random.uniform((3,), seed=key),
    "split": lambda x, key: [
        pg.random.normal((2,), seed=k) for k in pg.random.split(key, 3)
    ],
    "fold_in": lambda x, key: pg.random.normal((2,), seed=pg.random.fold_in(key, 7)),
    "under grad": lambda x, key: pg.grad(
        lambda x: pg.sum(pg.dropout(x, 0.5) * pg.random.normal((3,)))
    )(x),
    "in vmap": lambda x, key: pg.vmap(lambda x: x + pg.random.uniform(()))(x),
    "keys in vmap": lambda x, key: pg.vmap(lambda k: pg.random.uniform((), seed=k))(
        pg.random.split(key, 3)
    ),
    "on another backend": lambda x, key: on_toy(x),
}


def on_toy(x):
    with pg.use_backend("toy"):
        return pg.random.uniform((3,)) + x


@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, toy):
    """With the same seed, jit draws the same numbers as eager mode; calls differ."""
    f, found = DRAWS[name], []
    for call in (f, jitted := pg.jit(f)):
        pg.random.seed(7)
        keys = [pg.random.key(n) for n in range(5)]
        found.append([look(call(floats(3), key)) for key in keys])
        found[-1].append(look(pg.random.uniform((2,))))  # the stream continues
    pg.random.seed()
    assert found[0] == found[1]
    assert reason(jitted, floats(3), KEY) == ""
    assert name in ("unused", "constant seed") or found[0][1] != found[0][2]


# --- effects ---------------------------------------------------------------------

LOG = []
EFFECT_KERNEL = plugin.Kernel("jittest.Note(x)", out=plugin.same, effect=True)


@pytest.fixture
def run_effect():
    """Yield an op with an effect."""
    LOG.clear()

    def run(x):
        LOG.append(float(np.sum(x)))
        return x + 0

    pg.register_kernel(EFFECT_KERNEL, "cpu", run)
    yield lambda x: plugin.run(EFFECT_KERNEL, x)
    pg.unregister_kernel("jittest.Note", "cpu")


def test_effects_are_neither_dropped_nor_merged_nor_moved(run_effect):
    def f(x):
        run_effect(pg.ones(2))  # not used, and constant
        run_effect(x)
        run_effect(x)
        return run_effect(x * 2)

    logs = []
    jitted = pg.jit(f)
    for call in (f, jitted, jitted, jitted):
        LOG.clear()
        call(pg.asarray([1.0, 2.0]))
        logs.append([*LOG])
    assert logs == [[2.0, 3.0, 3.0, 6.0]] * 4
    assert kernels(jitted, pg.ones(2)).count("jittest.Note") == 4


def test_an_effect_is_part_of_the_contract():
    other = plugin.Kernel("jittest.Note(x)", out=plugin.same)
    assert EFFECT_KERNEL.contract != other.contract
    assert not other.effect
