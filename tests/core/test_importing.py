"""Tools that importers share: errors, inputs, order, and values during a run."""

import copy
import math
import random

import numpy as np
import plugrad as pg
import pytest
from plugrad import importing

from tests.processes import output


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


# --- errors ----------------------------------------------------------------------


def test_problems_are_listed_once_and_cut_off():
    error = importing.ModelError(["a\x1b[2J", "b" * 600, "a\x1b[2J"])
    assert error.problems == (r"a\x1b[2J", "b" * 500 + "...")
    assert str(error).startswith("load: the model has 2 problems:\n- a\\x1b[2J\n- bbb")
    long_error = importing.ModelError(map(str, range(60)))
    assert len(long_error.problems) == 60
    assert str(long_error).endswith("\n- 49\n- and 10 more")
    assert str(importing.ModelError("it is empty")).endswith(
        "a problem:\n- it is empty"
    )


def test_a_copy_of_an_error_has_the_same_problems():
    error = importing.ModelError(["first", "second"])
    copied = copy.copy(error)
    assert copied.problems == ("first", "second")
    assert str(copied) == str(error)


def endless():
    return endless()


EXHAUSTED = {
    "budget": (lambda: pg.Budget.started(pg.Budget(depth=1), "load").check_depth(2)),
    "stack": endless,
    "memory": lambda: np.empty(2**62, np.uint8),
}
PARTS_OF_MESSAGES = {
    "budget": "2 nested levels of",
    "stack": "deeper than",
    "memory": "not enough memory",
}


@pytest.mark.parametrize("resource", EXHAUSTED)
def test_an_exhausted_resource_is_a_model_error(resource):
    with pytest.raises(importing.ModelError) as caught, importing.loading():
        EXHAUSTED[resource]()
    (problem,) = caught.value.problems
    assert PARTS_OF_MESSAGES[resource] in problem


def test_other_errors_are_raised_unchanged():
    with pytest.raises(FileNotFoundError), importing.loading():
        raise FileNotFoundError("model.json")


def test_the_error_names_the_function_and_the_missing_backend():
    with pytest.raises(pg.BackendUnavailable, match=r"^to: .*'nowhere'"):
        importing.open_backend("to", "nowhere")


# --- inputs ----------------------------------------------------------------------


def gemm(session, a, b, c=None, *, alpha=1.0):
    return a


COUNTS = [
    (gemm, ["session"], (2, 3)),
    (gemm, [], (3, 4)),
    (lambda a, /, *, axis: a, [], (1, 1)),
    (lambda *xs: xs, [], (0, math.inf)),
    (lambda x, *xs, axis=0: xs, [], (1, math.inf)),
]


@pytest.mark.parametrize(("function", "without", "expected"), COUNTS)
def test_input_counts_of_functions(function, without, expected):
    assert importing.input_counts(function, without=without) == expected


TEXTS = {(1, 1): "1 input", (0, 0): "0 inputs", (2, 3): "2 or 3 inputs"}
TEXTS |= {(2, 5): "2 to 5 inputs", (1, math.inf): "1 input or more"}


@pytest.mark.parametrize("counts", TEXTS)
def test_input_counts_as_text(counts):
    assert importing.inputs_text(*counts) == TEXTS[counts]


X = importing.ValueInfo("x", np.dtype("float32"), ("N", 3, None))


def test_the_text_of_a_value_info():
    assert str(X) == "x: float32[N, 3, ?]"
    assert str(importing.ValueInfo("a\nb")) == r"a\nb: ?[...]"
    text = importing.ValueInfo("t", np.dtype(object), ())
    assert str(text) == "t: string[]"


def test_shapes_that_fit_a_value():
    assert X.fits((5, 3, 7))
    assert not X.fits((5, 4, 7))
    assert not X.fits((5, 3))
    assert importing.ValueInfo("x").fits((5, 3))


