"""The catalog is complete: contracts, shapes, decompositions, gradients, names.

A gap is either filled or has a reason in a table here or in ``primitives.py`` of
plugrad_conformance.
The golden cases are run twice, with an observer: on cpu, and on a backend that has the
primitives alone, where it shows what decomposes into what.
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

TESTS = Path(__file__).parents[2]
TFJS = json.loads((TESTS / "data" / "tfjs_kernels.json").read_text())

# Kernels of TensorFlow.js that are not in the catalog.
NOT_KERNELS = {"Pool": "a name without a contract; nothing in TensorFlow.js runs it"}

_BITS = "of integers and bool only"
_INDEX = "an index, a count or a shape"
_STEP = "the result is a truth value or an index"
_WHERE = "tells by its shape, or by the element that wins, where dy goes"

# Inputs declared to have no derivative, and kernels whose inputs have no rule at all.
NO_DERIVATIVE = {
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
    "it only tells where to stop": "RaggedRange.limits",
    "the result is drawn at random": "Multinomial.logits Multinomial.noise",
}
MISSING = {
    "lowered in a loop on the host": """NonMaxSuppressionV5.boxes
        NonMaxSuppressionV5.scores""",
    "strings": """StaticRegexReplace.x StringNGrams.data StringNGrams.data_splits
        StringSplit.delimiter StringSplit.input StringToHashBucketFast.input""",
    _BITS: "BitwiseAnd.a BitwiseAnd.b",
    "its steps are those of bits": "Bitcast.x",
}

# Decompositions that run nothing, or only what is on the host.
CONSTANT = {
    "BroadcastArgs": "shapes, which are read to check them",
    "Eigvals": "part of Eig",
    "Eigvalsh": "part of Eigh",
    "LinSpace": "numbers from the host",
    "Range": "numbers from the host",
    "Svdvals": "part of Svd",
}

# Public names that no test can call, or need not.
UNCALLED = {
    "TensorLike": "a type for annotations",
}
COMPLETENESS = ("test_catalog.py", "test_names.py", "surface.py")


@functools.cache
def contracts():
    """Return the contracts of the core; those of others have dotted names."""
    return {n: k for n, k in registry.contracts.items() if "." not in n}


def unpack(table):
    """Return the names in a table of names by reason."""
    return {name for names in table.values() for name in names.split()}


def due(names):
    """Return those of ``kernel`` or ``kernel.input`` whose kernel is in the catalog."""
    return {name for name in names if name.partition(".")[0] in contracts()}


def sweep():
    """Run every golden case that has a row, and a right call of the other kernels.

    Whether the results are right is asked in ``plugrad_conformance.golden``.
    """
    for name, row in reach.KERNELS.items():
        for case in cases.handles("kernels", name):
            left = case in judge.departures()
            with contextlib.suppress(Exception) if left else contextlib.nullcontext():
                judge.run(case.load(), row)
    for name in right_calls().keys() - reach.KERNELS.keys():
        pg.run_kernel(name, *right_calls()[name][:2])


# --- what kernels give -----------------------------------------------------------


def is_plain(value):
    """Tell whether a value may be an attribute: immutable, and hashable."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    if dataclasses.is_dataclass(value):
        fields = [getattr(value, f.name) for f in dataclasses.fields(value)]
        return value.__dataclass_params__.frozen and all(map(is_plain, fields))
    plain = bool | int | float | complex | str | bytes | np.dtype | None
    return isinstance(value, plain)


@pytest.fixture(scope="module")
def observed():
    """Run all on cpu: which kernels ran, what is wrong, which rules give no specs."""
    ran = set()
    wrong = set()
    silent = set()

    def look(kernel, inputs, attrs, outputs):
        ran.add(kernel.name)
        if not is_plain(tuple(attrs.values())) or hash(tuple(attrs.values())) is None:
            wrong.add(f"{kernel}: attributes must be plain and hashable, {attrs}")
        given = [x if x is None else spec(x) for x in inputs]
        told = kernel.out(*given, **attrs) if kernel.out else None
        if told is None:
            silent.add(kernel.name)
        else:
            told = (told,) if kernel.single else tuple(told)
            found = tuple(map(spec, outputs))
            if told != found:
                wrong.add(f"{kernel}: the rule says {told}, the kernel gives {found}")

    with pg.use_backend("cpu"), Scope(observer=look):
        sweep()
    return ran, wrong, silent


def test_output_rules_agree_with_the_kernels_and_attributes_are_plain(observed):
    assert not sorted(observed[1])


