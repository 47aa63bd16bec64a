"""What a function reads from outside is seen to change, at once."""

import functools
import types

import numpy as np
import plugrad as pg
import pytest

from .helpers import floats, look, reason

X = floats(3)
SCALE = 2.0
WEIGHTS = pg.asarray([1.0, 2.0, 3.0])
TABLE = np.arange(3, dtype=np.float32)
PARAMETERS = {"w": pg.asarray([1.0, 2.0, 3.0]), "more": [1.0, (2.0,)]}
FLAG = True
MODULE = types.ModuleType("settings")
MODULE.rate = 2.0


def helper(x):
    return x * SCALE


def other_helper(x):
    return x - 1


def default(x, by=[1.0]):  # noqa: B006
    return x + by[0]


class Model:
    bias = 1.0

    def __init__(self):
        self.weights = pg.asarray([1.0, 2.0, 3.0])
        self.training = True
        self.inner = None

    def scaled(self, x):
        return x * self.weights if self.training else x

    @property
    def shift(self):
        return self.bias + 1

    def __call__(self, x):
        return self.scaled(x) + self.shift


class Slots:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 2.0


MODEL = Model()
SLOTS = Slots()


def set_global(name, value):
    return lambda: globals().__setitem__(name, value)


def put(holder, key, value):
    return lambda: holder.__setitem__(key, value)


def give(holder, name, value):
    return lambda: setattr(holder, name, value)


def assign_item():
    WEIGHTS[0] = 9.0


def assign_data():
    MODEL.weights[1] = 5.0


NEW = pg.asarray([4.0, 5.0, 6.0])
LAYERS = [[pg.asarray([1.0, 2.0, 3.0]), pg.asarray([3.0, 1.0, 2.0])]]
NAMED = {"scale": pg.asarray([1.0, 2.0, 3.0]), "shift": pg.asarray([3.0, 1.0, 2.0])}


def through_layers(x):
    [(first, second)] = LAYERS
    return x * first - second


def by_order(x):
    first, second = NAMED.values()
    return x * first - second


def by_name(x):
    return x * NAMED["scale"] - NAMED["shift"] if "scale" in NAMED else x


def assign_in_list():
    LAYERS[0][1][0] = 8.0


def rename():
    NAMED["factor"] = NAMED.pop("scale")


def turn():
    NAMED["scale"] = NAMED.pop("scale")


# name: (function, change)
CHANGES = {
    "global": (lambda x: x * SCALE, set_global("SCALE", 3.0)),
    "global of a helper": (lambda x: helper(x), set_global("SCALE", 3.0)),
    "helper": (lambda x: helper(x), set_global("helper", other_helper)),
    "flag": (lambda x: x if FLAG else -x, set_global("FLAG", False)),
    "sign of zero": (lambda x: pg.atan2(x * 0.0, SCALE), set_global("SCALE", -0.0)),
    "kind of number": (lambda x: pg.asarray(SCALE), set_global("SCALE", 2)),
    "tensor": (lambda x: x * WEIGHTS, set_global("WEIGHTS", NEW)),
    "item of a tensor": (lambda x: x * WEIGHTS, assign_item),
    "array": (lambda x: x + TABLE, put(TABLE, 0, 9.0)),
    "tensor in a dict": (lambda x: x * PARAMETERS["w"], put(PARAMETERS, "w", NEW)),
    "number in a dict": (
        lambda x: x * PARAMETERS["more"][1][0],
        put(PARAMETERS["more"], 1, (3.0,)),
    ),
    "tensor in lists": (through_layers, put(LAYERS[0], 0, NEW)),
    "order of tensors in lists": (through_layers, LAYERS[0].reverse),
    "item of a tensor in lists": (through_layers, assign_in_list),
    "number of tensors in lists": (
        lambda x: x + float(len(LAYERS[0])),
        lambda: LAYERS[0].append(NEW),
    ),
    "order of names": (by_order, turn),
    "name of a tensor": (by_name, rename),
    "default": (default, put(default.__defaults__[0], 0, 5.0)),
    "attribute of a module": (lambda x: x * MODULE.rate, give(MODULE, "rate", 3.0)),
    "attribute": (MODEL, give(MODEL, "training", False)),
    "tensor in an attribute": (MODEL, give(MODEL, "weights", NEW)),
    "item of an attribute": (MODEL, assign_data),
    "bound method": (MODEL.scaled, give(MODEL, "training", False)),
    "class attribute": (MODEL, give(Model, "bias", 5.0)),
    "method": (MODEL, give(Model, "scaled", lambda self, x: x)),
    "slot": (lambda x: x * SLOTS.rate, give(SLOTS, "rate", 3.0)),
    "under grad": (pg.grad(lambda x: pg.sum(x * SCALE)), set_global("SCALE", 3.0)),
    "under vmap": (pg.vmap(lambda x: x * SCALE), set_global("SCALE", 3.0)),
    "partial": (
        functools.partial(lambda s, x: s[0] * x * SCALE, [2.0]),
        set_global("SCALE", 3.0),
    ),
    "jit in jit": (pg.jit(lambda x: helper(x)), set_global("SCALE", 3.0)),
}