CALLS = [
    ([1], {}, r"the inputs are \['x', 'y'\]; missing: \['y'\]"),
    ([1, 2], {"y": 3}, r"given twice: \['y'\]"),
    ([1, 2], {"z": 3}, r"unknown: \['z'\]"),
    ([1, 2, 3], {}, r"takes 2 inputs, \['x', 'y'\], got 3"),
]


@pytest.mark.parametrize(("args", "named", "message"), CALLS)
def test_inputs_that_do_not_fit_a_call(args, named, message):
    infos = [X, importing.ValueInfo("y")]
    with pytest.raises(TypeError, match=f"^model: .*{message}"):
        importing.bind_inputs(infos, args, named)


def test_inputs_come_in_the_order_of_the_model():
    infos = [X, importing.ValueInfo("y")]
    assert importing.bind_inputs(infos, [], {"y": 2, "x": 1}) == [1, 2]


# --- order -----------------------------------------------------------------------


def test_a_valid_order_is_kept():
    needs = {"b": [], "a": ["b"], "d": ["outside"], "c": ["a", "d"]}
    assert importing.in_order(needs) == (["b", "a", "d", "c"], [])
    assert importing.in_order({}) == ([], [])


def test_the_first_node_that_is_ready_comes_next():
    needs = {"e": ["a"], "d": [], "c": ["d"], "b": ["c"], "a": [], "f": ["b"]}
    assert importing.in_order(needs) == (["d", "c", "b", "a", "e", "f"], [])


def test_orders_of_random_graphs():
    rng = random.Random(3)
    for _ in range(200):
        nodes = rng.sample(range(100), 12)
        needs = {
            node: rng.sample(nodes[:i], rng.randint(0, min(i, 3)))
            for i, node in enumerate(nodes)
        }
        shuffled = dict(rng.sample([*needs.items()], len(needs)))
        order, cycle = importing.in_order(shuffled)
        assert (sorted(order), cycle) == (sorted(nodes), [])
        assert all(
            order.index(one) < order.index(node)
            for node in nodes
            for one in needs[node]
        )


def test_a_cycle_begins_with_its_first_node_and_the_rest_is_sorted():
    needs = {"z": ["y"], "y": [], "b": ["a", "y"], "c": ["b"], "a": ["c"], "d": ["c"]}
    assert importing.in_order(needs) == (["y", "z"], ["b", "c", "a", "b"])
    assert importing.in_order({"a": ["a"]}) == ([], ["a", "a"])


def test_one_of_several_cycles_is_returned():
    needs = {"x": ["y"], "y": ["x"], "p": ["q"], "q": ["p"], "free": []}
    assert importing.in_order(needs) == (["free"], ["x", "y", "x"])


def test_a_long_chain_in_reverse_needs_no_recursion():
    count = 50_000
    needs = {i: [i + 1] for i in range(count)} | {count: []}
    assert importing.in_order(needs) == ([*range(count, -1, -1)], [])
    needs[count] = [0]
    order, cycle = importing.in_order(needs)
    assert (order, len(cycle)) == ([], count + 2)


def test_the_order_does_not_depend_on_hashes():
    needs = """
from plugrad import importing
names = [f"n{i}" for i in range(40)]
needs = {n: {*names[i + 1 : i + 6 : 2]} for i, n in enumerate(names)}
print(importing.in_order(needs))
"""
    found = {output(needs, PYTHONHASHSEED=str(seed)) for seed in (1, 2, 3)}
    assert len(found) == 1


# --- values during a run ---------------------------------------------------------


def test_values_are_dropped_after_their_last_use():
    steps = [["x", "w", "a", "unused"], ["a", "x", "b"], ["b", "b", "y"]]
    found = importing.last_uses(steps, ["y", "w"])
    assert found == [("unused",), ("a", "x"), ("b",)]
    assert importing.last_uses([], ["y"]) == []


def test_the_namespace_of_values():
    assert importing.namespace(np.ones(2), 3) is np
    assert importing.namespace(np.ones(2), pg.ones(2)) is pg


def test_a_block_on_no_backend_changes_nothing():
    before = pg.get_backend()
    with importing.on_backend(None):
        assert pg.get_backend() == before
