"""Jitted functions as objects: methods, copies and pickles."""

import copy
import pickle

import plugrad as pg
import pytest

from .helpers import floats, look, reason

X = floats(3)


@pg.jit(static=("power",), check=False)
def powered(x, power):
    return x**power


def doubled(x):
    return x * 2.0


class Model:
    def __init__(self, rate):
        self.rate = pg.asarray(rate)

    @pg.jit
    def scaled(self, x):
        return x * self.rate

    @pg.jit
    @staticmethod
    def outer(x):
        return x + 1.0

    @staticmethod
    @pg.jit
    def inner(x):
        return x + 2.0

    @classmethod
    @pg.jit
    def class_method(cls, x):
        return x + 3.0


def test_methods():
    models = [Model(2.0), Model(3.0)]
    for _ in range(4):
        for model in models:
            assert look(model.scaled(X)) == look(X * model.rate)
            assert look(Model.scaled(model, X)) == look(X * model.rate)
    assert reason(Model.scaled, models[0], X) == ""


@pytest.mark.parametrize("owner", [Model, Model(2.0)])
@pytest.mark.parametrize(
    ("name", "step"), [("outer", 1), ("inner", 2), ("class_method", 3)]
)
def test_methods_without_self(owner, name, step):
    for call in range(5):
        x = floats(3, scale=1.0 + call)
        assert look(getattr(owner, name)(x)) == look(x + float(step))


def test_a_function_that_is_a_method_as_well():
    f = pg.jit(lambda x, y: x * y)

    class Number:
        multiplied = f

        def __mul__(self, other):
            return other * 5.0

    for call in range(5):
        x = floats(3, scale=1.0 + call)
        assert look(f(x, X)) == look(x * X)
        assert look(Number().multiplied(x)) == look(x * 5.0)
    assert len(f.explain(X, X).retraces) == 0


def test_clear_reaches_methods():
    model = Model(2.0)
    for _ in range(3):
        model.scaled(X)
    vars(Model)["scaled"].clear()
    assert not Model.scaled.explain(model, X).confirmed


@pytest.mark.parametrize(
    "duplicate", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy]
)
def test_copies_of_a_function_in_a_module_are_the_function_itself(duplicate):
    assert duplicate(powered) is powered
    assert duplicate(Model.scaled) is Model.scaled


def test_copies_have_recordings_of_their_own():
    model = Model(2.0)
    model.call = pg.jit(model.scaled.__func__.__wrapped__, static=(0,), donate="x")
    model.bound = pg.jit(Model.__dict__["scaled"].__wrapped__.__get__(model))
    other = copy.deepcopy(model)
    assert other.call is not model.call
    other.rate = pg.asarray(7.0)
    for _ in range(4):
        assert look(other.bound(X)) == look(X * 7.0)
        assert look(model.bound(X)) == look(X * 2.0)
        donated = copy.copy(X)
        assert look(other.call(other, donated)) == look(X * 7.0)
    with pytest.raises(ValueError, match="donated to jit as argument x"):
        donated + 1.0


def test_a_pickle_keeps_the_options():
    f = pg.jit(doubled, check=True)
    unpickled = pickle.loads(pickle.dumps(f))
    assert unpickled is not f
    assert unpickled._check
    assert look(unpickled(X)) == look(X * 2.0)
