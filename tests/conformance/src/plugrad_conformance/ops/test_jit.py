"""Under ``jit``, every kernel and its gradients give the same bits as eager calls.

Each function is called three times: the first call records, the second replays, and the
third replays with other numbers.
"""

import dataclasses

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, contracts, runtime

from ..misuse import right_calls
from .test_gradients_everywhere import ROWS
from .test_vmap import examples

VALID_CALLS = right_calls()
# Kernels that run eagerly, because the shapes of their results depend on values.
EAGER_KERNELS = {
    "NonMaxSuppressionV3",
    "NonMaxSuppressionV5",
    "RaggedGather",
    "RaggedRange",
}
EAGER_KERNELS |= {
    "RaggedTensorToTensor",
    "SparseFillEmptyRows",
    "StringNGrams",
    "StringSplit",
}
EAGER_KERNELS |= {"Unique"}
# Kernels whose decompositions read values.
KERNELS_READING_VALUES = {"BroadcastArgs", "SparseReshape"}
# Kernels whose gradients compare singular values or eigenvalues on the host.
KERNELS_COMPARING_ON_HOST = {
    "Cofactor",
    "Eig",
    "Eigh",
    "Eigvals",
    "Eigvalsh",
    "Svd",
    "Svdvals",
}


def outcome(f, *xs):
    """Return the bits of the result of a function, or the class of its error."""
    try:
        leaves = pg.tree.leaves(f(*xs))
        # as text, NaN equals itself, and -0.0 differs from 0.0
        return [(y.dtype, y.backend, y.shape, repr(y.tolist())) for y in leaves]
    except (ValueError, IndexError, TypeError, NotImplementedError) as error:
        return type(error)


def check(f, *calls):
    """Compare ``f`` with ``jit(f)`` in several calls; return the jitted function."""
    jitted = pg.jit(f)
    eager = [outcome(f, *tensors(xs)) for xs in calls]
    for i in (0, 0, 0, *range(len(calls))):
        assert outcome(jitted, *tensors(calls[i])) == eager[i]
    return jitted


def tensors(arrays):
    """Return new tensors; keep None for an omitted optional input."""
    return [x if x is None else pg.asarray(x) for x in arrays]


@pytest.mark.parametrize("name", sorted(set(VALID_CALLS) & set(contracts())))
def test_each_kernel(name, backend):
    given = examples(name)
    f = lambda *xs: pg.run_kernel(name, list(xs), VALID_CALLS[name].attrs)
    jitted = check(f, *given)
    decomposed = pg.get_kernel(name, backend) is None
    eager = name in EAGER_KERNELS or (name in KERNELS_READING_VALUES and decomposed)
    xs = [x if x is None else pg.asarray(x) for x in given[0]]
    assert (jitted.explain(*xs).graph is None) == eager


def weighted_sum(y):
    """Return a scalar that weights each element of all results differently."""
    total = 0.0
    for part in pg.tree.leaves(y):
        if part.dtype.kind == "c":
            part = pg.real(part) + 2.0 * pg.imag(part)
        if part.dtype.kind == "f":
            weights = pg.reshape(pg.arange(part.size, dtype=part.dtype), part.shape)
            total = total + pg.sum(part * pg.cos(weights))
    return total


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_each_gradient(row, backend):
    first = pg.grads(lambda *xs: weighted_sum(row.op(*xs)))
    second = pg.grads(lambda *xs: sum(pg.sum(dx * dx) for dx in first(*xs)))
    xs = [x.astype("float32") for x in row.arrays()]
    others = [np.flip(x).astype("float32") for x in xs]
    for derivative in (first, second):
        jitted = check(derivative, xs, others)
        if outcome(derivative, *xs) is not TypeError:  # a backend without the dtype
            eager = jitted.explain(*map(pg.asarray, xs)).graph is None
            assert eager <= (row.kernel in EAGER_KERNELS | KERNELS_COMPARING_ON_HOST)