@pytest.fixture(autouse=True)
def restored():
    """Undo what a test changes."""
    before = dict(globals()), dict(vars(MODEL)), dict(vars(Model))
    weights = WEIGHTS + 0
    held = MODEL.weights + 0
    table = TABLE.copy()
    more = list(PARAMETERS["more"])
    layers = [x + 0 for x in LAYERS[0]]
    named = {n: x + 0 for n, x in NAMED.items()}
    yield
    LAYERS[0][:] = layers
    NAMED.clear()
    NAMED.update(named)
    globals().update(before[0])
    vars(MODEL).update(before[1])
    for name in ("bias", "scaled"):
        setattr(Model, name, before[2][name])
    WEIGHTS[...] = weights
    MODEL.weights[...] = held
    TABLE[...] = table
    PARAMETERS["more"][:], PARAMETERS["w"] = more, pg.asarray([1.0, 2.0, 3.0])
    MODULE.rate = SLOTS.rate = 2.0
    default.__defaults__[0][0] = 1.0


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    f, change = CHANGES[name]
    jitted = pg.jit(f)
    before = [look(jitted(X)), look(jitted(X)), look(f(X))]
    assert reason(jitted, X) == ""
    assert before[0] == before[1] == before[2]
    change()
    after = [look(f(X)), look(jitted(X)), look(jitted(X))]
    assert before[2] != after[0]
    assert after[0] == after[1] == after[2]
    assert len(jitted.explain(X).retraces) == 1


def test_values_that_alternate_are_recorded_once_each():
    @pg.jit
    def f(x):
        return x * SCALE

    for value in (2.0, 3.0) * 5:
        set_global("SCALE", value)()
        assert look(f(X)) == look(X * value)
    assert f.explain(X).retraces == ["the global 'SCALE'"]


def test_a_cell():
    scale = 2.0

    @pg.jit
    def f(x):
        return x * scale

    for scale in (2.0, 2.0, 3.0, 2.0):
        assert look(f(X)) == look(X * scale)
    assert f.explain(X).retraces == ["'scale' of f"]


def test_a_cell_that_is_emptied():
    def f(x):
        return x * scale

    jitted = pg.jit(f)
    scale = 2.0
    jitted(X)
    del f.__closure__[0].cell_contents
    with pytest.raises(NameError):
        jitted(X)


# --- registries ------------------------------------------------------------------


def registered_kernel():
    pg.register_kernel("Tanh", "cpu", lambda x: x + 1)
    return lambda: pg.unregister_kernel("Tanh", "cpu")


def registered_gradient():
    pg.register_gradient(pg.tanh, x=lambda dy: dy * 7)
    return lambda: pg.unregister_gradient(pg.tanh)


def entered(make):
    def enter():
        scope = make()
        scope.__enter__()
        return lambda: scope.__exit__(None, None, None)

    return enter


WAYS = {
    "kernel": registered_kernel,
    "gradient": registered_gradient,
    "override": entered(lambda: pg.override_gradient(pg.tanh, x=lambda dy: dy * 7)),
    "backend": entered(lambda: pg.use_backend("toy")),
}


@pytest.mark.parametrize("name", WAYS)
def test_registries_are_seen(name, toy):
    f = pg.value_and_grad(lambda x: pg.sum(pg.tanh(x)))
    jitted = pg.jit(f)
    before = look(f(X))
    for _ in range(2):
        for _ in range(3):
            assert look(jitted(X)) == before
        undo = WAYS[name]()
        try:
            for _ in range(3):
                assert look(jitted(X)) == look(f(X)) != before
            assert reason(jitted, X) == ""
        finally:
            undo()
    assert jitted.explain(X).retraces


def test_one_override_is_recorded_once():
    jitted = pg.jit(pg.grad(lambda x: pg.sum(pg.tanh(x))))
    override = pg.override_gradient(pg.tanh, x=lambda dy: dy * STRENGTH)
    for _ in range(3):
        with override:
            assert jitted(X).tolist() == [7.0] * 3
        jitted(X)
    assert jitted.explain(X).retraces == ["the overridden gradients"]
    set_global("STRENGTH", 8.0)()
    with override:
        assert jitted(X).tolist() == [8.0] * 3


STRENGTH = 7.0


def test_a_kernel_that_did_not_exist(toy):
    """Softmax is decomposed on toy, until it has one."""
    with pg.use_backend("toy"):
        jitted = pg.jit(lambda x: pg.softmax(x))
        for _ in range(2):
            jitted(X)
        pg.register_kernel("Softmax", "toy", lambda x, axis: x + 1)
        for _ in range(2):
            assert jitted(X).tolist() == (X + 1).tolist()
        pg.unregister_kernel("Softmax", "toy")
        assert jitted(X).tolist() == pg.softmax(X).tolist()


def test_the_default_backend(toy):
    jitted = pg.jit(lambda: pg.ones(3))
    with pg.use_backend("toy"):
        assert [jitted().backend for _ in range(2)] == ["toy", "toy"]
    assert jitted().backend == "cpu"


def with_defaults(x, scale=(2.0, (3, "a")), *, eps=0.5, name="f"):
    return x * scale[0] + eps


def test_defaults_that_change():
    """In place too: a dict of defaults is compared by what it holds."""
    jitted = pg.jit(with_defaults)
    for change in (
        lambda: None,
        lambda: with_defaults.__kwdefaults__.update(eps=0.25),
        lambda: with_defaults.__kwdefaults__.update(eps=-0.0),
        lambda: with_defaults.__kwdefaults__.update(eps=0.0),
        lambda: setattr(with_defaults, "__defaults__", ((4.0, (3, "a")),)),
        lambda: setattr(with_defaults, "__kwdefaults__", {"name": "f", "eps": 1}),
    ):
        change()
        for _ in range(2):
            assert look(jitted(X)) == look(with_defaults(X))
    assert reason(jitted, X) == ""
