"""The catalog is complete: contracts, shapes, decompositions, gradients, names.

Every gap has a reason in a table here or in ``primitives.py`` of plugrad_conformance.
The golden cases run twice under an observer: on cpu, and on a backend with only the
primitives, to see into which kernels each kernel decomposes.
"""

import ast
import contextlib
import dataclasses
import functools
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.context import Scope
from plugrad._src.engine.tape import spec
from plugrad._src.ops import FAMILIES
from plugrad._src.ops.nn import activation
from plugrad._src.registry.registry import registry
from plugrad_conformance.golden import cases, judge, reach
from plugrad_conformance.misuse import right_calls
from plugrad_conformance.ops.test_strange_gradients import ACTIVATIONS
from plugrad_conformance.primitives import DATA_DEPENDENT, HOST, PRIMITIVES
from plugrad_conformance.toy import toy

from tests.surface import ops, public

TESTS_FOLDER = Path(__file__).parents[2]
TFJS = json.loads((TESTS_FOLDER / "data" / "tfjs_kernels.json").read_text())

# TensorFlow.js kernels that are not in the catalog.
NOT_KERNELS = {"Pool": "a name without a contract; nothing in TensorFlow.js runs it"}

_BITS = "only for integers and bool"
_INDEX = "an index, a count or a shape"
_STEP = "the result is a truth value or an index"
_WHERE = "only decides, by its shape or its extrema, where dy goes"

# Inputs declared to have no derivative, and kernels whose inputs have no rule at all.
NO_DERIVATIVE = {
    "it has integer codes": "BlockQuantizedMatMul.codes DequantizeBlocks.codes",
    _INDEX: """CropAndResize.box_ind GatherNd.indices GatherV2.indices
        RaggedGather.indices
        RaggedGather.params_nested_splits RaggedTensorToTensor.row_partition_tensors
        RaggedTensorToTensor.shape ScatterNd.indices SparseFillEmptyRows.dense_shape
        SparseFillEmptyRows.indices
        TensorScatterExtremum.indices TensorScatterUpdate.indices
        UnsortedSegmentSum.segment_ids Select.condition
        MatrixBandPart.num_lower MatrixBandPart.num_upper Pinv.rtol""",
    _STEP: """NonMaxSuppressionV3.boxes NonMaxSuppressionV3.scores
        NonMaxSuppressionV4.boxes NonMaxSuppressionV4.scores
        ArgMax.x ArgMin.x Equal.a Equal.b Greater.a Greater.b GreaterEqual.a
        GreaterEqual.b IsFinite.x IsInf.x IsNan.x Less.a Less.b LessEqual.a LessEqual.b
        LowerBound.sorted_sequence LowerBound.values NotEqual.a NotEqual.b
        SearchSorted.sorted_sequence SearchSorted.values SignBit.x
        UpperBound.sorted_sequence UpperBound.values""",
    _WHERE: """ResizeBilinearGrad.images ResizeNearestNeighborGrad.images
        AvgPoolGrad.input AvgPool3DGrad.input MaxPoolGrad.input
        MaxPoolGrad.output MaxPool3DGrad.input MaxPool3DGrad.output
        Dilation2DBackpropFilter.filter Dilation2DBackpropFilter.x
        Dilation2DBackpropInput.filter Dilation2DBackpropInput.x""",
    "it only decides about the length": "RaggedRange.limits",
    "the result is drawn at random": "Multinomial.logits Multinomial.noise",
}
MISSING_GRADIENTS = {
    "lowered in a loop on the host": """NonMaxSuppressionV5.boxes
        NonMaxSuppressionV5.scores""",
    "strings": """StaticRegexReplace.x StringNGrams.data StringNGrams.data_splits
        StringSplit.delimiter StringSplit.input StringToHashBucketFast.input""",
    _BITS: "BitwiseAnd.a BitwiseAnd.b",
    "it reinterprets bits": "Bitcast.x",
}

# Decompositions that run no kernel, or only kernels on the host.
CONSTANT = {
    "BroadcastArgs": "shapes, which are read to check them",
    "Eigvals": "part of Eig",
    "Eigvalsh": "part of Eigh",
    "LinSpace": "numbers from the host",
    "Range": "numbers from the host",
    "Svdvals": "part of Svd",
}

# Public names that need not be in a test.
UNCALLED = {
    "TensorLike": "a type for annotations",
}
COMPLETENESS_FILES = ("test_catalog.py", "test_names.py", "surface.py")


@functools.cache
def contracts():
    """Return the contracts of the core; other contracts have dotted names."""
    return {n: k for n, k in registry.contracts.items() if "." not in n}


def unpack(table):
    """Return the names in a table of names by reason."""
    return {name for names in table.values() for name in names.split()}


