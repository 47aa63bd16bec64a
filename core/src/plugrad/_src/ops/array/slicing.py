"""Slices of tensors, and padding. Kernels: ``MirrorPad PadV2 Slice StridedSlice``.

Python's ``x[...]`` and the op ``strided_slice`` are in ``indexing``. The decompositions
of ``SplitV``, ``Unpack`` and ``Reverse``, kernels of ``shape``, are here because they
consist of slices.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, Literal, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import _convert, shape
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import (
    Ints,
    Margins,
    choice,
    integers,
    misfit,
    number,
    sizes,
)
from plugrad._src.tensor.dtypes import STRING, DType, named, weak
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

__all__ = ["pad", "slice"]

Pairs = tuple[tuple[int, int], ...]

# --- parts -----------------------------------------------------------------------


def _slice_spec(x: Spec, *, begin: Shape, size: Shape) -> Spec:
    if len(begin) != len(x.shape) or len(size) != len(x.shape):
        raise misfit("slice", f"begin {begin} and size {size} must cover each axis", x)
    _check_inside(x, begin, size)
    return Spec(size, x.dtype)


def _check_inside(x: Spec | Tensor, begin: Shape, size: Shape) -> None:
    for b, k, n in zip(begin, size, x.shape, strict=True):
        if not 0 <= b <= b + k <= n:
            rule = f"begin {begin}, counted from 0, and size {size} must lie inside"
            raise misfit("slice", rule, x)


SLICE = Kernel(
    "Slice(x; begin: shape, size: shape)",
    out=_slice_spec,
    op="slice",
    doc="""``x[begin[0] : begin[0] + size[0], ...]``; the block lies inside ``x``.""",
)


def _strided_slice_spec(x: Spec, *, begin: Shape, size: Shape, strides: Shape) -> Spec:
    rank = len(x.shape)
    if not len(begin) == len(size) == len(strides) == rank:
        rule = f"begin {begin}, size {size} and strides {strides} must cover each axis"
        raise misfit("strided_slice", rule, x)
    for b, k, s, n in zip(begin, size, strides, x.shape, strict=True):
        last, room = (b + (k - 1) * s, n) if k else (b, n + 1)
        if not (0 <= b < room and 0 <= last < room and 0 < abs(s) < 2**31):
            rule = f"begin {begin}, size {size} and strides {strides} must lie inside x"
            raise misfit("strided_slice", f"{rule}, and no stride may be 0", x)
    return Spec(size, x.dtype)


STRIDED_SLICE = Kernel(
    "StridedSlice(x; begin: shape, size: shape, strides: ints)",
    out=_strided_slice_spec,
    op="strided_slice",
    doc="""``y[i, ...] = x[begin[0] + i * strides[0], ...]`` for i below ``size[0]``.

    Strides may be negative. All elements that are read lie inside ``x``.""",
)


def _strided_slice_gradient(
    dy: Tensor, x_spec: Spec, begin: Shape, size: Shape, strides: Shape
) -> Tensor:
    """Return zeros shaped like ``x``, with ``dy`` at the elements that were sliced.

    An axis with a negative stride is reversed. For a stride s, s - 1 zeros are inserted
    after each element; those after the last element are dropped.
    """
    turned = tuple(i for i, s in enumerate(strides) if s < 0 and size[i] > 1)
    if turned:
        dy = run(shape.REVERSE, dy, axis=turned)
    steps = [abs(s) if n > 1 else 1 for s, n in zip(strides, size, strict=True)]
    spans = tuple((n - 1) * s + 1 if n else 0 for n, s in zip(size, steps, strict=True))
    if any(s > 1 for s in steps):
        wide = []
        gaps = []
        long = []
        for n, s in zip(size, steps, strict=True):
            wide += [n, 1] if s > 1 else [n]
            gaps += [(0, 0), (0, s - 1)] if s > 1 else [(0, 0)]
            long.append(n * s)
        dy = pad(run(shape.RESHAPE, dy, shape=tuple(wide)), gaps)
        dy = run(shape.RESHAPE, dy, shape=tuple(long))
        dy = run(SLICE, dy, begin=(0,) * len(size), size=spans)
    read = zip(begin, size, strides, strict=True)
    lows = [b + (n - 1) * min(s, 0) if n else 0 for b, n, s in read]
    room = zip(lows, x_spec.shape, spans, strict=True)
    paddings = tuple([(low, n - low - span) for low, n, span in room])
    return run(PAD_V2, dy, paddings=paddings, constant_values=0)


gradients(STRIDED_SLICE, x=_strided_slice_gradient)


def along(x: Tensor, axis: int, begin: int, size: int, stride: int = 1) -> Tensor:
    """Slice one axis: take ``size`` elements from ``begin`` on, ``stride`` apart."""
    begins = [0] * len(x.shape)
    sizes = [*x.shape]
    strides = [1] * len(x.shape)
    begin = begin if size else 0  # an empty axis must begin at 0
    begins[axis] = begin
    sizes[axis] = size
    strides[axis] = stride
    part = {"begin": tuple(begins), "size": tuple(sizes), "strides": tuple(strides)}
    return run(STRIDED_SLICE, x, **part)


def slice(
    x: TensorLike, /, begin: Ints, size: Ints | None = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the block of ``x`` with ``size`` elements from ``begin`` along each axis.

    Args:
        x: A tensor of any dtype.
        begin: The first index along each axis, from 0; axes without an entry start at
            0.
        size: The number of elements along each axis; -1 or a missing entry stands for
            all remaining elements.

    Returns:
        A tensor with the dtype of ``x``.

    Raises:
        ValueError: The block is not inside ``x``, or ``begin`` or ``size`` is too long.

    Example:
        >>> pg.slice([1, 2, 3, 4, 5], 1, 3)
        Tensor([2, 3, 4], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(slice, unknown)
    x = _convert.asarray(x)
    starts = integers("slice", "begin", begin)
    sizes = () if size is None else integers("slice", "size", size)
    rank = len(x.shape)
    if len(starts) > rank or len(sizes) > rank:
        raise misfit("slice", f"begin {starts} or size {sizes} is too long", x)
    starts += (0,) * (rank - len(starts))
    sizes += (-1,) * (rank - len(sizes))
    given = zip(starts, sizes, x.shape, strict=True)
    wanted = tuple([n - b if k == -1 else k for b, k, n in given])
    _check_inside(x, starts, wanted)
    return run(SLICE, x, begin=starts, size=wanted)


@decomposition(SLICE)
def _(x: Tensor, *, begin: Shape, size: Shape) -> Tensor:
    return run(STRIDED_SLICE, x, begin=begin, size=size, strides=(1,) * len(size))


def _slice_gradient(dy: Tensor, x_spec: Spec, begin: Shape, size: Shape) -> Tensor:
    return _strided_slice_gradient(dy, x_spec, begin, size, (1,) * len(size))


gradients(SLICE, x=_slice_gradient)


# --- padding ---------------------------------------------------------------------


def _padded_spec(x: Spec, paddings: Pairs) -> Spec:
    paddings = geometry.pairs("pad", "paddings", paddings, len(x.shape))
    each = zip(x.shape, paddings, strict=True)
    shape = tuple([before + n + after for n, (before, after) in each])
    return Spec(sizes("pad", shape, "the result"), x.dtype)


def _pad_spec(x: Spec, *, paddings: Pairs, constant_values: complex | bytes) -> Spec:
    check_constant("pad", constant_values, x.dtype)
    return _padded_spec(x, paddings)


PAD_V2 = Kernel(
    "PadV2(x; paddings: pairs, constant_values: scalar)",
    out=_pad_spec,
    op="pad",
    doc="""``x`` with constant elements added before and after it along each axis.

    ``paddings`` has a pair (before, after) for each axis; neither number is negative.
    The added elements are ``constant_values``: a number that the dtype can represent,
    or bytes.""",
)


def _mirror_pad_spec(x: Spec, *, paddings: Pairs, mode: str) -> Spec:
    found = _padded_spec(x, paddings)
    _check_mirrors(x, paddings, mode)
    return found


def _check_mirrors(x: Spec | Tensor, paddings: Pairs, mode: str) -> None:
    for n, padding in zip(x.shape, paddings, strict=True):
        if max(padding) > max(n - (mode == "reflect"), 0):
            rule = f"an axis of size {n} cannot mirror {padding} elements ({mode})"
            raise misfit("pad", rule, x)


MIRROR_PAD = Kernel(
    "MirrorPad(x; paddings: pairs, mode: 'reflect' | 'symmetric')",
    out=_mirror_pad_spec,
    op="pad",
    doc="""``x`` extended along each axis by mirror images of itself.

    ``paddings`` has a pair (before, after) for each axis. With 2 at both ends,
    ``'reflect'`` turns 1 2 3 into 3 2 1 2 3 2 1, and ``'symmetric'``, which repeats the
    first and the last element, turns it into 2 1 1 2 3 3 2. The padding never exceeds
    the number of elements that can be mirrored.""",
)


def pad(
    x: TensorLike,
    /,
    paddings: Margins,
    *,
    mode: Literal["constant", "reflect", "symmetric", "edge", "wrap"] = "constant",
    constant_values: complex | str | bytes = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``x`` with elements added before and after it along each axis.

    Args:
        x: A tensor of any dtype.
        paddings: A pair (before, after) of non-negative numbers for each axis.
        mode: ``"constant"`` adds ``constant_values``. ``"reflect"`` mirrors at the
            first and the last element; ``"symmetric"`` mirrors at the edges, so that
            these elements appear twice. ``"edge"`` repeats the first and the last
            element; ``"wrap"`` continues with the elements of the other end.
        constant_values: A number that the dtype of ``x`` can represent, or ``str`` or
            ``bytes`` for a tensor of strings.

    Returns:
        A larger tensor with the dtype of ``x``.

    Raises:
        ValueError: The numbers of pairs and axes differ, a number is negative, or an
            axis has too few elements to mirror, or none to repeat.
        TypeError: The dtype cannot represent ``constant_values``.

    Example:
        >>> pg.pad([1, 2, 3], [(1, 2)])
        Tensor([0, 1, 2, 3, 0, 0], dtype=int32, backend='cpu')
        >>> pg.pad([1, 2, 3], [(1, 2)], mode="reflect")
        Tensor([2, 1, 2, 3, 2, 1], dtype=int32, backend='cpu')
        >>> pg.pad([1, 2, 3], [(1, 2)], mode="wrap")
        Tensor([3, 1, 2, 3, 1, 2], dtype=int32, backend='cpu')

    Source:
        The modes are those of ``numpy.pad``.

    """
    if unknown:
        raise unexpected(pad, unknown)
    x = _convert.asarray(x)
    found = geometry.pairs("pad", "paddings", paddings, len(x.shape))
    modes = ("constant", "reflect", "symmetric", "edge", "wrap")
    if choice("pad", "mode", mode, *modes) == "constant":
        value = constant("pad", constant_values, x.dtype)
        return run(PAD_V2, x, paddings=found, constant_values=value)
    if mode in ("edge", "wrap"):
        return _pad_with_copies(x, found, mode)
    _check_mirrors(x, found, mode)
    return run(MIRROR_PAD, x, paddings=found, mode=mode)


