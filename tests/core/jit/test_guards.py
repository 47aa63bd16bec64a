"""If state that a function reads has changed, jit notices it at the next call."""

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


def set_item(holder, key, value):
    return lambda: holder.__setitem__(key, value)


def set_attr(holder, name, value):
    return lambda: setattr(holder, name, value)


def assign_item():
    WEIGHTS[0] = 9.0


def assign_data():
    MODEL.weights[1] = 5.0


NEW_WEIGHTS = pg.asarray([4.0, 5.0, 6.0])
LAYERS = [[pg.asarray([1.0, 2.0, 3.0]), pg.asarray([3.0, 1.0, 2.0])]]
NAMED_TENSORS = {
    "scale": pg.asarray([1.0, 2.0, 3.0]),
    "shift": pg.asarray([3.0, 1.0, 2.0]),
}


def through_layers(x):
    [(first, second)] = LAYERS
    return x * first - second


def by_order(x):
    first, second = NAMED_TENSORS.values()
    return x * first - second


def by_name(x):
    return (
        x * NAMED_TENSORS["scale"] - NAMED_TENSORS["shift"]
        if "scale" in NAMED_TENSORS
        else x
    )


def assign_in_list():
    LAYERS[0][1][0] = 8.0


def rename_scale():
    NAMED_TENSORS["factor"] = NAMED_TENSORS.pop("scale")


def move_scale_to_end():
    NAMED_TENSORS["scale"] = NAMED_TENSORS.pop("scale")


# name: (function, change)
CHANGES = {
    "global": (lambda x: x * SCALE, set_global("SCALE", 3.0)),
    "global of a helper": (lambda x: helper(x), set_global("SCALE", 3.0)),
    "helper": (lambda x: helper(x), set_global("helper", other_helper)),
    "flag": (lambda x: x if FLAG else -x, set_global("FLAG", False)),
    "sign of zero": (lambda x: pg.atan2(x * 0.0, SCALE), set_global("SCALE", -0.0)),
    "kind of number": (lambda x: pg.asarray(SCALE), set_global("SCALE", 2)),
    "tensor": (lambda x: x * WEIGHTS, set_global("WEIGHTS", NEW_WEIGHTS)),
    "item of a tensor": (lambda x: x * WEIGHTS, assign_item),
    "array": (lambda x: x + TABLE, set_item(TABLE, 0, 9.0)),
    "tensor in a dict": (
        lambda x: x * PARAMETERS["w"],
        set_item(PARAMETERS, "w", NEW_WEIGHTS),
    ),
    "number in a dict": (
        lambda x: x * PARAMETERS["more"][1][0],
        set_item(PARAMETERS["more"], 1, (3.0,)),
    ),
    "tensor in lists": (through_layers, set_item(LAYERS[0], 0, NEW_WEIGHTS)),
    "order of tensors in lists": (through_layers, LAYERS[0].reverse),
    "item of a tensor in lists": (through_layers, assign_in_list),
    "number of tensors in lists": (
        lambda x: x + float(len(LAYERS[0])),
        lambda: LAYERS[0].append(NEW_WEIGHTS),
    ),
    "order of names": (by_order, move_scale_to_end),
    "name of a tensor": (by_name, rename_scale),
    "default": (default, set_item(default.__defaults__[0], 0, 5.0)),
    "attribute of a module": (lambda x: x * MODULE.rate, set_attr(MODULE, "rate", 3.0)),
    "attribute": (MODEL, set_attr(MODEL, "training", False)),
    "tensor in an attribute": (MODEL, set_attr(MODEL, "weights", NEW_WEIGHTS)),
    "item of an attribute": (MODEL, assign_data),
    "bound method": (MODEL.scaled, set_attr(MODEL, "training", False)),
    "class attribute": (MODEL, set_attr(Model, "bias", 5.0)),
    "method": (MODEL, set_attr(Model, "scaled", lambda self, x: x)),
    "slot": (lambda x: x * SLOTS.rate, set_attr(SLOTS, "rate", 3.0)),
    "under grad": (pg.grad(lambda x: pg.sum(x * SCALE)), set_global("SCALE", 3.0)),
    "under vmap": (pg.vmap(lambda x: x * SCALE), set_global("SCALE", 3.0)),
    "partial": (
        functools.partial(lambda s, x: s[0] * x * SCALE, [2.0]),
        set_global("SCALE", 3.0),
    ),
    "jit in jit": (pg.jit(lambda x: helper(x)), set_global("SCALE", 3.0)),
}