def in_catalog(names):
    """Return the names, with or without an input, whose kernel is in the catalog."""
    return {name for name in names if name.partition(".")[0] in contracts()}


def run_all_kernels():
    """Run every golden case that has a row, and a valid call of each other kernel.

    ``plugrad_conformance.golden`` checks the results.
    """
    for name, row in reach.KERNELS.items():
        for case in cases.handles("kernels", name):
            departs = case in judge.departures()
            with (
                contextlib.suppress(Exception) if departs else contextlib.nullcontext()
            ):
                judge.run(case.load(), row)
    for name in right_calls().keys() - reach.KERNELS.keys():
        pg.run_kernel(name, *right_calls()[name][:2])


# --- outputs and attributes ------------------------------------------------------


def is_plain(value):
    """Return whether a value may be an attribute: immutable and hashable."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, f.name) for f in dataclasses.fields(value)]
        return value.__dataclass_params__.frozen and all(map(is_plain, fields))
    plain = bool | int | float | complex | str | bytes | np.dtype | None
    return isinstance(value, plain)


@pytest.fixture(scope="module")
def observed():
    """Run all kernels; return which ran, wrong rules, and which lack output specs."""
    ran = set()
    wrong = set()
    without_specs = set()

    def observe(kernel, inputs, attrs, outputs):
        ran.add(kernel.name)
        if not is_plain(tuple(attrs.values())) or hash(tuple(attrs.values())) is None:
            wrong.add(f"{kernel}: attributes must be plain and hashable, {attrs}")
        input_specs = [x if x is None else spec(x) for x in inputs]
        expected = kernel.out(*input_specs, **attrs) if kernel.out else None
        if expected is None:
            without_specs.add(kernel.name)
        else:
            expected = (expected,) if kernel.single else tuple(expected)
            found = tuple(map(spec, outputs))
            if expected != found:
                wrong.add(
                    f"{kernel}: the rule says {expected}, the kernel gives {found}"
                )

    with pg.use_backend("cpu"), Scope(observer=observe):
        run_all_kernels()
    return ran, wrong, without_specs


def test_output_rules_agree_with_the_kernels_and_attributes_are_plain(observed):
    assert not sorted(observed[1])


def test_every_kernel_has_run(observed):
    assert sorted(set(contracts()) - observed[0]) == []


def test_every_kernel_not_data_dependent_has_output_specs(observed):
    assert sorted(observed[2]) == sorted(in_catalog(DATA_DEPENDENT))


# --- how kernels run -------------------------------------------------------------


def test_every_kernel_runs_on_cpu():
    table = registry.open("cpu").table
    assert not [
        n for n, k in contracts().items() if n not in table and not k.decomposition
    ]


def test_all_but_primitives_and_host_kernels_decompose():
    assert len(PRIMITIVES) <= 40
    undecomposed = {n for n, k in contracts().items() if k.decomposition is None}
    assert sorted(undecomposed) == sorted(
        in_catalog({*PRIMITIVES, *HOST, *DATA_DEPENDENT})
    )


class Trace:
    """Records which kernels run inside each decomposition."""

    def __init__(self):
        self.edges = defaultdict(set)
        self.stack = []

    def decomposition(self, name, function):
        """Return a decomposition that records its runs, and the kernels inside it."""
        self.edges[name] = set()

        @functools.wraps(function)
        def call(*inputs, **attrs):
            self.note(name)
            self.stack.append(name)
            try:
                return function(*inputs, **attrs)
            finally:
                self.stack.pop()

        return call

    def kernel(self, name, function):
        """Return an implementation that records its runs."""

        def call(*inputs, **attrs):
            self.note(name)
            return function(*inputs, **attrs)

        return call

    def note(self, name):
        if self.stack:
            self.edges[self.stack[-1]].add(name)


def primitives_only(trace):
    """Return the backend "few", which has traced primitives and cpu as its host."""
    cpu = registry.open("cpu")
    return toy(
        "few",
        without=list(cpu.table),
        extra={n: trace.kernel(n, cpu.table[n]) for n in PRIMITIVES if n in cpu.table},
        dtypes=cpu.runtime.dtypes,
        host="cpu",
    )


@pytest.fixture(scope="module")
def graph():
    """Return the kernels that run directly inside the decomposition of each kernel."""
    trace = Trace()
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in contracts().items():
            if kernel.decomposition is not None:
                traced = trace.decomposition(name, kernel.decomposition)
                patch.setattr(kernel, "decomposition", traced)
        with primitives_only(trace), pg.use_backend("few"):
            run_all_kernels()
    return dict(trace.edges)


def test_decompositions_end_in_primitives(graph):
    without_kernels = {name for name, parts in graph.items() if not parts}
    assert sorted(without_kernels) == sorted(in_catalog(CONSTANT))
    assert {part for parts in graph.values() for part in parts} <= {
        *PRIMITIVES,
        *graph,
    }


def test_decompositions_have_no_cycle(graph):
    done = set()
    path = []

    def visit(name):
        assert name not in path, " -> ".join([*path, name])
        if name not in done and name in graph:
            path.append(name)
            for part in sorted(graph[name]):
                visit(part)
            path.pop()
            done.add(name)

    for name in graph:
        visit(name)


# --- gradients -------------------------------------------------------------------


def derivatives():
    """Return the kind of derivative of each kernel input: rule, parts, none or gap."""
    found = {}
    for name, kernel in contracts().items():
        for input_ in kernel.inputs:
            rule = kernel.gradient.get(input_, "gap")
            if rule is None:
                kind = "none"
            elif rule != "gap":
                kind = "rule"
            else:
                parts = not kernel.gradient and kernel.decomposition is not None
                kind = "parts" if parts else "gap"
            found[f"{name}.{input_}"] = kind
    return found


def test_no_input_is_without_derivative_by_accident():
    declared = {
        input_name for input_name, kind in derivatives().items() if kind == "none"
    }
    assert sorted(declared) == sorted(in_catalog(unpack(NO_DERIVATIVE)))
    gaps = {input_name for input_name, kind in derivatives().items() if kind == "gap"}
    assert sorted(gaps) == sorted(in_catalog(unpack(MISSING_GRADIENTS)))


def test_kernels_without_gradient_in_tensorflow_js_have_one():
    """TensorFlow.js has 48 differentiable kernels without a gradient."""
    assert sum(map(bool, TFJS.values())) == 48
    found = derivatives()
    wanted = {
        f"{kernel}.{input_}"
        for kernel, inputs in TFJS.items()
        if kernel not in NOT_KERNELS
        for input_ in inputs
    }
    lacking = {
        input_name
        for input_name in in_catalog(wanted)
        if found.get(input_name) not in ("rule", "parts")
    }
    assert not sorted(lacking)


def test_fused_kernels_have_a_decomposition_and_no_gradient():
    for kernel in contracts().values():
        if kernel.fused:
            assert not kernel.gradient, kernel
            assert kernel.decomposition is not None, kernel


# --- names -----------------------------------------------------------------------


def test_the_catalog_contains_the_kernels_of_tensorflow_js():
    assert len(TFJS) == 180
    assert sorted(set(TFJS) - set(contracts())) == sorted(NOT_KERNELS)


def test_every_kernel_names_its_op():
    """Messages contain the name of the public op, or of the kernel if there is none."""
    known = {*ops(), *contracts()}
    lacking = {k.op: file_of(k) for k in contracts().values() if k.op not in known}
    assert not lacking, f"add the ops to __all__ of their files: {lacking}"


def file_of(kernel):
    """Return the file that defines a kernel."""
    families = [f for f in FAMILIES if any(v is kernel for v in vars(f).values())]
    return f"core/src/{families[0].__name__.replace('.', '/')}.py"


def test_every_public_name_has_a_docstring():
    assert not [name for name, value in public().items() if not value.__doc__]


@functools.cache
def mentioned():
    """Return the dotted names after ``pg.`` in all tests but the completeness tests."""
    found = set()
    for path in TESTS_FOLDER.rglob("*.py"):
        if path.name not in COMPLETENESS_FILES:
            found |= _mentioned(ast.parse(path.read_text()))
    return found


def _mentioned(tree):
    roots = {"pg": (), "plugrad": ()}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "plugrad":
            for alias in node.names:
                roots[alias.asname or alias.name] = (alias.name,)
                found.add(alias.name)
        elif isinstance(node, ast.Assign):  # linalg = pg.linalg
            match node.targets[0], node.value:
                case ast.Name(id=short), ast.Attribute(ast.Name(id="pg"), attr=name):
                    roots[short] = (name,)
    for node in ast.walk(tree):
        words = ()
        while isinstance(node, ast.Attribute):
            words = (node.attr, *words)
            node = node.value
        if words and isinstance(node, ast.Name) and node.id in roots:
            words = (*roots[node.id], *words)
            found |= {".".join(words[:i]) for i in range(1, len(words) + 1)}
    return found


def test_every_public_name_is_in_a_test():
    lacking = sorted(set(public()) - mentioned())
    assert lacking == sorted(UNCALLED), "add a row to ops/test_<family>.py of the kit"


def test_the_derivatives_of_every_activation_are_tested_at_infinities():
    tested = {name.split()[0] for name in ACTIVATIONS}
    assert set(activation.__all__) - tested == {"step"}  # step has another test