def _pad_with_copies(x: Tensor, paddings: Pairs, mode: str) -> Tensor:
    """Pad ``x`` with copies of its edges, or of itself."""
    _padded_spec(Spec(x.shape, x.dtype), paddings)
    for axis, (before, after) in enumerate(paddings):
        n = x.shape[axis]
        if not before and not after:
            continue
        if not n:
            raise misfit("pad", f"axis {axis} has no elements to repeat ({mode})", x)
        if mode == "edge":
            ends = [along(x, axis, i, 1) for i in (0, n - 1)]
            sizes = [shape._replace_axis(x.shape, axis, k) for k in (before, after)]
            front, back = (
                run(shape.BROADCAST_TO, end, shape=size)
                for end, size in zip(ends, sizes, strict=True)
            )
        else:
            copies, left = divmod(before, n)
            more, right = divmod(after, n)
            front = shape.concat([along(x, axis, n - left, left), *[x] * copies], axis)
            back = shape.concat([*[x] * more, along(x, axis, 0, right)], axis)
        x = run(shape.CONCAT, front, x, back, axis=axis)
    return x


def constant(op: str, value: Any, dtype: DType) -> complex | bytes:
    """Return ``value`` as a Python number that ``dtype`` can represent, or as bytes.

    Bytes are returned for the dtype ``string``; 0 stands for the empty string.
    """
    if dtype is STRING and (isinstance(value, str | bytes) or value == 0):
        return value.encode() if isinstance(value, str) else bytes(value or b"")
    plain = number(op, "the value", value)
    if weak(op, plain, dtype) is dtype:
        return plain
    if plain not in (0, 1):
        raise TypeError(f"{op}: {plain} does not fit into {dtype}; cast the tensor")
    return int(plain.real)


