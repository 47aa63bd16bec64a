"""Parts of tensors, and padding. Kernels: ``MirrorPad PadV2 Slice StridedSlice``.

Python's ``x[...]`` is in ``indexing``.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from plugrad import geometry
from plugrad._arguments import Ints, choice, integers
from plugrad._dtypes import STRING, DType, weak
from plugrad._engine import run
from plugrad._kernel import Kernel, Spec, decomposition, gradients
from plugrad._tensor import Tensor, TensorLike

from . import _convert, indexing, shape

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# --- parts -----------------------------------------------------------------------

STRIDED_SLICE = Kernel(
    "StridedSlice(x; begin, size, strides)",
    out=lambda x, begin, size, strides: Spec(size, x.dtype),
    op="strided_slice",
)


def strided_slice(
    x: TensorLike,
    /,
    begin: Ints,
    end: Ints,
    strides: Ints | None = None,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
) -> Tensor:
    """Return ``x[begin:end:strides]`` axis by axis, as TensorFlow spells it.

    Bit ``i`` of a mask is about entry ``i``: from the start, to the end, all axes that
    no entry names (which wins), a new axis of size 1, or one place whose axis goes.
    ``x[...]`` is easier to read. The kernel knows no masks and no ends but sizes.

    Raises:
        ValueError: ``begin``, ``end``, ``strides`` differ in length, or a stride is 0.
        IndexError: A single place is out of range, there are more entries than axes, or
            several are all axes that no entry names.

    """
    starts = integers("strided_slice", "begin", begin)
    ends = integers("strided_slice", "end", end)
    steps = (1,) * len(starts)
    steps = steps if strides is None else integers("strided_slice", "strides", strides)
    if not len(starts) == len(ends) == len(steps):
        raise ValueError(
            f"strided_slice: begin {starts}, end {ends} and strides {steps} differ in "
            "length"
        )
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    integers("strided_slice", "the masks", masks)
    key: list[object] = []
    for i, (b, e, s) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            key.append(Ellipsis)
        elif new_axis_mask & bit:
            key.append(None)
        elif shrink_axis_mask & bit:
            key.append(b)
        else:
            first = None if begin_mask & bit else b
            key.append(builtins.slice(first, None if end_mask & bit else e, s))
    return indexing.select("strided_slice", _convert.asarray(x), tuple(key))


def _put_back(
    dy: Tensor, x_spec: Spec, begin: Shape, size: Shape, strides: Shape
) -> Tensor:
    """Put ``dy`` where a slice has read, and zeros elsewhere.

    An axis that was read backwards is turned; a stride of s puts s - 1 zeros behind
    each element, of which those behind the last are cut off.
    """
    turned = tuple(i for i, s in enumerate(strides) if s < 0 and size[i] > 1)
    if turned:
        dy = run(shape.REVERSE, dy, axis=turned)
    steps = [abs(s) if n > 1 else 1 for s, n in zip(strides, size, strict=True)]
    spans = tuple((n - 1) * s + 1 if n else 0 for n, s in zip(size, steps, strict=True))
    if any(s > 1 for s in steps):
        wide, gaps, long = [], [], []
        for n, s in zip(size, steps, strict=True):
            wide += [n, 1] if s > 1 else [n]
            gaps += [(0, 0), (0, s - 1)] if s > 1 else [(0, 0)]
            long.append(n * s)
        dy = pad(run(shape.RESHAPE, dy, shape=tuple(wide)), gaps)
        dy = run(shape.RESHAPE, dy, shape=tuple(long))
        rest = {"begin": (0,) * len(size), "strides": (1,) * len(size)}
        dy = run(STRIDED_SLICE, dy, size=spans, **rest)
    lows = [
        b + (n - 1) * s if s < 0 and n > 1 else b if n else 0
        for b, n, s in zip(begin, size, strides, strict=True)
    ]
    room = zip(lows, x_spec.shape, spans, strict=True)
    paddings = tuple([(low, n - low - span) for low, n, span in room])
    return run(PAD_V2, dy, paddings=paddings, constant_values=0)


gradients(STRIDED_SLICE, x=_put_back)


def along(x: Tensor, axis: int, begin: int, size: int, stride: int = 1) -> Tensor:
    """Return ``size`` elements of one axis and all of the others."""
    rank = len(x.shape)
    return run(
        STRIDED_SLICE,
        x,
        begin=(*(0,) * axis, begin, *(0,) * (rank - 1 - axis)),
        size=(*x.shape[:axis], size, *x.shape[axis + 1 :]),
        strides=(*(1,) * axis, stride, *(1,) * (rank - 1 - axis)),
    )


SLICE = Kernel(
    "Slice(x; begin, size)", out=lambda x, begin, size: Spec(size, x.dtype), op="slice"
)


def slice(x: TensorLike, /, begin: Ints, size: Ints | None = None) -> Tensor:
    """Return ``size`` elements from ``begin`` on along each axis.

    -1 as a size means all that follow; axes that are not named are taken whole. What
    does not lie inside is a ValueError.
    """
    x = _convert.asarray(x)
    starts = integers("slice", "begin", begin)
    sizes = () if size is None else integers("slice", "size", size)
    rank = len(x.shape)
    if len(starts) > rank or len(sizes) > rank:
        raise ValueError(
            f"slice: begin {starts} and size {sizes} are longer than shape {x.shape}"
        )
    starts += (0,) * (rank - len(starts))
    sizes += (-1,) * (rank - len(sizes))
    wanted = tuple(
        n - b if k == -1 else k for b, k, n in zip(starts, sizes, x.shape, strict=True)
    )
    for b, k, n in zip(starts, wanted, x.shape, strict=True):
        if b < 0 or k < 0 or b + k > n:
            raise ValueError(
                f"slice: begin {starts} and size {sizes} do not lie inside of shape "
                f"{x.shape}; begin counts from 0"
            )
    return run(SLICE, x, begin=starts, size=wanted)


@decomposition(SLICE)
def _(x: Tensor, *, begin: Shape, size: Shape) -> Tensor:
    return run(STRIDED_SLICE, x, begin=begin, size=size, strides=(1,) * len(size))


gradients(
    SLICE,
    x=lambda dy, x_spec, begin, size: _put_back(
        dy, x_spec, begin, size, (1,) * len(size)
    ),
)


def roll(x: TensorLike, /, shift: Ints, *, axis: Ints | None = None) -> Tensor:
    """Return the elements moved on by ``shift`` places along ``axis``, end to start.

    ``axis=None`` rolls the elements in row-major order. One shift goes with every axis.
    """
    x = _convert.asarray(x)
    shifts = integers("roll", "shift", shift)
    if axis is None:
        flat = run(shape.RESHAPE, x, shape=(math.prod(x.shape),))
        return run(shape.RESHAPE, roll(flat, sum(shifts), axis=0), shape=x.shape)
    axes = [
        geometry.axes("roll", i, len(x.shape))[0]
        for i in integers("roll", "axis", axis)
    ]
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ValueError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes")
    for i, step in zip(axes, shifts, strict=True):
        n = x.shape[i]
        cut = -step % n if n else 0
        if cut:
            ends = along(x, i, cut, n - cut), along(x, i, 0, cut)
            x = run(shape.CONCAT, *ends, axis=i)
    return x


# --- padding ---------------------------------------------------------------------


def _padded(x: Spec, *, paddings: Pairs, **_: object) -> Spec:
    sizes = zip(x.shape, paddings, strict=True)
    return Spec(tuple(before + n + after for n, (before, after) in sizes), x.dtype)


PAD_V2 = Kernel("PadV2(x; paddings, constant_values)", out=_padded, op="pad")
MIRROR_PAD = Kernel("MirrorPad(x; paddings, mode)", out=_padded, op="pad")


def pad(
    x: TensorLike,
    /,
    paddings: Sequence[Sequence[int]],
    *,
    mode: Literal["constant", "reflect", "symmetric"] = "constant",
    constant_values: complex | str | bytes = 0,
) -> Tensor:
    """Return ``x`` with elements added before and behind along each axis.

    ``paddings`` is a pair (before, after) for each axis; ``constant_values`` is one
    number, or for strings one ``str`` or ``bytes``. ``"reflect"`` mirrors at the first
    or last element, and ``"symmetric"`` at the edge behind it, so that it comes twice.
    """
    x = _convert.asarray(x)
    found = geometry.pairs("pad", "paddings", paddings, len(x.shape))
    if choice("pad", "mode", mode, "constant", "reflect", "symmetric") == "constant":
        value = constant("pad", constant_values, x.dtype)
        return run(PAD_V2, x, paddings=found, constant_values=value)
    for n, padding in zip(x.shape, found, strict=True):
        if max(padding) > max(n - (mode == "reflect"), 0):
            raise ValueError(
                f"pad: an axis of size {n} has no {padding} elements to mirror ({mode})"
            )
    return run(MIRROR_PAD, x, paddings=found, mode=mode)


def constant(op: str, value: object, dtype: DType) -> complex | bytes:
    """Return a number for an attribute as one of Python that ``dtype`` can hold.

    Strings are bytes, and 0 stands for the empty one.
    """
    plain = value.item() if isinstance(value, np.generic) else value
    if dtype is STRING and (isinstance(plain, str | bytes) or plain == 0):
        return plain.encode() if isinstance(plain, str) else plain or b""
    if not isinstance(plain, int | float | complex):
        raise TypeError(f"{op}: expected a number, got {type(value).__name__}")
    if weak(op, plain, dtype) is not dtype and plain not in (0, 1):
        raise TypeError(f"{op}: {plain} does not fit into {dtype}; cast the tensor")
    return plain


gradients(
    PAD_V2,
    x=lambda dy, x_spec, paddings: run(
        STRIDED_SLICE,
        dy,
        begin=tuple([before for before, _ in paddings]),
        size=x_spec.shape,
        strides=(1,) * len(paddings),
    ),
)


@decomposition(MIRROR_PAD)  # and no gradient: it is that of the parts
def _(x: Tensor, *, paddings: Pairs, mode: str) -> Tensor:
    skip = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        n = x.shape[axis]
        parts = [x]
        if before:
            parts.insert(0, along(x, axis, skip + before - 1, before, -1))
        if after:
            parts.append(along(x, axis, n - 1 - skip, after, -1))
        if before or after:
            x = run(shape.CONCAT, *parts, axis=axis)
    return x
