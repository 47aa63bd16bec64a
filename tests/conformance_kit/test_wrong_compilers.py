"""A compiler that changes bits fails a test program of the kit."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad_conformance.ops import test_jit_bits as programs

from tests.core.jit.compiling import compiling


class Wrong:
    """A compiler whose functions run cpu kernels, and apply a rule to the results.

    A rule gets the name of a kernel, its inputs and its result, and for each input the
    name and the inputs of the kernel that made it. It returns a different result, or
    None to keep the result.
    """

    def __init__(self, rule):
        self.rule = rule

    def __call__(self, graph):
        kernels = pg.get_kernels_for_backend("cpu")
        arrays = plugin.runtime("cpu").arrays

        def function(*natives):
            values = dict(zip(graph.inputs, natives, strict=True)) | graph.constants
            producers = {}
            for step in graph.steps:
                inputs = [values[x] for x in step.inputs]
                y = kernels[step.kernel.name](*(inputs or [arrays]), **step.attrs)
                origins = [producers.get(x) for x in step.inputs]
                with np.errstate(all="ignore"):
                    found = self.rule(step.kernel.name, inputs, y, origins)
                    if found is not None:
                        found = np.asarray(found).astype(y.dtype)
                        y = np.broadcast_to(found, y.shape).copy()
                producers[step.outputs[0]] = (step.kernel.name, inputs)
                values[step.outputs[0]] = y
            results = tuple([values[y] for y in graph.outputs])
            return results if len(results) > 1 else results[0]

        return function


def is_constant(x, value):
    return np.size(x) == 1 and np.asarray(x).item() == value


def cancels(name, inputs, y, origins):
    """Replace (x + a) - x by a, and (x - a) + a by x."""
    if name in ("Sub", "Add") and origins[0] and origins[0][0] in ("Add", "Sub"):
        a, b = origins[0][1]
        if name == "Sub" and a is inputs[1]:
            return b
        if name == "Add" and b is inputs[1]:
            return a
    return None


def equal_inputs(kernel, value):
    def rule(name, inputs, y, origins):
        same = name == kernel and inputs[0] is inputs[1]
        return np.full_like(y, value) if same else None

    return rule


def constant(kernel, at, value, result):
    """Return a rule that replaces a kernel with one constant input by ``result(x)``."""

    def rule(name, inputs, y, origins):
        if name == kernel and is_constant(inputs[at], value):
            return result(inputs[1 - at])
        return None

    return rule


def contracts(name, inputs, y, origins):
    """Round only once after a product and a sum."""
    if name not in ("Add", "Sub") or y.dtype != np.float32:
        return None
    wide = [x.astype(np.float64) for x in inputs]
    for i, origin in enumerate(origins):
        if origin and origin[0] in ("Multiply", "Square"):
            a, b = (origin[1] * 2)[:2]
            wide[i] = a.astype(np.float64) * b.astype(np.float64)
            return wide[0] + wide[1] if name == "Add" else wide[0] - wide[1]
    return None


def reassociates(kernel, function):
    def rule(name, inputs, y, origins):
        if name == kernel and origins[0] and origins[0][0] == kernel:
            a, b = origins[0][1]
            return function(a, function(b, inputs[1]))
        return None

    return rule


def distributes(name, inputs, y, origins):
    if name == "Add" and all(o and o[0] == "Multiply" for o in origins):
        (a, c), (b, _) = origins[0][1], origins[1][1]
        return (a + b) * c
    return None


def undoes_root(name, inputs, y, origins):
    if name in ("Multiply", "Square") and origins[0] and origins[0][0] == "Sqrt":
        return origins[0][1][0]
    return None


def undoes_product(name, inputs, y, origins):
    if name == "RealDiv" and origins[0] and origins[0][0] == "Multiply":
        return origins[0][1][0] if origins[0][1][1] is inputs[1] else None
    return None


def by_reciprocal(name, inputs, y, origins):
    return inputs[0] * (np.float32(1) / inputs[1]) if name == "RealDiv" else None


def reciprocal_root(name, inputs, y, origins):
    if name in ("RealDiv", "Reciprocal") and origins[-1] and origins[-1][0] == "Sqrt":
        near = np.float32(1) / origins[-1][1][0]
        return np.sqrt(near)
    return None


def from_zero(name, inputs, y, origins):
    return 0 - inputs[0] if name == "Neg" else None


def negated_difference(name, inputs, y, origins):
    if name == "Neg" and origins[0] and origins[0][0] == "Sub":
        a, b = origins[0][1]
        return b - a
    return None


def flushes(name, inputs, y, origins):
    if y.dtype != np.float32:
        return None
    return np.where(np.abs(y) < np.finfo(np.float32).tiny, np.float32(0), y)


def drops_casts(name, inputs, y, origins):
    if name == "Cast" and origins[0] and origins[0][0] == "Cast":
        return origins[0][1][0]
    return None


def selects_by_products(name, inputs, y, origins):
    if name != "Select":
        return None
    chosen = inputs[0].astype(np.float32)
    return inputs[1] * chosen + inputs[2] * (1 - chosen)


def swaps_limits(name, inputs, y, origins):
    if name == "Maximum":
        return np.where(inputs[0] > inputs[1], *inputs)
    if name == "Minimum":
        return np.where(inputs[0] < inputs[1], *inputs)
    if name == "ClipByValue":
        return np.where(inputs[0] > 0, np.where(inputs[0] < 1, inputs[0], 1), 0)
    return np.where(inputs[0] > 0, inputs[0], 0) if name == "Relu" else None


def negates_comparisons(name, inputs, y, origins):
    if name == "LogicalNot" and origins[0] and origins[0][0] == "Less":
        return np.greater_equal(*origins[0][1])
    return None


def always(name, inputs, y, origins):
    return np.ones_like(y) if name == "LogicalOr" else None


def compares_sides(name, inputs, y, origins):
    if name == "Equal" and origins[0] and origins[0][0] == "Sub":
        return np.equal(*origins[0][1])
    return None


def is_greater(name, inputs, y, origins):
    """Replace x + a > x by a > 0."""
    if name == "Greater" and origins[0] and origins[0][0] == "Add":
        a, b = origins[0][1]
        return np.greater(b, 0) & np.ones_like(y) if a is inputs[1] else None
    return None


def saturates(name, inputs, y, origins):
    if y.dtype.kind not in "iu" or name not in ("Add", "Sub", "Multiply", "Neg"):
        return None
    wide = [x.astype(np.int64) for x in inputs]
    binary = {"Add": np.add, "Sub": np.subtract, "Multiply": np.multiply}
    exact = -wide[0] if name == "Neg" else binary[name](*wide)
    limits = np.iinfo(y.dtype)
    return np.clip(exact, limits.min, limits.max)


# A rule, and the programs that it breaks.
FAULTS = [
    (cancels, "(x + 1) - x", "(x - y) + y"),
    (equal_inputs("Sub", 0), "x - x"),
    (equal_inputs("RealDiv", 1), "x / x"),
    (equal_inputs("Equal", True), "x == x"),
    (equal_inputs("LessEqual", True), "x <= x"),
    (constant("Multiply", 1, 0, lambda x: 0), "x * 0"),
    (constant("RealDiv", 0, 0, lambda x: 0), "0 / x"),
    (undoes_product, "(x * y) / y"),
    (undoes_root, "sqrt(x) * sqrt(x)"),
    (contracts, "x * y - y * x", "x * y + x", "x - x * y", "x * x - y"),
    (reassociates("Add", np.add), "(x + y) + 0.1"),
    (reassociates("Multiply", np.multiply), "(x * y) * 0.1", "(x * 1e-30) * y"),
    (distributes, "x * 0.1 + y * 0.1"),
    (by_reciprocal, "x / 3", "x / y"),
    (reciprocal_root, "1 / sqrt(x)"),
    (constant("Add", 1, 0, lambda x: x), "x + 0"),
    (constant("Sub", 0, 0, lambda x: -x), "0 - x"),
    (constant("Multiply", 1, -1, lambda x: 0 - x), "x * -1"),
    (from_zero, "-x", "-(-x)"),
    (negated_difference, "-(x - y)"),
    (flushes, "x * 0.5", "x * 1"),
    (drops_casts, "float32 through int32", "int32 through float32"),
    (drops_casts, "float32 through bool"),
    (selects_by_products, "where(x > 0, x, y)", "where(y != 0, x / y, 0)"),
    (equal_inputs("NotEqual", False), "where(x != x, y, x)"),
    (swaps_limits, "maximum", "minimum", "clip", "relu"),
    (negates_comparisons, "not x < y"),
    (always, "x < y or x >= y"),
    (compares_sides, "x - y == 0"),
    (is_greater, "x + 1 > x", "int32 x + 1 > x", "uint8 (x + y) > x"),
    (saturates, "int32 sum", "int32 (x * y) - x", "int32 -x", "uint8 x * y - x"),
]
CASES = [(name, rule) for rule, *names in FAULTS for name in names]


def test_each_program_has_a_fault():
    assert {name for name, _ in CASES} == {*programs.PROGRAMS}


@pytest.mark.parametrize(("name", "rule"), CASES, ids=[name for name, _ in CASES])
def test_a_wrong_compiler_is_found(name, rule):
    with compiling(Wrong(rule)), pytest.raises(pytest.fail.Exception) as found:
        programs.test_no_algebra(name, "compiling")
    assert "the replay gives" in str(found.value)


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_a_compiler_that_runs_the_kernels_passes(name):
    with compiling(Wrong(lambda *_: None)):
        programs.test_no_algebra(name, "compiling")