@pytest.fixture(autouse=True)
def restore_state():
    """Undo the changes of a test."""
    before = dict(globals()), dict(vars(MODEL)), dict(vars(Model))
    weights = WEIGHTS + 0
    model_weights = MODEL.weights + 0
    table = TABLE.copy()
    more = list(PARAMETERS["more"])
    layers = [x + 0 for x in LAYERS[0]]
    named = {n: x + 0 for n, x in NAMED_TENSORS.items()}
    yield
    LAYERS[0][:] = layers
    NAMED_TENSORS.clear()
    NAMED_TENSORS.update(named)
    globals().update(before[0])
    vars(MODEL).update(before[1])
    for name in ("bias", "scaled"):
        setattr(Model, name, before[2][name])
    WEIGHTS[...] = weights
    MODEL.weights[...] = model_weights
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


def test_a_cell_that_changes():
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


def entering(make):
    def enter():
        scope = make()
        scope.__enter__()
        return lambda: scope.__exit__(None, None, None)

    return enter


REGISTRY_CHANGES = {
    "kernel": registered_kernel,
    "gradient": registered_gradient,
    "override": entering(lambda: pg.override_gradient(pg.tanh, x=lambda dy: dy * 7)),
    "backend": entering(lambda: pg.use_backend("toy")),
}


@pytest.mark.parametrize("name", REGISTRY_CHANGES)
def test_changes_of_registries_are_noticed(name, toy):
    f = pg.value_and_grad(lambda x: pg.sum(pg.tanh(x)))
    jitted = pg.jit(f)
    before = look(f(X))
    for _ in range(2):
        for _ in range(3):
            assert look(jitted(X)) == before
        undo = REGISTRY_CHANGES[name]()
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


@pytest.mark.parametrize(
    "scope",
    [
        lambda: pg.name_scope("layer"),
        lambda: pg.use_backend("cpu"),
        lambda: pg.override_gradient("Exp", x=lambda dy: dy),
    ],
    ids=["name_scope", "use_backend", "override_gradient"],
)
def test_functions_inside_scopes_are_replayed(scope):
    inner = scope()(lambda x: pg.exp(x) * FACTOR[0])
    jitted = pg.jit(lambda x: inner(x), strict=True)
    for FACTOR[0] in (2.0, 3.0):
        wanted = inner(X).tolist()
        assert [jitted(X).tolist() for _ in range(3)] == [wanted] * 3


FACTOR = [2.0]


def test_closures_of_a_block_that_exists_already_are_compared():
    factor = [2.0]
    override = pg.override_gradient("Exp", x=lambda dy: dy * factor[0])

    def f(x):
        with override:
            return pg.grad(lambda x: pg.sum(pg.exp(x)))(x)

    jitted = pg.jit(f, strict=True)
    for changed in (2.0, 5.0, 1.0):
        factor[0] = changed
        assert [jitted(X).tolist() for _ in range(3)] == [[changed] * 3] * 3


def test_a_kernel_that_is_registered_later(toy):
    """Softmax is decomposed on toy until a kernel is registered."""
    with pg.use_backend("toy"):
        jitted = pg.jit(lambda x: pg.softmax(x))
        for _ in range(2):
            jitted(X)
        pg.register_kernel("Softmax", "toy", lambda x, axis: x + 1)
        for _ in range(2):
            assert jitted(X).tolist() == (X + 1).tolist()
        pg.unregister_kernel("Softmax", "toy")
        assert jitted(X).tolist() == pg.softmax(X).tolist()


def test_a_change_of_the_backend(toy):
    jitted = pg.jit(lambda: pg.ones(3))
    with pg.use_backend("toy"):
        assert [jitted().backend for _ in range(2)] == ["toy", "toy"]
    assert jitted().backend == "cpu"


def with_defaults(x, scale=(2.0, (3, "a")), *, eps=0.5, name="f"):
    return x * scale[0] + eps


def test_defaults_that_change():
    """Changes in place are noticed, because dicts of defaults are compared by items."""
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
