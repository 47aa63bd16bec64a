"""Reductions. Neighboring reduced axes form the middle axis of [a, n, m].

A long reduction is split into parts, which are reduced in parallel; then their results
are reduced.

Contents: ``along``, a reduction of an array; ``staged``, its launches; ``planned``, how
a launch is split; ``reducer``, the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import source
from .arrays import ClArray, ClOwner, DType, Shape, filled
from .runtime import Device, Launch

STRIP_COLUMNS = {"cpu": 256, "gpu": 32}  # columns per CPU item or GPU group
SPLIT_MIN_ELEMENTS = 1 << 14  # on a CPU, smaller reductions are not split into parts
SUM_MAX_VECTORS = 1 << 12  # vectors per sum; longer sums would lose precision
# If a group on a GPU reads more, a second launch (8 us) pays off. A group of 1024
# items reads about 32 bytes per nanosecond.
ONE_LAUNCH_MAX_BYTES = 1 << 18
WIDE_GROUP_ITEMS = 1024  # used if there are few groups and the device allows it
NARROW_STRIP_COLUMNS = 8  # used if groups are scarce; 8 float32 are 32 bytes
UNIT_GROUPS = 8  # groups of 256 items that keep a compute unit of a GPU busy
MAX_PARTS = 1024

# The identity of each reduction, and how two elements combine, by kind of dtype.
_MAX_IDENTITY = {"f": "-INFINITY", "i": "$least", "u": "0", "b": "0"}
_MIN_IDENTITY = {"f": "INFINITY", "i": "$most", "u": "$most", "b": "1"}
_MAX = {"f": "((a > b) | (a != a)) ? a : b", "iub": "a > b ? a : b"}
_MIN = {"f": "((a < b) | (a != a)) ? a : b", "iub": "a < b ? a : b"}
_ADD = {"fiuc": "a + b"}
_MULTIPLY = {"fiu": "a * b", "c": "c_product(a, b)"}
_RULES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "Sum": ({"fiuc": "0"}, _ADD),
    "Mean": ({"fc": "0"}, {"fc": "a + b"}),  # divided when the result is written
    "Prod": ({"fiu": "1", "c": "(float2)(1, -0.0f)"}, _MULTIPLY),
    "Max": (_MAX_IDENTITY, _MAX),
    "Min": (_MIN_IDENTITY, _MIN),
    "Any": ({"b": "0"}, {"b": "a | b"}),
    "All": ({"b": "1"}, {"b": "a & b"}),
}


def _for_kind(rules: dict[str, str], kind: str) -> str | None:
    return next((rule for kinds, rule in rules.items() if kind in kinds), None)


_FIRST = {"Mean": "Sum"}  # the reduction that computes the parts
_EMPTY = {"Prod": 1, "All": 1, "Mean": math.nan}


class ReductionPlan(NamedTuple):
    """How a launch is split.

    Attributes:
        parts: The number of parts into which ``n`` is split.
        group: The number of items in a work group.
        lines: The number of items that share a result; 1 on a CPU.
        groups: The number of work groups.

    """

    parts: int
    group: int
    lines: int
    groups: int


def planned(device: Device, itemsize: int, sizes: Shape) -> ReductionPlan:
    """Return how the reduction of ``[a, n, m]`` is split."""
    a, n, m = sizes
    if device.style == "cpu":
        strips = a * -(-m // STRIP_COLUMNS["cpu"])
        parts = _cpu_parts(device, strips, sizes)
        return ReductionPlan(parts, 1, 1, strips * parts)
    plan = _row_plan(device, a, n) if m == 1 else _column_plan(device, a, m)
    results = plan.group // plan.lines if m > 1 else 1
    if n * results * itemsize <= ONE_LAUNCH_MAX_BYTES:
        return plan
    group = source.GROUP_ITEMS["gpu"]
    results = STRIP_COLUMNS["gpu"] if m > 1 else 1
    groups = a * -(-m // results)
    wanted_parts = max(1, UNIT_GROUPS * device.units // groups)
    parts = min(wanted_parts, max(1, n // group), MAX_PARTS)
    return ReductionPlan(
        parts, group, group // results if m > 1 else group, groups * parts
    )


def _cpu_parts(device: Device, strips: int, sizes: Shape) -> int:
    """Return the number of parts of ``n`` that gives work to all compute units."""
    a, n, m = sizes
    if a * n * m <= SPLIT_MIN_ELEMENTS or n < 4:
        return 1
    max_elements = SUM_MAX_VECTORS * (8 if m == 1 else 1)
    parts = 1 if strips >= 4 * device.units else min(8 * device.units, n // 2)
    return max(parts, n // max_elements)


def _row_plan(device: Device, a: int, n: int) -> ReductionPlan:
    """Return how one launch on a GPU reduces ``a`` rows of ``n`` elements."""
    group = source.GROUP_ITEMS["gpu"]
    lines = lines_of(n)
    wide_group = widest(device)
    if lines == group and a < 2 * device.units and n >= 4 * wide_group:
        group = lines = wide_group
    return ReductionPlan(1, group, lines, -(-a // (group // lines)))


def lines_of(n: int) -> int:
    """Return how many items of a GPU work group share a row of ``n`` elements."""
    return 8 if n <= 64 else 32 if n <= 512 else source.GROUP_ITEMS["gpu"]


def _column_plan(device: Device, a: int, m: int) -> ReductionPlan:
    """Return how one launch on a GPU reduces ``m`` columns."""
    group, columns = source.GROUP_ITEMS["gpu"], STRIP_COLUMNS["gpu"]
    if a * -(-m // columns) < 2 * device.units:
        group = widest(device)
    if a * -(-m // columns) < device.units:
        columns = NARROW_STRIP_COLUMNS
    return ReductionPlan(1, group, group // columns, a * -(-m // columns))


@functools.cache
def widest(device: Device) -> int:
    """Return the size of a wide work group: a power of two that the device allows."""
    limit: int = device.info.handles[0].max_work_group_size
    return 1 << min(limit, WIDE_GROUP_ITEMS).bit_length() - 1


READS = (
    "#define VECTOR_AT(i) (*(__global const T *)(x0 + (i)))\n#define SCALAR_AT(i) x0[i]"
)
# The offset of an element of [a, n, m].
AT = "#define AT(row, i, j) (ROWS ? (row) * n + (i) : ((row) * n + (i)) * m + (j))"


@functools.cache
def reducer(
    device: Device,
    names: tuple[str, ...],
    dtype: DType,
    rows: bool,
    shape: tuple[int, int],
    *reads: str,
) -> Any:
    """Return a kernel, or NotImplemented for a dtype without a rule.

    Args:
        device: The device to run on.
        names: The reductions to compute in one kernel, each over its own input; more
            than one only on a GPU.
        dtype: The dtype of the elements.
        rows: Whether ``m`` is 1.
        shape: The number of items in a group, and of items that share a result.
        reads: The parameters of the kernel, and C code that computes elements from
            them. By default the kernel reads an array for each reduction.

    """
    if dtype not in source.C:
        return NotImplemented
    rules = [_rule(name, dtype) for name in names]
    if None in rules:
        return NotImplemented
    identities, joins = zip(*[rule for rule in rules if rule], strict=True)
    arguments, loads = reads or _array_reads(device, len(names))
    if device.style == "cpu":
        functions = _cpu_functions(identities[0], joins[0])
    else:
        functions = _functions(identities, joins)
    epilogues = [
        f"#define DONE{i}(y) {'((y) / count)' if name == 'Mean' else '(y)'}"
        for i, name in enumerate(names)
    ]
    library = source.functions(" ".join(joins), dtype)
    return source.kernel(
        device,
        "reduce",
        "",
        shape[0],
        width=source.width(dtype),
        ROWS=rows,
        LINES=shape[1],
        STRIP=STRIP_COLUMNS["cpu"],
        type=source.C[dtype],
        functions="\n".join([library, functions, *epilogues, loads]),
        arguments=arguments,
        results=_results(names, dtype),
    )


def _results(names: tuple[str, ...], dtype: DType) -> str:
    """Return the parameters for results and, for a mean, the number of elements."""
    results = [f"__global S *restrict y{i}" for i in range(len(names))]
    if "Mean" in names:
        number = "float" if dtype.kind == "c" else source.C[dtype]
        results.append(f"{number} count")
    return ", ".join(results)


def _rule(name: str, dtype: DType) -> tuple[str, str] | None:
    """Return the identity of a reduction, and how two elements combine, in C."""
    identities, joins = _RULES[name]
    identity = _for_kind(identities, dtype.kind)
    join = _for_kind(joins, dtype.kind)
    if identity is None or join is None:
        return None
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        least = f"({limits.min + 1} - 1)" if limits.min else "0"
        identity = identity.replace("$least", least).replace("$most", str(limits.max))
    return identity, join


def _cpu_functions(identity: str, join: str) -> str:
    """Return C functions that combine vectors, and single elements."""
    return (
        f"#define START ({identity})\n"
        f"static inline T join(T a, T b) {{ return {join}; }}\n"
        f"static inline S join_one(S a, S b) {{ return {join}; }}"
    )


def _functions(identities: Sequence[str], joins: Sequence[str]) -> str:
    """Return C functions that combine the values of all reductions of a GPU kernel."""
    indices = range(len(identities))
    lines = [f"typedef struct {{ {' '.join([f'S v{i};' for i in indices])} }} G;"]
    for i, join in enumerate(joins):
        lines.append(f"static inline S join{i}(S a, S b) {{ return {join}; }}")
    starts = " ".join([f"g.v{i} = {value};" for i, value in enumerate(identities)])
    both = " ".join([f"a.v{i} = join{i}(a.v{i}, b.v{i});" for i in indices])
    writes = " ".join([f"y{i}[at] = DONE{i}(g.v{i});" for i in indices])
    lines.append(f"static inline G start(void) {{ G g; {starts} return g; }}")
    lines.append(f"static inline G join(G a, G b) {{ {both} return a; }}")
    lines.append(f"#define WRITE(at, g) {writes}")
    return "\n".join([AT, *lines])


def _array_reads(device: Device, count: int) -> tuple[str, str]:
    """Return parameters, and C code that reads an element of ``count`` arrays."""
    arrays = [f"__global const S *restrict x{i}" for i in range(count)]
    arguments = ", ".join(arrays)
    names = [f"x{i}" for i in range(count)]
    if device.style == "cpu":
        return arguments, READS
    reads = " ".join([f"g.v{i} = x{i}[at];" for i in range(count)])
    function = (
        f"static inline G element({arguments}, long at) {{ G g; {reads} return g; }}"
    )
    called = f"element({', '.join(names)}, AT(row, i, j))"
    return arguments, f"{function}\n#define ELEMENT(row, i, j) {called}"


class Stage(NamedTuple):
    """A launch of a reduction.

    Attributes:
        launch: The kernel.
        work: The number of elements that it reads.
        items: The global size.
        results: The number of arrays that it writes.
        shape: The shape of these arrays, [a, parts, m].
        size: The number of elements of each of them.
        numbers: The last arguments of the kernel.

    """

    launch: Launch
    work: int
    items: int
    results: int
    shape: Shape
    size: int
    numbers: tuple[float, ...]


def staged(
    device: Device,
    names: tuple[str, ...],
    dtype: DType,
    sizes: Shape,
    reads: tuple[str, ...] = (),
    count: int = 1,
) -> list[Stage]:
    """Return the launches that reduce ``[a, n, m]`` by each of ``names``.

    Args:
        device: The device to run on.
        names: The reductions; there are rules for them and the dtype.
        dtype: The dtype of the elements and of the results.
        sizes: ``(a, n, m)``; none of them is 0.
        reads: See ``reducer``.
        count: The divisor of "Mean".

    """
    a, n, m = sizes
    plan = planned(device, dtype.itemsize, sizes)
    parts = plan.parts
    first = names if parts == 1 else tuple([_FIRST.get(name, name) for name in names])
    stage = Stage(
        reducer(device, first, dtype, m == 1, (plan.group, plan.lines), *reads),
        a * n * m,
        plan.groups * plan.group,
        len(names),
        (a, parts, m),
        a * parts * m,
        (*[float(count)] * ("Mean" in first), a, n, m, parts),
    )
    rest = (a, parts, m)
    later = staged(device, names, dtype, rest, count=count) if parts > 1 else []
    return [stage, *later]


def reduced(
    device: Device, stages: Sequence[Stage], dtype: DType, given: Sequence[Any]
) -> list[ClArray]:
    """Run the launches; ``given`` are the first arguments of the first launch."""
    made: list[ClArray] = []
    for launch, work, items, results, shape, size, numbers in stages:
        ys: list[ClArray] = [
            ClOwner(device, shape, dtype, size) for _ in range(results)
        ]
        buffers = [y.buffer for y in ys]
        launch(work, items, *given, *buffers, *numbers)
        made, given = ys, buffers  # the previous arrays live until here
    return made


def along(name: str, x: ClArray, axis: Shape, keepdims: bool) -> Any:
    """Return a reduction over ``axis``; ``_EMPTY`` or 0 if there are no elements."""
    shape, stages = _along(x.device, name, x.dtype, x.shape, axis, keepdims)
    if stages is NotImplemented:
        return NotImplemented
    if not x.size:
        return filled(x.device, shape, _EMPTY.get(name, 0), x.dtype)
    if stages:
        (x,) = reduced(x.device, stages, x.dtype, [x.buffer])
    return x.view(shape)


@functools.lru_cache(4096)
def _along(
    device: Device, name: str, dtype: DType, shape: Shape, axis: Shape, keepdims: bool
) -> tuple[Shape, Any]:
    """Return the shape of the result, and the launches that compute it."""
    if any(not 0 <= i < len(shape) for i in axis):
        raise ValueError(f"opencl: shape {shape} does not have all of the axes {axis}")
    kept_dims = [1 if i in axis else n for i, n in enumerate(shape)]
    y_shape = tuple([n for i, n in enumerate(kept_dims) if keepdims or i not in axis])
    if dtype not in source.C or _rule(name, dtype) is None:
        return y_shape, NotImplemented
    passes = _passes(shape, axis) if 0 not in shape else []
    count = math.prod([shape[i] for i in axis])
    stages = []
    for i, sizes in enumerate(passes):
        pass_name = name if i == len(passes) - 1 else _FIRST.get(name, name)
        stages += staged(device, (pass_name,), dtype, sizes, count=count)
    return y_shape, stages


def _passes(shape: Shape, axis: Shape) -> list[tuple[int, int, int]]:
    """Return [a, n, m] for each run of neighboring axes, the last run first."""
    sizes = list(shape)
    stop = len(shape)
    passes = []
    while stop:
        start = stop
        while start and (start - 1 in axis) == (stop - 1 in axis):
            start -= 1
        if stop - 1 in axis:
            parts = sizes[:start], sizes[start:stop], sizes[stop:]
            a, n, m = map(math.prod, parts)
            if n > 1:
                passes.append((a, n, m))
            sizes[start:stop] = [1] * (stop - start)
        stop = start
    return passes
