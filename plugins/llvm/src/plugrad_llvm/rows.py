"""Row kernels: softmax, its logarithm, layer normalization, and gradients.

They read and write rows in memory. Sums are in the same order as in ``norm.c`` of
plugrad-cpu, so the results have the same bits. A scalar is a vector of one lane.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from .code import DOUBLE, Code, Vector, index, neighbors, poison
from .loops import Accumulate, accumulate, for_each, for_each_in_place
from .mathematics import exp, polynomial

EXP_SUM_ELEMENTS = 256  # exponentials per float32 sum
SUM_ELEMENTS = 512  # elements per float32 sum
ROUND_ELEMENTS = 64  # elements added per iteration
VECTOR_ELEMENTS = 16
ROUND_TO_INT_MAGIC = 12582912.0 + 127
EXP2 = [1.53533634e-4, 1.33989006e-3, 9.61843785e-3, 5.55033237e-2]
EXP2 += [0.240226477, 0.693147183, 1.0]
LOG2E_HIGH, LOG2E_LOW = 1.44269502, 1.92596303e-8

Row = Sequence[ir.Value | None]  # addresses of the operands' rows; None: missing
Attrs = Mapping[str, Any]
Write = Callable[[Code, Row, ir.Value, int, Attrs], None]


# --- scalars ---------------------------------------------------------------------


def fold(x: Vector, combine: Callable[[Vector, Vector], Vector]) -> Vector:
    """Combine the halves of a vector until one lane is left."""
    while x.lanes > 1:
        half = x.lanes // 2
        parts = []
        for first in (0, half):
            lanes = neighbors(first, half)
            part = x.builder.shuffle_vector(x.value, poison(x.kind, x.lanes), lanes)
            parts.append(Vector(x.code, part, "f", half))
        x = combine(*parts)
    return x


def scalar(x: Vector) -> ir.Value:
    """Return the element of a vector of one lane."""
    return x.builder.extract_element(x.value, index(0))


def widened(x: Vector, lanes: int = 0) -> Vector:
    """Return a vector with a scalar in all lanes."""
    return x.code.splat(scalar(x), x.kind, lanes)


def at(code: Code, row: ir.Value, i: ir.Value, lanes: int = 0) -> Vector:
    """Return the elements of a row at an index."""
    return code.load(code.at(row, "f", i), "f", lanes)


def put(code: Code, row: ir.Value, i: ir.Value, x: Vector) -> None:
    """Write elements of a row at an index."""
    code.store(code.at(row, "f", i), x)


# --- softmax ---------------------------------------------------------------------


def exp_below(x: Vector) -> Vector:
    """Return e^x for x up to 0, and 0 where the result is denormal."""
    total = x.code.fma(x, LOG2E_HIGH, ROUND_TO_INT_MAGIC)
    f = x.code.fma(x, LOG2E_HIGH, ROUND_TO_INT_MAGIC - total)
    f = x.code.fma(x, LOG2E_LOW, f)
    y = polynomial(f, *EXP2) * (total.bits() << 23).floats()
    return x.code.where(x < -87.3, 0.0, y)


def _larger(a: Vector, b: Vector) -> Vector:
    return a.code.where(a < b, b, a)


def _largest_of(a: Vector, b: Vector) -> Vector:
    """Return the larger elements of two vectors; 0 is larger than -0."""
    zero = (a.bits() & b.bits()).floats()
    return a.code.where(a.equal(b), zero, _larger(a, b))


def largest(code: Code, row: ir.Value, n: int) -> Vector:
    """Return the largest element of a row; NaN is ignored."""
    lanes = code.module.lanes
    if n < lanes:
        lanes = 1

    def update(i: ir.Value, maxima: list[Vector]) -> list[Vector]:
        found = []
        for k, x in enumerate(maxima):
            offset = code.builder.add(i, index(k * lanes))
            found.append(_larger(x, at(code, row, offset, lanes)))
        return found

    start = [code.constant(-inf, "f", lanes)] * (2 if lanes > 1 else 1)
    step = lanes * len(start)
    whole = n - n % step
    found = accumulate(code, whole, step, start, update)
    if lanes == 1:
        return found[0]
    if whole < n:
        places = (min(whole, n - lanes), n - lanes)
        found = [
            _larger(x, at(code, row, index(i), lanes))
            for x, i in zip(found, places, strict=True)
        ]
    return fold(_larger(*found), _largest_of)


def exponentials(
    code: Code, x: ir.Value, maximum: Vector, n: int, y: ir.Value | None
) -> Vector:
    """Return the float64 sum of e^(x - maximum); store the terms in ``y`` if given."""
    lanes = code.module.lanes
    element = scalar(maximum)
    shift = code.splat(element, "f", lanes) if n >= lanes else maximum

    def term(i: ir.Value, count: int, by: Vector) -> Vector:
        e = exp_below(at(code, x, i, count) - by)
        if y is not None:
            put(code, y, i, e)
        return e

    def chunk(first: ir.Value, count: int, total: Vector) -> Vector:
        def add(i: ir.Value, sums: list[Vector]) -> list[Vector]:
            return [sums[0] + term(code.builder.add(first, i), lanes, shift)]

        zero = [code.constant(0.0, "f", lanes)]
        (found,) = accumulate(code, count, lanes, zero, add)
        return total + fold(found, operator.add).to("d")

    whole = n - n % lanes
    full = whole - whole % EXP_SUM_ELEMENTS
    each: Accumulate = lambda i, total: [chunk(i, EXP_SUM_ELEMENTS, total[0])]
    (total,) = accumulate(
        code, full, EXP_SUM_ELEMENTS, [code.constant(0.0, "d", 1)], each
    )
    total = chunk(index(full), whole - full, total) if full < whole else total
    if whole < n:
        e = term(index(whole), n - whole, code.splat(element, "f", n - whole))
        for k in range(e.lanes):
            picked = code.builder.extract_element(e.value, index(k))
            total = total + code.splat(picked, "f", 1).to("d")
    return total


def softmax(code: Code, xs: Row, y: ir.Value, n: int, attrs: Attrs) -> None:
    """Write softmax of a row."""
    maximum = largest(code, xs[0], n)
    total = exponentials(code, xs[0], maximum, n, y)
    share = (1.0 / total).to("f")

    def scale(i: ir.Value, lanes: int) -> None:
        put(code, y, i, at(code, y, i, lanes) * widened(share, lanes))

    for_each_in_place(code, n, scale)


def log_softmax(code: Code, xs: Row, y: ir.Value, n: int, attrs: Attrs) -> None:
    """Write the logarithm of softmax of a row."""
    maximum = largest(code, xs[0], n)
    total = exponentials(code, xs[0], maximum, n, None)
    log = code.module.declare("log", DOUBLE, DOUBLE)
    log_of_total = code.builder.call(log, [scalar(total)])
    log_total = widened(code.splat(log_of_total, "d", 1).to("f"))
    by = widened(maximum)

    def shift(i: ir.Value) -> None:
        put(code, y, i, at(code, xs[0], i) - by - log_total)

    for_each(code, n, shift)


# --- sums ------------------------------------------------------------------------


def summed(
    code: Code, x: ir.Value, n: int, function: Callable[[Vector], Vector] = lambda x: x
) -> Vector:
    """Return the sum of a function of a row's elements, in float64."""

    def added(first: ir.Value, count: int, lanes: int, parts: int) -> Vector:
        """Add ``count`` elements to ``parts`` vectors, and add up these vectors."""

        def add(i: ir.Value, sums: list[Vector]) -> list[Vector]:
            start = code.at(x, "f", code.builder.add(first, i))
            xs = [at(code, start, index(k * lanes), lanes) for k in range(parts)]
            return [sum + function(x) for sum, x in zip(sums, xs, strict=True)]

        zeros = [code.constant(0.0, "f", lanes)] * parts
        sums = accumulate(code, count, lanes * parts, zeros, add)
        while len(sums) > 1:
            sums = [sums[0] + sums[1], *sums[2:]]
        return fold(sums[0], operator.add).to("d")

    def chunk(first: ir.Value, count: int, total: Vector) -> Vector:
        rounds = count - count % ROUND_ELEMENTS
        begin = first
        for size, lanes, parts in (
            (rounds, VECTOR_ELEMENTS, ROUND_ELEMENTS // VECTOR_ELEMENTS),
            (count % ROUND_ELEMENTS - count % VECTOR_ELEMENTS, VECTOR_ELEMENTS, 1),
            (count % VECTOR_ELEMENTS, 1, 1),
        ):
            if size:
                total = total + added(begin, size, lanes, parts)
                begin = code.builder.add(begin, index(size))
        return total

    full = n - n % SUM_ELEMENTS
    each: Accumulate = lambda i, total: [chunk(i, SUM_ELEMENTS, total[0])]
    (total,) = accumulate(code, full, SUM_ELEMENTS, [code.constant(0.0, "d", 1)], each)
    return chunk(index(full), n - full, total) if full < n else total


def layer_norm(code: Code, xs: Row, y: ir.Value, n: int, attrs: Attrs) -> None:
    """Write the normalization of a row."""
    x, scale, offset = xs
    mean = (summed(code, x, n) / float(n)).to("f")
    element = scalar(mean)

    def square(x: Vector) -> Vector:
        d = x - code.splat(element, "f", x.lanes)
        return d * d

    variance = summed(code, x, n, square) / float(n) + float(attrs["epsilon"])
    factor = widened((1.0 / variance.sqrt()).to("f"))
    by = widened(mean)

    def normalize(i: ir.Value) -> None:
        z = (at(code, x, i) - by) * factor
        z = z if scale is None else z * at(code, scale, i)
        z = z if offset is None else z + at(code, offset, i)
        put(code, y, i, z)

    for_each(code, n, normalize)


# --- gradients -------------------------------------------------------------------


def softmax_grad(code: Code, xs: Row, to: ir.Value, n: int, attrs: Attrs) -> None:
    """Write the gradient of softmax: dy y - y sum(dy y)."""
    dy, y = xs
    for_each(code, n, lambda i: put(code, to, i, at(code, dy, i) * at(code, y, i)))
    total = summed(code, to, n).to("f")

    def subtract(i: ir.Value, lanes: int) -> None:
        less = at(code, y, i, lanes) * widened(total, lanes)
        put(code, to, i, at(code, to, i, lanes) - less)

    for_each_in_place(code, n, subtract)
    _balance(code, y, to, n, 0.6)


def _balance(code: Code, y: ir.Value, to: ir.Value, n: int, limit: float) -> None:
    """Replace the element whose y is above the limit, so that the row sums to 0."""

    def clear(i: ir.Value, lanes: int) -> None:
        above = at(code, y, i, lanes) > limit
        put(code, to, i, code.where(above, 0.0, at(code, to, i, lanes)))

    for_each_in_place(code, n, clear)
    total = -summed(code, to, n).to("f")

    def fill(i: ir.Value, lanes: int) -> None:
        above = at(code, y, i, lanes) > limit
        dx = code.where(above, widened(total, lanes), at(code, to, i, lanes))
        put(code, to, i, dx)

    for_each_in_place(code, n, fill)


def log_softmax_grad(code: Code, xs: Row, to: ir.Value, n: int, attrs: Attrs) -> None:
    """Write the gradient of the logarithm of softmax: dy - e^y sum(dy)."""
    dy, y = xs
    total = widened(summed(code, dy, n).to("f"))

    def subtract(i: ir.Value) -> None:
        put(code, to, i, at(code, dy, i) - exp(at(code, y, i)) * total)

    for_each(code, n, subtract)
    _balance(code, y, to, n, -0.5)


ROWS: dict[str, Write] = {
    "Softmax": softmax,
    "LogSoftmax": log_softmax,
    "LayerNorm": layer_norm,
    "plugrad_cpu.SoftmaxGrad": softmax_grad,
    "plugrad_cpu.LogSoftmaxGrad": log_softmax_grad,
}
