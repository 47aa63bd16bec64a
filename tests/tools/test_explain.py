"""``plugrad.explain``: what ran, and whose gradients were in force."""

import importlib.metadata
import json

import plugrad as pg
import pytest
from plugrad.plugin import Kernel, decomposition, run, same
from plugrad_conformance.toy import toy

CORE = f"plugrad {importlib.metadata.version('plugrad')}"
X = [1.0, -2.0]


def explained(f, x=X):
    """Return the rows behind ``f(x)``, taken inside the function that is recorded."""
    found = []

    def g(x):
        y = f(x)
        found.append(pg.explain(y))
        return pg.sum(y)

    pg.grad(g)(pg.asarray(x))
    return found[0]


def test_runs_and_gradients_in_order(backend):
    rows = explained(lambda x: pg.exp(x * 2.0) + x).rows
    runs = [(row["run"], row["kernel"], row["input"], row["of"]) for row in rows]
    assert runs == [
        (1, "Multiply", "a", "argument"),
        (1, "Multiply", "b", "constant"),
        (2, "Exp", "x", "1"),
        (3, "Add", "a", "2"),
        (3, "Add", "b", "argument"),
    ]
    assert {row["backend"] for row in rows} == {backend}
    assert {row["output"] for row in rows} == {"float32[2]"}
    assert rows[0]["gradient"] == CORE
    assert "plugrad/ops/binary.py:" in rows[0]["vjp"]
    assert rows[1]["gradient"] == rows[1]["vjp"] == ""  # a constant


def test_who_wrote_the_implementation():
    with pg.use_backend("cpu"):
        (row,) = explained(pg.relu).rows
    assert row["how"] == "implementation"
    assert row["by"] == f"plugrad-cpu {importlib.metadata.version('plugrad-cpu')}"
    assert "plugrad_cpu/kernels/activation.py:" in row["at"]


def test_the_gradient_that_was_in_force_is_remembered():
    x = pg.asarray(X)
    with pg.override_gradient("Relu", x=lambda dy: dy):
        y, pull_back = pg.vjp(pg.relu, x)
    (row,) = pg.explain(y).rows  # later, outside of the scope
    assert row["gradient"] == "user"
    assert row["vjp"].startswith(f"{__file__}:")
    assert pull_back(x)[0].tolist() == X


def test_only_what_the_result_depends_on():
    def f(x):
        pg.sin(x)
        y = pg.exp(x)
        pg.cos(y)
        return y

    assert [row["kernel"] for row in explained(f).rows] == ["Exp"]


def test_a_composite_shows_its_parts_and_a_detour_its_way():
    without = {"without": ["Softmax", "Exp"], "host": "cpu", "host_kernels": ["Exp"]}
    # under a name of its own: how a kernel has run is counted by backend
    with toy("detouring", **without), pg.use_backend("detouring"):
        (softmax,) = explained(pg.softmax).rows
        (exp,) = explained(pg.exp).rows
        parts = explained(lambda x: pg.fused.matmul([X], x, activation="relu"), [X, X])
    assert (softmax["how"], softmax["by"]) == ("decomposition", CORE)
    assert "plugrad/ops/norm.py:" in softmax["at"]
    assert exp["how"] == "host"
    assert exp["by"].startswith("plugrad-cpu ")
    kernels = [row["kernel"] for row in parts.rows]
    assert "Relu" in kernels
    assert "_FusedMatMul" not in kernels


def test_custom_gradients_and_missing_ones():
    @pg.custom_grad
    def cube(x):
        return x * x * x, lambda dy: dy * 3 * x * x

    (row,) = explained(cube).rows
    assert (row["how"], row["gradient"]) == ("custom_grad", "user")
    assert "cube" in row["vjp"]
    lonely = Kernel("test.Lonely(x)", out=same)
    pg.register_kernel(lonely, "cpu", lambda x: x)
    with pg.use_backend("cpu"), pytest.raises(pg.GradientNotFound):
        explained(lambda x: run(lonely, x))
    with pg.use_backend("cpu"):
        y, _ = pg.vjp(lambda x: run(lonely, x), pg.asarray(X))
    assert pg.explain(y).rows[0]["gradient"] == "GradientNotFound"


def test_a_kernel_of_a_library_is_its_own():
    twice = Kernel("test.Twice2(x)", out=same)

    @decomposition(twice)
    def _(x):
        return x + x

    pg.register_kernel(twice, "cpu", lambda x: x + x)
    with pg.use_backend("cpu"):
        kernels = [row["kernel"] for row in explained(lambda x: run(twice, x)).rows]
    assert kernels == ["Add", "Add"]  # it has no gradient: its parts are recorded


def test_as_text_and_as_json():
    found = explained(lambda x: pg.exp(x * x))
    lines = repr(found).splitlines()
    assert lines[0].split() == [*found.rows[0]]
    assert len(lines) == 1 + len(found.rows)
    assert lines[1].startswith("1    Multiply")
    assert not lines[2].strip().startswith("1")  # what the run repeats is left out
    assert "plugrad/ops/binary.py:" in lines[1]
    assert json.loads(json.dumps(found.to_dict()))["rows"] == found.rows


def test_debug_knows_the_lines():
    with pg.debug():
        rows = explained(lambda x: pg.exp(x)).rows
    assert rows[0]["line"].startswith(f"{__file__}:")
    assert "pg.exp(x)" in rows[0]["line"]
    assert "line" not in explained(pg.exp).rows[0]


def test_variadic_inputs():
    rows = explained(lambda x: pg.concat([x, x * 2.0])).rows
    assert (rows[-1]["kernel"], rows[-1]["of"]) == ("Concat", "argument, 1")


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: pg.asarray(X), ValueError, "no tape has recorded this tensor"),
        (lambda: pg.exp(X), ValueError, "call it on a result inside the function"),
        (lambda: X, TypeError, "expected a Tensor, got list"),
    ],
)
def test_what_was_not_recorded(make, kind, message):
    with pytest.raises(kind, match=message):
        pg.explain(make())


def test_it_keeps_nothing_alive():
    y, pull_back = pg.vjp(pg.exp, pg.asarray(X))
    assert pg.explain(y).rows
    del pull_back
    with pytest.raises(ValueError, match="while its pullback is there"):
        pg.explain(y)
