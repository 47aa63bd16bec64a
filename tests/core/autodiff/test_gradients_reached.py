"""The rows of ``test_gradients_everywhere`` call every gradient function."""

import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.engine.context import Scope, tapes
from plugrad._src.registry.registry import registry
from plugrad_conformance.ops.test_gradients_everywhere import (
    CONSTANT,
    DISCRETE,
    NARROW,
    ROWS,
)

ADD_A_ROW = "add a row to TABLE in plugrad_conformance/ops/test_gradients_everywhere.py"


@pytest.fixture(scope="module")
def reached():
    """Run all rows; return the gradient functions called and kernels decomposed."""
    called = set()
    decomposed = set()

    def counted(name, rule):
        def function(*values):
            called.add(name)
            return rule.function(*values)

        return rule._replace(function=function)

    def traced(name, function):
        def call(*inputs, **attrs):
            if tapes():
                decomposed.add(name)
            return function(*inputs, **attrs)

        return call

    with pytest.MonkeyPatch.context() as patch, pg.use_backend("cpu"):
        patch.setattr(registry.gradients, "plans", {})
        plugin.runtime("cpu")  # opens the backend; its gradients precede the core's
        patch.setattr(registry.gradients, "_of_backends", {})
        for name, contract in registry.contracts.items():
            rules = {
                i: rule and counted(f"{name}.{i}", rule)
                for i, rule in contract.gradient.items()
            }
            patch.setattr(contract, "gradient", rules)
            if (decompose := contract.decomposition) is not None:
                patch.setattr(contract, "decomposition", traced(name, decompose))
        for row in ROWS:
            y, pullback = pg.vjp(row.op, *map(pg.asarray, row.arrays()))
            pullback(pg.tree.map(pg.ones_like, y))
    return called, decomposed


def test_every_gradient_function_is_called(reached):
    expected = {
        f"{name}.{input_}"
        for name, contract in registry.contracts.items()
        for input_, rule in contract.gradient.items()
        if rule is not None and "." not in name and name not in NARROW.split()
    }
    assert sorted(expected - reached[0]) == [], ADD_A_ROW


def test_every_kernel_without_gradient_is_decomposed_to_differentiate_it(reached):
    expected = {
        name
        for name, contract in registry.contracts.items()
        if not contract.gradient and contract.decomposition is not None
        if contract.inputs and "." not in name
    }
    constant = [*DISCRETE.split(), *CONSTANT.split()]
    assert sorted(expected - reached[1]) == sorted(constant), ADD_A_ROW


def test_every_row_runs_its_kernel():
    rows_without_kernel = []
    ran = set()
    for row in ROWS:
        ran.clear()
        observe = lambda kernel, *_: ran.add(kernel.name)
        with pg.use_backend("cpu"), Scope(observer=observe):
            row.op(*map(pg.asarray, row.arrays()))
        if row.kernel not in ran:
            rows_without_kernel.append(str(row))
    assert not rows_without_kernel
