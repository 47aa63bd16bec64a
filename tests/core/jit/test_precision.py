"""A recording is replayed at the precision at which it was recorded."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Kernel, decomposition, run, same

from .compiling import Compiler, compiling
from .helpers import floats, reason

X = floats(3, 3)
NAME = "tf32"


@pytest.fixture
def seen():
    """Yield the list of the precisions that matrix products on cpu see, in order."""
    found = []
    multiply = pg.get_kernel("BatchMatMul", "cpu")

    def multiply_and_note(a, b, **attrs):
        found.append(pg.get_precision())
        return multiply(a, b, **attrs)

    pg.register_kernel("BatchMatMul", "cpu", multiply_and_note)
    yield found
    pg.unregister_kernel("BatchMatMul", "cpu")


def precisions_seen(jitted, seen, *names):
    """Call a function once per precision; return the precisions of its products."""
    seen.clear()
    for name in names:
        with pg.precision(name):
            jitted(X)
    return seen


def test_a_function_is_recorded_for_each_precision(seen):
    jitted = pg.jit(lambda x: pg.matmul(x, x))
    names = ["float32"] * 4 + ["tf32"] * 4 + ["float32", "tf32"] * 3
    assert precisions_seen(jitted, seen, *names) == names
    assert jitted.explain(X).retraces == ["the precision: float32, tf32"]


def test_the_precision_of_the_process_is_compared_too(seen):
    jitted = pg.jit(lambda x: pg.matmul(x, x))
    try:
        for name in ["float32"] * 3 + ["tf32"] * 3 + ["float32"]:
            pg.set_precision(name)
            jitted(X)
            assert seen[-1] == name
    finally:
        pg.set_precision("float32")
    assert precisions_seen(jitted, seen, "tf32", "float32") == ["tf32", "float32"]
    assert len(jitted.explain(X).retraces) == 1


def mixed(x):
    """Return products at the precision of the call and at that of a block."""
    y = pg.matmul(x, x)
    with pg.precision(NAME):
        return y + pg.matmul(x, x), pg.matmul(y, x)


def test_blocks_inside_are_replayed(seen, wrap):
    jitted = wrap(mixed)
    assert precisions_seen(jitted, seen, *["float32"] * 4)[-3:] == [
        "float32",
        "tf32",
        "tf32",
    ]
    assert precisions_seen(jitted, seen, *["tf32"] * 4)[-3:] == ["tf32"] * 3
    assert precisions_seen(jitted, seen, "float32")[-3:] == ["float32", "tf32", "tf32"]
    text = repr(jitted.explain(X))
    assert text.count("precision tf32") == 3  # two products and the sum
    rows = jitted.explain(X).to_dict()["graph"]
    assert [row["precision"] for row in rows] == [None, *["tf32"] * 3]


def test_equal_products_of_different_precisions_are_not_merged():
    jitted = pg.jit(mixed)
    jitted(X)
    names = [step.kernel.name for step in jitted.explain(X).graph.steps]
    assert names.count("BatchMatMul") == 3


def test_a_change_of_the_precision_in_a_block_is_noticed(seen, monkeypatch):
    jitted = pg.jit(mixed)
    assert precisions_seen(jitted, seen, *["float32"] * 3)[-3:] == [
        "float32",
        "tf32",
        "tf32",
    ]
    monkeypatch.setitem(globals(), "NAME", "float32")
    assert precisions_seen(jitted, seen, *["float32"] * 3)[-3:] == ["float32"] * 3


NOTED = Kernel("precision.Noted(x: floating)", out=same)
PRECISIONS_FOUND = []


@decomposition(NOTED)
def _(x):
    PRECISIONS_FOUND.append(pg.get_precision())
    return x + 1


def test_a_step_that_declines_later_runs_at_its_precision():
    declines = []
    PRECISIONS_FOUND.clear()
    pg.register_kernel(
        NOTED, "cpu", lambda x: NotImplemented if declines else np.add(x, 1)
    )
    try:
        jitted = pg.jit(lambda x: pg.precision("tf32")(run)(NOTED, x))
        for _ in range(3):
            wanted = jitted(X).tolist()
        assert PRECISIONS_FOUND == []
        declines.append(True)
        assert jitted(X).tolist() == wanted
        assert PRECISIONS_FOUND == ["tf32"]
    finally:
        pg.unregister_kernel(NOTED.name, "cpu")


def test_regions_have_one_precision(wrap):
    compiler = Compiler()
    seen = []

    def compile_and_note(graph):
        seen.append(pg.get_precision())
        function = compiler(graph)

        def run_and_note(*natives):
            seen.append(pg.get_precision())
            return function(*natives)

        return run_and_note

    def f(x):
        y = pg.exp(pg.tanh(x))
        with pg.precision("tf32"):
            return pg.abs(pg.sin(y))

    with compiling(compile_and_note):
        jitted = wrap(f)
        wanted = f(X).tolist()
        for _ in range(4):
            assert jitted(X).tolist() == wanted
        assert compiler.requested == [["Tanh", "Exp"], ["Sin", "Abs"]]
        assert seen[:4] == ["float32", "tf32"] * 2
        assert {*seen} == {"float32", "tf32"}
        assert [seen.count(name) for name in ("float32", "tf32")] == [len(seen) / 2] * 2


@pytest.mark.parametrize(
    ("change", "undo"),
    [
        (lambda: pg.set_precision("tf32"), lambda: pg.set_precision("float32")),
        (lambda: pg.set_backend("cpu"), lambda: None),
    ],
    ids=["precision", "backend"],
)
def test_a_function_that_changes_settings_of_the_process_runs_each_time(change, undo):
    def f(x):
        change()
        return pg.matmul(x, x)

    try:
        jitted = pg.jit(f)
        for _ in range(3):
            jitted(X)
            undo()
        assert "changes a setting of the process" in reason(jitted, X)
    finally:
        undo()
