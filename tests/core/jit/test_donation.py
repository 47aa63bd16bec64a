"""``jit(f, donate=)`` uses up arguments: their memory is free after their last use."""

import copy
import gc
import re
import weakref

import numpy as np
import plugrad as pg
import pytest

from .compiling import Compiler, compiling
from .helpers import floats, look

DONATED = "has been donated to jit as argument {} of {}; use what the call returned"
stored = pg.Variable(floats(2, 3))


def is_disposed(x):
    return repr(x).startswith("<disposed")


def assigned(x, y):
    stored.assign(x)
    return x + y


# name: a function of x and y; x is donated
FUNCTIONS = {
    "a kernel": lambda x, y: x * y,
    "some kernels": lambda x, y: pg.exp(pg.tanh(x) * y) - pg.sum(x),
    "unused": lambda x, y: y + 1,
    "returned": lambda x, y: (x, y, x),
    "a view is returned": lambda x, y: (pg.permute_dims(x, (1, 0)), x[0], y),
    "gradients": lambda x, y: pg.grad(lambda x: pg.sum(pg.sin(x) * y))(x),
    "a Variable gets it": assigned,
    "a random number": lambda x, y: x + 0 * pg.random.normal((3,), seed=0) + y,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("regions", [False, True])
def test_results_equal_those_of_eager_mode(name, regions):
    def check():
        f = FUNCTIONS[name]
        jitted = pg.jit(lambda x, y: f(x, y), donate="x")
        for scale in (1.0, 2.0, 3.0):
            x = floats(2, 3, scale=scale)
            y = floats(2, 3)
            wanted = look(f(x, y))
            result = jitted(x, y)
            assert look(result) == wanted
            assert is_disposed(x)
            assert look(y) == look(floats(2, 3))
            assert stored.value.shape == (2, 3)  # it is not disposed

    if regions:
        with compiling(Compiler()):
            check()
    else:
        check()


# name: a function that returns another tensor with the memory of x
SHARING_MEMORY = {
    "another handle": copy.copy,
    "a view": lambda x: pg.permute_dims(x, (1, 0)),
    "a part": lambda x: x[:1],
    "a Variable": lambda x: pg.Variable(x).value,
    "a NumPy array": lambda x: pg.asarray(x.numpy()),
}


@pytest.mark.parametrize("name", SHARING_MEMORY)
def test_what_shares_the_memory_keeps_its_values(name):
    jitted = pg.jit(lambda x: pg.exp(x) * 2 + pg.sin(x), donate=0)
    for _ in range(3):
        x = floats(300, 300)  # large enough for a memory pool
        other = SHARING_MEMORY[name](x)
        before = look(other)
        result = jitted(x)
        assert look(result) == look(
            pg.exp(floats(300, 300)) * 2 + pg.sin(floats(300, 300))
        )
        assert look(other) == before
        assert is_disposed(x)


def test_the_value_of_a_variable_is_kept():
    v = pg.Variable(floats(3))
    jitted = pg.jit(lambda x: x * v, donate=0)
    for _ in range(3):
        assert look(jitted(v.value)) == look(floats(3) * floats(3))
        assert look(v.value) == look(floats(3))


def test_the_same_tensor_may_be_passed_twice():
    jitted = pg.jit(lambda x, y: (x, y, x * y), donate=0)
    for _ in range(3):
        x = floats(3)
        assert look(jitted(x, x)) == look((floats(3), floats(3), floats(3) ** 2))
        assert is_disposed(x)
    both = pg.jit(lambda tree: tree["a"] - 2 * tree["b"], donate=0)
    for _ in range(3):
        x = floats(3)
        assert look(both({"a": x, "b": x})) == look(-floats(3))


def test_trees_and_names():
    @pg.jit(donate=("params", 2))
    def step(params, x, state=None):
        return {"w": params["w"] * x, "b": [params["b"][0] + state]}

    for passed_by in ("positions", "names"):
        for _ in range(3):
            params = {"w": floats(3), "b": [floats(2)]}
            x = floats(3)
            state = floats(2)
            named = {"state": state, "params": params, "x": x}
            step(params, x, state) if passed_by == "positions" else step(**named)
            places = {"params['w']": params["w"], "params['b'][0]": params["b"][0]}
            for place, tensor in (places | {"state": state}).items():
                name = "test_trees_and_names.<locals>.step"
                with pytest.raises(
                    ValueError, match=re.escape(DONATED.format(place, name))
                ):
                    tensor + 1
            assert look(x) == look(floats(3))
    with pytest.raises(ValueError, match=r"donated to jit as argument params\['b'\]"):
        step(params, x, floats(2))


def test_the_memory_is_free_before_the_next_kernel():
    is_alive = []
    neg = pg.get_kernel("Neg", "cpu")

    def neg_and_note(x):
        is_alive.append(array() is not None)
        return neg(x)

    pg.register_kernel("Neg", "cpu", neg_and_note)
    try:
        for donate, wanted in ((), True), (0, False):
            jitted = pg.jit(lambda x: pg.negative(pg.exp(x)), donate=donate)
            for _ in range(3):  # the first two calls record
                x = floats(64)
                array = weakref.ref(x._data)
                jitted(x)
            assert is_alive.pop() is wanted
    finally:
        pg.unregister_kernel("Neg", "cpu")


def test_an_error_in_the_middle():
    v = pg.Variable(floats(3))

    @pg.jit(donate=0)
    def step(x, at):
        y = pg.exp(x)
        v.assign(y)
        return pg.gather(y, at)

    good = pg.asarray([0, 2])
    bad = pg.asarray([0, 9])
    x = floats(3)
    with pytest.raises(IndexError):
        step(x, bad)
    assert not is_disposed(x)  # the call was not recorded
    for _ in range(2):
        assert look(step(floats(3), good)) == look(pg.gather(pg.exp(floats(3)), good))
    before = look(v.value)
    x = floats(3, scale=2.0)
    with pytest.raises(IndexError):
        step(x, bad)
    assert look(v.value) == before
    with pytest.raises(ValueError, match="donated to jit as argument x"):
        x.numpy()
    assert look(step(floats(3), good)) == look(pg.gather(pg.exp(floats(3)), good))


def test_a_kernel_that_declines_later():
    """An earlier kernel has freed the argument, so the function cannot run again."""
    neg = pg.get_kernel("Neg", "cpu")
    decline = lambda x: NotImplemented if np.all(x > 5) else neg(x)
    pg.register_kernel("Neg", "cpu", decline)
    try:
        jitted = pg.jit(lambda x: pg.negative(pg.exp(x)) * 2, donate=0)
        for scale in (1.0, 1.0):
            jitted(pg.ones(3) * scale)
        wanted = look(pg.exp(pg.ones(3) * 2) * -2)
        assert look(jitted(pg.ones(3) * 2)) == wanted  # by the decomposition
    finally:
        pg.unregister_kernel("Neg", "cpu")


# name: a way to call f(x) that does not replay it
WITHOUT_REPLAY = {
    "grad": lambda f, x: pg.grad(lambda x: pg.sum(f(x)))(x),
    "vmap": lambda f, x: pg.vmap(f)(x),
    "another jit": lambda f, x: pg.jit(f)(x),
    "explain": lambda f, x: f.explain(x),
    "a value is read": lambda f, x: pg.jit(lambda x: x.sum().item() * x, donate=0)(x),
}


@pytest.mark.parametrize("name", WITHOUT_REPLAY)
def test_calls_without_replay_use_up_nothing(name):
    f = pg.jit(lambda x: x * x + 1, donate=0)
    x = floats(3)
    for _ in range(3):
        WITHOUT_REPLAY[name](f, x)
        assert look(x) == look(floats(3))


def test_methods_use_up_tensors_but_not_arrays():
    class Model:
        @pg.jit(donate="state")
        def step(self, state):
            return state + 1

    model = Model()
    array = np.ones(3, np.float32)
    for _ in range(3):
        x = floats(3)
        assert look(model.step(x)) == look(floats(3) + 1)
        assert is_disposed(x)
        assert model.step(array).tolist() == [2, 2, 2]
        assert array.tolist() == [1, 1, 1]


WRONG_OPTIONS = {
    "a name": ({"donate": "z"}, "jit: donate contains 'z', .*f takes x, y"),
    "a position": ({"donate": (0, 5)}, "jit: donate contains 5, .*f takes x, y"),
    "both": ({"donate": "x", "static": 0}, "jit: x is in both static and donate"),
}


@pytest.mark.parametrize("name", WRONG_OPTIONS)
def test_wrong_options_are_refused(name):
    options, message = WRONG_OPTIONS[name]
    with pytest.raises(TypeError, match=message):
        pg.jit(lambda x, y: x, **options)


def test_no_array_is_kept_alive():
    """Neither the function nor its recording keeps an array alive."""
    jitted = pg.jit(lambda x: pg.exp(x) + 1, donate=0)
    for _ in range(3):
        x = floats(64)
        array = weakref.ref(x._data)
        jitted(x)
        gc.collect()
        assert array() is None
