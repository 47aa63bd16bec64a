"""The rows of ``test_gradients_everywhere`` leave no gradient function uncalled."""

import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.engine.context import Scope, tapes
from plugrad._src.registry.registry import registry
from plugrad_conformance.ops.test_gradients_everywhere import CONSTANT, DISCRETE, ROWS

ROW = "add a row to TABLE in plugrad_conformance/ops/test_gradients_everywhere.py"

# --- nothing is left -------------------------------------------------------------


@pytest.fixture(scope="module")
def reached():
    """Run all rows; return the gradient functions called, and what fell apart."""
    called = set()
    apart = set()

    def noted(name, rule):
        def function(*values):
            called.add(name)
            return rule.function(*values)

        return rule._replace(function=function)

    def traced(name, function):
        def call(*inputs, **attrs):
            if tapes():
                apart.add(name)
            return function(*inputs, **attrs)

        return call

    with pytest.MonkeyPatch.context() as patch, pg.use_backend("cpu"):
        patch.setattr(registry.gradients, "plans", {})
        plugin.runtime("cpu")  # opens it: its own gradients go before the core's
        patch.setattr(registry.gradients, "_of_backends", {})
        for name, contract in registry.contracts.items():
            rules = {
                i: rule and noted(f"{name}.{i}", rule)
                for i, rule in contract.gradient.items()
            }
            patch.setattr(contract, "gradient", rules)
            if (whole := contract.decomposition) is not None:
                patch.setattr(contract, "decomposition", traced(name, whole))
        for row in ROWS:
            y, pullback = pg.vjp(row.op, *map(pg.asarray, row.arrays()))
            pullback(pg.tree.map(pg.ones_like, y))
    return called, apart


def test_every_gradient_function_is_called(reached):
    there = {
        f"{name}.{input_}"
        for name, contract in registry.contracts.items()
        for input_, rule in contract.gradient.items()
        if rule is not None and "." not in name
    }
    assert sorted(there - reached[0]) == [], ROW


def test_every_kernel_without_one_is_differentiated_through_its_parts(reached):
    there = {
        name
        for name, contract in registry.contracts.items()
        if not contract.gradient and contract.decomposition is not None
        if contract.inputs and "." not in name
    }
    constant = [*DISCRETE.split(), *CONSTANT.split()]
    assert sorted(there - reached[1]) == sorted(constant), ROW


def test_every_row_is_about_its_kernel():
    idle = []
    ran = set()
    for row in ROWS:
        ran.clear()
        look = lambda kernel, *_: ran.add(kernel.name)
        with pg.use_backend("cpu"), Scope(observer=look):
            row.op(*map(pg.asarray, row.arrays()))
        if row.kernel not in ran:
            idle.append(str(row))
    assert not idle