def check_constant(op: str, value: complex | bytes, dtype: DType) -> None:
    """Raise unless ``value`` has the type that ``constant`` returns for ``dtype``."""
    found = constant(op, value, dtype)
    if type(found) is not type(value):
        raise TypeError(
            f"{op}: a constant of {named(dtype)} must be given as {found!r}, got "
            f"{value!r}"
        )


def _pad_gradient(dy: Tensor, x_spec: Spec, paddings: Pairs) -> Tensor:
    begin = tuple([before for before, _ in paddings])
    return run(SLICE, dy, begin=begin, size=x_spec.shape)


gradients(PAD_V2, x=_pad_gradient)


@decomposition(MIRROR_PAD)  # also used for the gradient
def _(x: Tensor, *, paddings: Pairs, mode: str) -> Tensor:
    skip = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(paddings):
        last = x.shape[axis] - 1 - skip
        front = [along(x, axis, skip + before - 1, before, -1)] if before else []
        back = [along(x, axis, last, after, -1)] if after else []
        if before or after:
            x = run(shape.CONCAT, *front, x, *back, axis=axis)
    return x


# --- decompositions of kernels of ``shape`` --------------------------------------


@decomposition(shape.SPLIT_V)
def _(x: Tensor, *, sizes: Shape, axis: int) -> list[Tensor]:
    ends = zip(accumulate(sizes), sizes, strict=True)
    return [along(x, axis, end - size, size) for end, size in ends]


@decomposition(shape.UNPACK)
def _(value: Tensor, *, axis: int) -> list[Tensor]:
    n = value.shape[axis]
    left = shape._replace_axis(value.shape, axis)
    return [run(shape.RESHAPE, along(value, axis, i, 1), shape=left) for i in range(n)]


@decomposition(shape.REVERSE)
def _(x: Tensor, *, axis: Shape) -> Tensor:
    begin = tuple(n - 1 if i in axis and n else 0 for i, n in enumerate(x.shape))
    strides = tuple(-1 if i in axis and n else 1 for i, n in enumerate(x.shape))
    return run(STRIDED_SLICE, x, begin=begin, size=x.shape, strides=strides)