def emptied(shapes):
    """Return variants of the shapes with an empty axis, or several empty axes."""
    found = set()
    for at, shape in enumerate(shapes):
        for axis in range(len(shape)):
            empty = (*shape[:axis], 0, *shape[axis + 1 :])
            found.add((*shapes[:at], empty, *shapes[at + 1 :]))
    for size in {size for shape in shapes for size in shape}:
        shrunk = [tuple([0 if n == size else n for n in shape]) for shape in shapes]
        found.add(tuple(shrunk))
    for axis in range(-3, 3):
        emptied_axis = [list(shape) for shape in shapes]
        for shape in emptied_axis:
            if -len(shape) <= axis < len(shape):
                shape[axis] = 0
        found.add(tuple(map(tuple, emptied_axis)))
    return sorted(found - {tuple(shapes)})


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_empty_axes(row, backend):
    """``jit`` refuses exactly the calls that are refused eagerly.

    Unlike eager ops, ``jit`` asks contracts for the shapes of results. Therefore,
    gradients and decompositions may only make calls that the contracts allow.
    """
    first = pg.grads(lambda *xs: weighted_sum(row.op(*xs)))
    second = pg.grads(lambda *xs: sum(pg.sum(dx * dx) for dx in first(*xs)))
    for shapes in emptied(row.shapes):
        xs = [np.zeros(shape, np.float32) for shape in shapes]
        check(row.op, xs)
        if isinstance(outcome(row.op, *map(pg.asarray, xs)), list):
            check(first, xs)
            check(second, xs)


SAMPLED_ROWS = [
    row for row in ROWS if row.kernel not in EAGER_KERNELS | KERNELS_COMPARING_ON_HOST
][::9]


def run_one_by_one(graph, name):
    """Return a function that runs the kernels of a region one by one."""
    arrays = runtime(name).arrays

    def function(*natives):
        values = {**graph.constants, **dict(zip(graph.inputs, natives, strict=True))}
        for step in graph.steps:
            kernel = pg.get_kernel(step.kernel.name, name)
            given = [None if x is None else values[x] for x in step.inputs]
            with np.errstate(all="ignore"):  # as a backend's ``wrap`` does
                outputs = kernel(*(given or [arrays]), **step.attrs)
            if outputs is NotImplemented:
                return NotImplemented
            values |= zip(
                step.outputs, [outputs] if step.kernel.single else outputs, strict=True
            )
        found = tuple([values[y] for y in graph.outputs])
        return found if len(found) > 1 else found[0]

    return function


COMPILERS = {
    "none": lambda rng, graph, name: None,
    "of everything": lambda rng, graph, name: run_one_by_one(graph, name),
    "one that refuses at random": lambda rng, graph, name: (
        run_one_by_one(graph, name) if rng.random() < 0.5 else None
    ),
}


@pytest.mark.parametrize("used", [[0], [1], [1, 0]], ids=str)
def test_some_results_of_a_kernel(used, backend):
    """A compiled region returns only the outputs of a kernel that are used."""
    with pg.use_backend(backend):
        f = lambda x: tuple([pg.top_k(x, 2)[i] * 2 for i in used])
        x = np.asarray([[1.0, 3.0, -2.0, 0.5, 2.0]], "float32")
        check(f, [x], [np.flip(x, 1).copy()])
        jitted = pg.jit(f, check=True)  # check compares each result of a replay
        for _ in range(4):
            assert outcome(jitted, *tensors([x])) == outcome(f, *tensors([x]))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_other_compilers(compiler, backend):
    """A copy of the backend has a compiler for all kernels, some kernels, or none."""
    rng = np.random.default_rng(0)
    requested = []
    name = f"{backend}-jit"

    def compile_region(graph):
        requested.append(graph)
        return COMPILERS[compiler](rng, graph, name)

    twin = dataclasses.replace(
        runtime(backend),
        fusable=lambda step, graph: True,
        compile=compile_region,
        close=None,  # the device belongs to the backend
    )
    pg.register_backend(Backend(name, open=lambda: twin))
    try:
        with pg.use_backend(name):
            for row in SAMPLED_ROWS:
                f = pg.grads(lambda *xs, op=row.op: weighted_sum(op(*xs)))
                xs = [x.astype("float32") for x in row.arrays()]
                check(f, xs, [np.flip(x).astype("float32") for x in xs])
    finally:
        pg.remove_backend(name)
    assert requested
