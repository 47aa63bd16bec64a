"""``plugrad.explain``: which kernels ran, and which gradients applied."""

import argparse
import functools
import importlib.metadata
import json
from collections import Counter
from pathlib import Path

import plugrad as pg
import pytest
from plugrad._src.engine import dispatch, tape
from plugrad._src.registry.registry import registry
from plugrad._src.tools.answer import where
from plugrad._src.tools.why import why
from plugrad.plugin import Kernel, decomposition, run, same
from plugrad_conformance.toy import toy

CORE = f"plugrad {importlib.metadata.version('plugrad')}"
X = [1.0, -2.0]


def explained(f, x=X):
    """Return the explanation of ``f(x)``, taken inside the recorded function."""
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
    assert "plugrad/_src/ops/basis/binary.py:" in rows[0]["vjp"]
    assert rows[1]["gradient"] == rows[1]["vjp"] == ""  # a constant


def test_the_distribution_and_file_of_an_implementation(monkeypatch):
    # Other tests of this process may have run the kernel in parts.
    monkeypatch.setattr(dispatch, "fallback_counts", Counter())
    with pg.use_backend("cpu"):
        (row,) = explained(pg.relu).rows
    assert row["how"] == "implementation"
    assert row["by"] == f"plugrad-cpu {importlib.metadata.version('plugrad-cpu')}"
    assert "plugrad_cpu/kernels/activation.py:" in row["at"]


def doubled(dy, y, original):
    return original(dy) * 2.0


def plain(dy):
    return dy


def with_a_number(number, dy):
    return number * dy


@functools.wraps(plain)
def logged(dy):
    return plain(dy)


class Halved:
    def __call__(self, dy):
        return dy / 2.0

    def method(self, dy):
        return dy / 2.0


RULES = {  # a user's gradient function: the first line of its code
    "original": (doubled, "def doubled("),
    "plain": (plain, "def plain("),
    "partial": (functools.partial(with_a_number, 2.0), "def with_a_number("),
    "wrapped": (logged, "def plain("),
    "object": (Halved(), "def __call__("),
    "method": (Halved().method, "def method("),
    "partial of original": (functools.partial(doubled), "def doubled("),
}


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("tool", ["explain", "why"])
def test_an_override_is_cited_at_the_line_of_its_author(kind, tool):
    rule, line = RULES[kind]
    with pg.use_backend("cpu"), pg.override_gradient(pg.tanh, x=rule):
        if tool == "explain":
            (row,) = explained(pg.tanh).rows
            location = row["vjp"]
        else:
            options = argparse.Namespace(kernel="Tanh", grad=True, backend="cpu")
            location = why(options).data["rules"][0]["where"]
    path, _, number = location.rpartition(":")
    assert Path(path) == Path(__file__)
    assert line in Path(path).read_text().splitlines()[int(number) - 1]


GRADIENT_KERNELS = {
    "Tanh": pg.tanh,
    "Relu": pg.relu,
    "Softmax": pg.softmax,
    "Gelu": pg.gelu,
}


@pytest.mark.parametrize("name", GRADIENT_KERNELS)
@pytest.mark.parametrize("backend_name", ["cpu", "wasm", "opencl"])
def test_a_gradient_in_one_kernel_is_cited_where_the_kernel_is_written(
    name, backend_name
):
    if backend_name not in pg.backends():
        pytest.skip(f"plugrad-{backend_name} is not installed")
    with pg.use_backend(backend_name):
        gradient = pg.get_gradient(name)
        (rule,) = gradient.values()
        if not rule.owner.startswith(f"plugrad-{backend_name}"):
            pytest.skip(f"{backend_name} composes the gradient of {name}")
        (row,) = explained(GRADIENT_KERNELS[name]).rows
        options = argparse.Namespace(kernel=name, grad=True, backend=backend_name)
        found = why(options).data["rules"][0]["where"]
    assert found == row["vjp"]
    kernel = registry.kernels[f"plugrad_{backend_name}.{name}Grad", backend_name][0]
    assert found == where(kernel.function)
    assert f"plugrad_{backend_name}" in found


def test_the_gradient_that_applied_is_remembered():
    x = pg.asarray(X)
    with pg.override_gradient("Relu", x=lambda dy: dy):
        y, pull_back = pg.vjp(pg.relu, x)
    (row,) = pg.explain(y).rows  # later, outside of the scope
    assert row["gradient"] == "user"
    assert row["vjp"].startswith(f"{__file__}:")
    assert pull_back(x)[0].tolist() == X


def test_only_runs_that_the_result_depends_on_are_shown():
    def f(x):
        pg.sin(x)
        y = pg.exp(x)
        pg.cos(y)
        return y

    assert [row["kernel"] for row in explained(f).rows] == ["Exp"]


def test_composites_and_host_kernels_are_explained():
    without = {"without": ["Softmax", "Exp"], "host": "cpu", "host_kernels": ["Exp"]}
    # A separate name, because plugrad records for each backend how kernels ran.
    with toy("detouring", **without), pg.use_backend("detouring"):
        (softmax,) = explained(pg.softmax).rows
        (exp,) = explained(pg.exp).rows
        parts = explained(lambda x: pg.fused.matmul([X], x, activation="relu"), [X, X])
    assert (softmax["how"], softmax["by"]) == ("decomposition", CORE)
    assert "plugrad/_src/ops/nn/softmax.py:" in softmax["at"]
    assert exp["how"] == "host"
    assert exp["by"].startswith("plugrad-cpu ")
    kernels = [row["kernel"] for row in parts.rows]
    assert "Relu" in kernels
    assert "_FusedMatMul" not in kernels


def test_custom_and_missing_gradients():
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


def test_a_library_kernel_without_gradient_shows_its_parts():
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
    assert not lines[2].strip().startswith("1")  # repeated cells are left out
    assert "plugrad/_src/ops/basis/binary.py:" in lines[1]
    assert json.loads(json.dumps(found.to_dict()))["rows"] == found.rows


def test_debug_adds_the_lines():
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
def test_tensors_that_were_not_recorded_are_refused(make, kind, message):
    with pytest.raises(kind, match=message):
        pg.explain(make())


def test_explain_keeps_no_tape_alive():
    y, pull_back = pg.vjp(pg.exp, pg.asarray(X))
    assert pg.explain(y).rows
    del pull_back
    with pytest.raises(ValueError, match="while its pullback exists"):
        pg.explain(y)


def test_tapes_of_pullbacks_are_forgotten_when_these_are_freed():
    before = len(tape.kept_tapes())
    y, pullback = pg.vjp(pg.exp, 1.0)
    assert len(tape.kept_tapes()) == before + 1
    del pullback
    assert len(tape.kept_tapes()) == before
    with pytest.raises(ValueError, match="no tape has recorded this tensor"):
        pg.explain(y)
