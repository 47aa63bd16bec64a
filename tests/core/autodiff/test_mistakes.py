"""A warning if f is differentiated with respect to a tensor that it closes over."""

import dataclasses
import functools
import re
import warnings
from typing import Any

import numpy as np
import plugrad as pg
import pytest

T = pg.asarray([1.0, 2.0])
PARAMS = {"w": T, "b": [pg.asarray(3.0)]}


def reads_global(x):
    return pg.sum(T)


def calls_helper(x):
    return reads_global(None) * 2.0


def reads_parameters(p):
    return pg.sum(PARAMS["w"] * PARAMS["b"][0])


def reads_in_comprehension(x):
    return pg.add_n([pg.sum(y) for y in [T * i for i in range(2)]])


def second(x, y):
    return pg.sum(y)


class Model:
    def __init__(self, w):
        self.w = w

    def loss(self, x):
        return pg.sum(self.w * 2.0)

    def __call__(self, x):
        return pg.sum(self.w)


def closing_over(t):
    return lambda x: pg.sum(t)


def with_local_helper(t):
    def helper():
        return pg.sum(t)

    return lambda x: helper()


MODEL = Model(T)
VARIABLE = pg.Variable([1.0, 2.0])
ARRAY = np.ones(2, np.float32)
WARNED = {  # (how the message names the tensor, call that warns)
    "a closure": ("'t' of <lambda>", lambda: pg.grad(closing_over(T))(T)),
    "a global": ("the global 'T'", lambda: pg.grad(reads_global)(T)),
    "a helper": ("the global 'T'", lambda: pg.grad(calls_helper)(T)),
    "a helper in a closure": (
        "'t' of helper",
        lambda: pg.grad(with_local_helper(T))(T),
    ),
    "parameters": (
        "the global 'PARAMS'['w']",
        lambda: pg.grad(reads_parameters)(PARAMS),
    ),
    "inside a comprehension": (
        "the global 'T'",
        lambda: pg.grad(reads_in_comprehension)(T),
    ),
    "a method": ("Model.w", lambda: pg.grad(MODEL.loss)(T)),
    "a callable object": ("Model.w", lambda: pg.grad(MODEL)(T)),
    "an object": (
        "the global 'MODEL'.w",
        lambda: pg.grad(lambda x: pg.sum(MODEL.w))(T),
    ),
    "a partial": (
        "partial.keywords['y']",
        lambda: pg.grad(functools.partial(second, y=T))(T),
    ),
    "a variable": (
        "the global 'VARIABLE'",
        lambda: pg.grad(lambda x: VARIABLE[0])(VARIABLE),
    ),
    "an array": (
        "the global 'ARRAY'",
        lambda: pg.grad(lambda x: pg.sum(pg.asarray(ARRAY)))(ARRAY),
    ),
    "value_and_grad": ("the global 'T'", lambda: pg.value_and_grad(reads_global)(T)[1]),
    "argnums": (
        "the global 'T'",
        lambda: pg.grad(lambda n, x: pg.sum(T), argnums=1)(1, T),
    ),
    "grads": ("the global 'T'", lambda: pg.grads(reads_global)(T)[0]),
    "vjp": ("the global 'T'", lambda: pg.vjp(reads_global, T)[1](1.0)[0]),
    "nested": (
        "'t' of <lambda>",
        lambda: pg.grad(lambda t: pg.sum(pg.grad(closing_over(t))(t)) + pg.sum(t * t))(
            T
        ),
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_closing_over_the_differentiated_tensor_warns(name):
    tensor_name, gradient = WARNED[name]
    message = f"does not use its argument but {tensor_name}, the same tensor"
    with pytest.warns(UserWarning, match=re.escape(message)) as found:
        gradient()
    assert [warning.filename for warning in found] == [__file__]


@dataclasses.dataclass
class IncompleteObject:
    field: Any = dataclasses.field(init=False)  # is never set


INCOMPLETE = IncompleteObject()
UNUSED = pg.asarray([1.0, 2.0])
NOT_WARNED = {
    "a constant": lambda: pg.grad(lambda x: pg.asarray(3.0))(T),
    "another tensor": lambda: pg.grad(lambda x: pg.sum(UNUSED))(T),
    "unused parameters": lambda: pg.grad(lambda p: p["b"][0] * T[0])(PARAMS),
    "the tensor also as a constant": lambda: pg.grad(lambda x: pg.sum(x * T))(T),
    "another argument": lambda: pg.grad(second)(T, T),
    "another argument, by argnums": lambda: pg.grad(second, argnums=0)(T, T),
    "another argument of jacobian": lambda: pg.jacobian(lambda x, y: y)(T, T),
    "another argument by name": lambda: pg.grad(second)(T, y=T),
    "stop_gradient": lambda: pg.grad(lambda x: pg.sum(pg.stop_gradient(x)))(T),
    "a step function": lambda: pg.grad(lambda x: pg.sum(pg.sign(x)))(T),
    "an incomplete object": lambda: pg.grad(lambda x: INCOMPLETE and pg.ones(()))(T),
    "the jvp of a constant": lambda: pg.jvp(lambda x: pg.ones(2), [T], [T])[1],
}


@pytest.mark.parametrize("name", NOT_WARNED)
def test_other_zero_gradients_do_not_warn(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NOT_WARNED[name]()


def test_the_warning_is_given_once_for_each_place():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            assert pg.grad(reads_global)(T).tolist() == [0.0, 0.0]
    assert len(found) == 1
