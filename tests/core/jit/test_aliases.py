"""Captured tensors that are also arguments, or share an array with a Variable."""

import copy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import plugrad as pg
import pytest

from .helpers import floats, look, reason

OTHER = floats(3, scale=3.0)


def same(x):
    return x


ALIASES = {
    "itself": same,
    "copy": copy.copy,
    "asarray": pg.asarray,
    "identity": pg.identity,
    "stop_gradient": pg.stop_gradient,
    "a view": lambda x: x[:],
    "another array": lambda x: x + 0.0,
}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", ALIASES)
def test_an_argument_that_is_also_captured(name, check):
    start = floats(3)
    f = pg.jit(lambda x: x * start - 1.0, check=check)
    alias = ALIASES[name](start)
    for x in (alias, alias, alias, alias, OTHER, OTHER, OTHER, alias, OTHER):
        assert look(f(x)) == look(x * start - 1.0)
    assert reason(f, OTHER) == reason(f, alias) == ""
    assert len(f.explain(OTHER).retraces) <= 1


@pytest.mark.parametrize("transformation", ["grad", "vmap"])
def test_a_captured_argument_under_a_transformation(transformation):
    start = floats(3)
    inner = {
        "grad": pg.grad(lambda p: pg.sum(p * start)),
        "vmap": pg.vmap(lambda p: p * pg.sum(start)),
    }[transformation]
    f = pg.jit(inner)
    for x in (start, start, start, OTHER, OTHER, OTHER, start):
        assert look(f(x)) == look(inner(x))


def test_a_variable_whose_value_is_captured():
    v = pg.Variable(floats(3))
    first = v.value
    distance = lambda: pg.sum((v.value - first) ** 2)
    f = pg.jit(distance)
    for _ in range(4):
        assert look(f()) == look(distance())
    v.assign(OTHER)
    for _ in range(4):
        assert look(f()) == look(distance())
    v.assign(first)
    assert look(f()) == look(distance())


@pytest.mark.filterwarnings("ignore:jit. .* is not replayed")
def test_parameters_that_are_both_passed_and_captured():
    model = SimpleNamespace(params={"w": floats(3)})
    loss = lambda params: pg.sum(params["w"] * 3.0 - model.params["w"])
    f = pg.jit(loss)
    other = {"w": OTHER}
    for params in (model.params, model.params, model.params, other, other, other):
        assert look(f(params)) == look(loss(params))
    for _ in range(5):
        model.params["w"] = model.params["w"] * 0.5
        for params in (model.params, other):
            assert look(f(params)) == look(loss(params))


@pytest.mark.filterwarnings("ignore:jit. .* is not replayed")
def test_a_captured_item_that_is_passed():
    box = {"w": floats(3)}
    f = pg.jit(lambda x: x * box["w"])
    for _ in range(5):
        box["w"] = box["w"] + 1.0
        for x in (OTHER, box["w"], OTHER, box["w"]):
            assert look(f(x)) == look(x * box["w"])


def test_a_captured_tensor_with_shared_memory_that_is_passed():
    array = np.ones(3, np.float32)
    shared = pg.from_dlpack(array)
    f = pg.jit(lambda x: x * shared)
    for x in (shared, shared, shared, OTHER, OTHER, OTHER):
        array[:] += 1.0
        assert look(f(x)) == look(x * shared)


@dataclass
class Model:
    w: Any

    @pg.jit
    def step(self, x):
        return x * self.w


def test_a_jitted_method_of_a_dataclass():
    models = [Model(floats(3)), Model(OTHER)]
    for model in models * 4:
        assert look(model.step(OTHER)) == look(OTHER * model.w)


def test_a_static_argument_that_is_a_tensor():
    f = pg.jit(lambda x, n: x * n, static=(1,))
    for n in (floats(3), OTHER, floats(3)):
        assert look(f(OTHER, n)) == look(OTHER * n)


def cyclic_tree():
    root = {"rate": 2.0}
    root["child"] = {"parent": root}
    return root


def test_a_container_that_contains_itself():
    state = {"tree": cyclic_tree()}
    f = pg.jit(lambda x: x * state["tree"]["rate"])
    for _ in range(3):
        for _ in range(3):
            assert look(f(OTHER)) == look(OTHER * 2.0)
        state["tree"] = cyclic_tree()


def test_numbers_of_many_digits():
    large = 10**5000
    f = pg.jit(lambda x, n: x * float(n > large))
    for n in (large, large + 1, large):
        assert look(f(OTHER, n)) == look(OTHER * float(n > large))
    box = [large]
    g = pg.jit(lambda x: x * float(box[0] > large))
    for n in (large, large + 1, large):
        box[0] = n
        for _ in range(3):
            assert look(g(OTHER)) == look(OTHER * float(n > large))


class Unreadable(dict):
    def __iter__(self):
        raise OSError("gone")

    keys = __len__ = __iter__


def test_an_object_that_cannot_be_read():
    unreadable = Unreadable(rate=2.0)
    f = pg.jit(lambda x: x * unreadable["rate"])
    with pytest.warns(RuntimeWarning, match="cannot be read: OSError: gone"):
        assert look(f(OTHER)) == look(OTHER * 2.0)
    assert "'unreadable' of <lambda> cannot be read" in reason(f, OTHER)


# --- results ---------------------------------------------------------------------


@pytest.mark.parametrize("check", [False, True])
def test_a_captured_tensor_that_is_returned_is_the_same_object(check):
    model = SimpleNamespace(w=floats(3), table=[floats(2), floats(2)])
    f = pg.jit(lambda x: (x * model.w, model.w, {"first": model.table[0]}), check=check)
    for call in range(12):
        y, w, tree = f(OTHER)
        assert look(y) == look(OTHER * model.w)
        assert w is model.w
        assert tree["first"] is model.table[0]
        if call > 5:
            w[0] = float(call)
            assert model.w[0].item() == call
        if call > 8:
            model.w = model.w + 1.0
    assert reason(f, OTHER) == ""


def test_another_captured_tensor_of_the_same_array_is_returned():
    first = floats(3)
    table = [first, copy.copy(first)]
    box = {"at": 0}
    f = pg.jit(lambda x: (x * 2.0, table[box["at"]]))
    for call in range(12):
        box["at"] = call // 4 % 2
        assert f(OTHER)[1] is table[box["at"]]


@pytest.mark.filterwarnings("ignore:jit. .* is not replayed")
def test_captured_tensors_that_are_returned_alternately():
    table = [floats(3), floats(3)]
    f = pg.jit(lambda x: (x * 2.0, table[len(calls) % 2]))
    calls = []
    for call in range(8):
        assert f(OTHER)[1] is table[call % 2]
        calls.append(call)


@pytest.mark.parametrize("key", ["w", 0, True, 1.5, ("w", 0)])
def test_tensors_of_a_dict_become_inputs(key):
    table = {key: floats(3), "rate": 2.0}
    f = pg.jit(lambda x: x * table[key] * table["rate"])
    for call in range(8):
        assert look(f(OTHER)) == look(OTHER * table[key] * table["rate"])
        if call > 3:
            table[key] = table[key] + 1.0
    becomes_an_input = type(key) in (str, int)
    assert len(f.explain(OTHER).retraces) == (1 if becomes_an_input else 4)