def test_every_kernel_has_run(observed):
    assert sorted(set(contracts()) - observed[0]) == []


def test_every_kernel_says_what_it_gives(observed):
    assert sorted(observed[2]) == sorted(due(DATA_DEPENDENT))


# --- how kernels run -------------------------------------------------------------


def test_every_kernel_runs_on_cpu():
    table = registry.open("cpu").table
    assert not [
        n for n, k in contracts().items() if n not in table and not k.decomposition
    ]


def test_all_but_primitives_and_host_kernels_decompose():
    assert len(PRIMITIVES) <= 40
    whole = {n for n, k in contracts().items() if k.decomposition is None}
    assert sorted(whole) == sorted(due({*PRIMITIVES, *HOST, *DATA_DEPENDENT}))


class Trace:
    """Notes which kernels run inside the decomposition of which."""

    def __init__(self):
        self.edges = defaultdict(set)
        self.stack = []

    def decomposition(self, name, function):
        """Return a decomposition that notes itself, and what runs inside it."""
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
        """Return an implementation that notes itself."""

        def call(*inputs, **attrs):
            self.note(name)
            return function(*inputs, **attrs)

        return call

    def note(self, name):
        if self.stack:
            self.edges[self.stack[-1]].add(name)


def primitives_only(trace):
    """Return a backend, ``few``, of the primitives, which are traced, and a host."""
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
    """Return which kernels run inside the decomposition of which: the direct edges."""
    trace = Trace()
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in contracts().items():
            if kernel.decomposition is not None:
                traced = trace.decomposition(name, kernel.decomposition)
                patch.setattr(kernel, "decomposition", traced)
        with primitives_only(trace), pg.use_backend("few"):
            sweep()
    return dict(trace.edges)


def test_decompositions_end_in_primitives(graph):
    idle = {name for name, parts in graph.items() if not parts}
    assert sorted(idle) == sorted(due(CONSTANT))
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


def ways():
    """Return how each input of each kernel differentiates: rule, parts, None, gap."""
    found = {}
    for name, kernel in contracts().items():
        for input_ in kernel.inputs:
            rule = kernel.gradient.get(input_, "gap")
            if rule is None:
                how = "none"
            elif rule != "gap":
                how = "rule"
            else:
                parts = not kernel.gradient and kernel.decomposition is not None
                how = "parts" if parts else "gap"
            found[f"{name}.{input_}"] = how
    return found


def test_no_input_is_without_derivative_by_accident():
    declared = {where for where, how in ways().items() if how == "none"}
    assert sorted(declared) == sorted(due(unpack(NO_DERIVATIVE)))
    gaps = {where for where, how in ways().items() if how == "gap"}
    assert sorted(gaps) == sorted(due(unpack(MISSING)))


def test_what_tensorflow_js_cannot_differentiate():
    """It has 48 differentiable kernels that have no gradient."""
    assert sum(map(bool, TFJS.values())) == 48
    found = ways()
    wanted = {
        f"{kernel}.{input_}"
        for kernel, inputs in TFJS.items()
        if kernel not in NOT_KERNELS
        for input_ in inputs
    }
    lacking = {
        where for where in due(wanted) if found.get(where) not in ("rule", "parts")
    }
    assert not sorted(lacking)


def test_fused_kernels_fall_apart():
    for kernel in contracts().values():
        if kernel.fused:
            assert not kernel.gradient, kernel
            assert kernel.decomposition is not None, kernel


# --- names -----------------------------------------------------------------------


def test_the_kernels_of_tensorflow_js_are_here():
    assert len(TFJS) == 180
    assert sorted(set(TFJS) - set(contracts())) == sorted(NOT_KERNELS)


def test_every_kernel_names_its_op():
    """Messages say the name of the public op, or of the kernel where there is none."""
    known = {*ops(), *contracts()}
    lacking = {k.op: file_of(k) for k in contracts().values() if k.op not in known}
    assert not lacking, f"add the ops to __all__ of their files: {lacking}"


def file_of(kernel):
    """Return the module of ops that has a kernel."""
    families = [f for f in FAMILIES if any(v is kernel for v in vars(f).values())]
    return f"core/src/{families[0].__name__.replace('.', '/')}.py"


def test_every_public_name_says_what_it_is():
    assert not [name for name, value in public().items() if not value.__doc__]


@functools.cache
def mentioned():
    """Return the dotted names after ``pg.`` in all tests but those of completeness."""
    found = set()
    for path in TESTS.rglob("*.py"):
        if path.name not in COMPLETENESS:
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
    assert set(activation.__all__) - tested == {"step"}  # which has a test of its own
