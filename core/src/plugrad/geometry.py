"""Shape rules that both ops and backends need, as pure functions of shapes.

An op applies a rule once and passes the result to the kernel as an attribute, so no
backend recomputes an output shape, or computes a different one.

Contents: ``Windows`` of convolutions and pooling, made by ``windows``, ``convolution``
and ``depthwise``; ``Resizing`` and ``Rotation`` of images; axes; shapes; strides.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, get_args

import numpy as np

from ._src.tensor.arguments import Ints, choice, entries, integer, integers, sizes
from ._src.tensor.explained import explained

__all__ = [
    "Padding",
    "Pair",
    "Phase",
    "Resizing",
    "Rotation",
    "Rounding",
    "Shape",
    "Sizes",
    "Windows",
    "axes",
    "broadcast",
    "broadcast_strides",
    "collapse_axes",
    "contiguous_strides",
    "convolution",
    "depthwise",
    "pairs",
    "rank",
    "repeated_rows",
    "reshaped",
    "windows",
]

Shape = tuple[int, ...]
Pair = tuple[int, int]
Sizes = Ints
Padding = Literal["same", "valid"] | int | Sequence[Sequence[int]]
Rounding = Literal["floor", "ceil", "ceil_inside", "round"]
P = ParamSpec("P")

if TYPE_CHECKING:
    from ._src.resampling import Resizing as Resizing
    from ._src.resampling import Rotation as Rotation
    from ._src.windows import Phase as Phase
    from ._src.windows import Windows as Windows
else:  # imported at their first use: creating a frozen dataclass takes 0.4 ms
    _MODULES = {"Phase": "windows", "Windows": "windows"}
    _MODULES |= {"Resizing": "resampling", "Rotation": "resampling"}

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"plugrad._src.{_MODULES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


# --- windows ---------------------------------------------------------------------


def _cached(function: Callable[P, Windows]) -> Callable[P, Windows]:
    """Return ``function`` with a cache of its results for hashable arguments.

    The cache comes before the parsing of arguments, because parsing takes longer than a
    small convolution. ``1``, ``1.0`` and ``True`` are equal, so the key includes their
    types.
    """
    memory: dict[Any, Windows] = {}

    @functools.wraps(function)
    def call(*args: P.args, **more: P.kwargs) -> Windows:
        key = (args, *more.items(), _types(args), _types(tuple(more.values())))
        try:
            return memory[key]
        except KeyError:
            found = function(*args, **more)
        except TypeError:  # one of the arguments is a list
            return function(*args, **more)
        if len(memory) >= 4096:
            memory.clear()
        memory[key] = found
        return found

    return call


def _types(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the types of the entries; for a tuple, the types of its entries."""
    types = tuple(map(type, values))
    if tuple not in types:
        return types
    return tuple([_types(v) if type(v) is tuple else type(v) for v in values])


@_cached
def windows(
    op: str,
    shape: Sequence[int],
    window: Sizes,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    dim_rounding_mode: Rounding | None = None,
    channels: int | None = None,
    groups: int = 1,
    output_sizes: Sequence[int] | None = None,
) -> Windows:
    """Return the windows over a channels-last ``shape``; raise if they do not fit.

    Args:
        op: The name of the caller, for messages.
        shape: Batch, spatial axes, channels.
        window: The number of elements of a window, for each axis or for all.
        strides: Steps between the beginnings of neighboring windows.
        pad: ``"same"`` gives ``ceil(size / stride)`` windows, and an odd element of
            padding goes at the end; ``"valid"`` pads nothing; a number pads all ends;
            pairs (before, after) pad each axis.
        dilations: Steps between neighboring elements of one window.
        dim_rounding_mode: What to do with a last step that is incomplete, if ``pad`` is
            a number or pairs: ``"floor"`` (the default) drops it, ``"ceil"`` keeps it,
            ``"ceil_inside"`` keeps it unless the window would begin in the padding
            after the input (PyTorch's ``ceil_mode``), ``"round"`` keeps it if at least
            half of it fits.
        channels: The channels of the output; by default those of ``shape``.
        groups: See ``Windows``.
        output_sizes: The number of windows on each axis, if the output is given. The
            rounding that gives this number is then used.

    """
    n = len(shape) - 2
    if output_sizes is not None and len(output_sizes) != n:
        raise ValueError(
            f"{op}: the output must have rank {n + 2}, like the input of shape {shape}"
        )
    if groups < 1 or shape[-1] % groups:
        raise ValueError(
            f"{op}: {shape[-1]} channels do not divide into {groups} groups"
        )
    return _windows(
        op,
        tuple(shape),
        _positive_integers(op, "the window", window, n),
        _positive_integers(op, "strides", strides, n),
        _padding(op, pad, n),
        _positive_integers(op, "dilations", dilations, n),
        _rounding(op, dim_rounding_mode, pad),
        shape[-1] if channels is None else channels,
        groups,
        None if output_sizes is None else tuple(output_sizes),
    )


@_cached
def convolution(
    op: str, shape: Shape, filter: Shape, spatial: int, *, groups: int = 1, **more: Any
) -> Windows:
    """Return the windows of ``filter`` (window, channels in, out) over ``shape``.

    ``more`` are arguments of ``windows``.
    """
    rank(op, "the input", shape, spatial)
    rank(op, "filter", filter, spatial)
    groups = integer(op, "groups", groups, 1)
    if shape[-1] != filter[-2] * groups or filter[-1] % groups:
        cut = f" in {groups} groups" if groups != 1 else ""
        error = ValueError(
            f"{op}: input has {shape[-1]} channels but filter expects {filter[-2]} and "
            f"gives {filter[-1]}{cut} (shapes {shape} and {filter})"
        )
        raise explained(error, "channels-do-not-fit")
    return windows(op, shape, filter[:-2], channels=filter[-1], groups=groups, **more)


@_cached
def depthwise(op: str, shape: Shape, filter: Shape, **more: Any) -> Windows:
    """Return the windows of ``filter`` (window, channels, multiplier) over ``shape``.

    Each channel is a group of its own. ``more`` are arguments of ``windows``.
    """
    rank(op, "the input", shape, 2)
    rank(op, "filter", filter, 2)
    if shape[-1] != filter[-2]:
        error = ValueError(
            f"{op}: input has {shape[-1]} channels but filter expects {filter[-2]} "
            f"(shapes {shape} and {filter})"
        )
        raise explained(error, "channels-do-not-fit")
    more |= {"channels": filter[-2] * filter[-1], "groups": shape[-1]}
    return windows(op, shape, filter[:-2], **more)


def rank(op: str, what: str, shape: Shape, spatial: int) -> None:
    """Raise unless a shape has ``spatial`` axes between its first and last."""
    if len(shape) != spatial + 2:
        raise ValueError(
            f"{op}: {what} must have rank {spatial + 2}, got shape {shape}"
        )


@functools.lru_cache(maxsize=4096)
def _windows(
    op: str,
    shape: Shape,
    window: Shape,
    strides: Shape,
    pad: Literal["same", "valid"] | tuple[Pair, ...],
    dilations: Shape,
    rounding: str | None,
    channels: int,
    groups: int,
    output_sizes: Shape | None,
) -> Windows:
    from ._src.windows import Windows

    counts, padding = [], []
    for i, size in enumerate(shape[1:-1]):
        extent, stride = (window[i] - 1) * dilations[i] + 1, strides[i]
        if pad == "same":
            count = -(-size // stride)
            before = max((count - 1) * stride + extent - size, 0) // 2
        else:
            ends = (0, 0) if pad == "valid" else pad[i]
            wanted = None if output_sizes is None else output_sizes[i]
            room = ends[0] + size + ends[1] - extent
            count = _steps(room, stride, rounding, wanted) + 1
            before = ends[0]
            if rounding == "ceil_inside":  # no window begins after the input
                count = min(count, -(-(before + size) // stride))
            if count < 1:
                raise _no_window(op, extent, ends, i + 1, shape)
        reach = (count - 1) * stride + extent - before - size
        counts.append(count)
        padding.append((before, max(reach, 0) if count else 0))
    if output_sizes is not None and tuple(counts) != output_sizes:
        raise ValueError(
            f"{op}: the output has {output_sizes} windows, but {tuple(counts)} fit "
            f"over {shape}; check strides, pad and dim_rounding_mode"
        )
    y = sizes(op, (shape[0], *counts, channels), "the output")
    return Windows(shape, y, window, strides, dilations, tuple(padding), groups)


def _no_window(op: str, extent: int, ends: Pair, axis: int, shape: Shape) -> ValueError:
    what = f"{shape[axis]} elements padded by {ends} (axis {axis} of {shape})"
    rule = f"a window of {extent} does not fit into {what}"
    return ValueError(f"{op}: {rule}; use a smaller window or pad='same'")


def _rounding(op: str, given: object, pad: object) -> str | None:
    if given is None:
        return None
    if isinstance(pad, str):
        raise ValueError(
            f"{op}: dim_rounding_mode {given!r} needs a pad that is a number or "
            f"pairs, got pad {pad!r}"
        )
    return choice(op, "dim_rounding_mode", given, *get_args(Rounding))


def _steps(room: int, stride: int, rounding: str | None, count: int | None) -> int:
    """Return the number of steps that fit into ``room``.

    It is rounded by ``rounding``. If that is None, it is rounded up if this gives
    ``count`` windows, and down otherwise.
    """
    up = -(-room // stride)
    if rounding == "round":
        return (2 * room + stride) // (2 * stride)
    fits = rounding in ("ceil", "ceil_inside") or (rounding is None and count == up + 1)
    return up if fits else room // stride


def _positive_integers(op: str, what: str, value: Sizes, n: int) -> Shape:
    """Return a positive integer for each of ``n`` axes."""
    sizes = integers(op, what, value) * (n if entries(value) is None else 1)
    if len(sizes) != n or min(sizes) < 1 or max(sizes) >= 2**31:  # kernels use int32
        raise ValueError(
            f"{op}: {what} must be a positive integer, or {n} of them, got {value!r}"
        )
    return sizes


def _padding(op: str, pad: Any, n: int) -> Any:
    """Return "same", "valid", or the padding (before, after) of each of ``n`` axes."""
    if isinstance(pad, str) and pad in ("same", "valid"):
        return pad
    if entries(pad) is not None:
        return pairs(op, "pad", pad, n)
    if not hasattr(pad, "__index__"):
        raise ValueError(
            f"{op}: pad {pad!r}: use 'same', 'valid', an integer, or {n} pairs of them"
        )
    return pairs(op, "pad", [(pad, pad)] * n, n)


# --- axes and shapes -------------------------------------------------------------

_ALL = [tuple(range(rank)) for rank in range(65)]  # NumPy has at most 64 axes


def axes(op: str, axis: Ints | None, rank: int) -> tuple[int, ...]:
    """Return ``axis`` as sorted, non-negative axes; None means all."""
    if axis is None:
        return _ALL[rank]
    if type(axis) is int and -rank <= axis < rank:
        return (axis % rank,)
    given = (axis,) if type(axis) is int else integers(op, "axis", axis)
    for one in given:
        if not -rank <= one < rank:
            room = f"{-rank}..{rank - 1}" if rank else "none"
            error = np.exceptions.AxisError(  # both a ValueError and an IndexError
                f"{op}: axis {one} is out of range for rank {rank}; use {room}"
            )
            raise explained(error, "axis-out-of-range")
    found = tuple(sorted({one % rank for one in given}))
    if len(found) < len(given):
        raise ValueError(f"{op}: axis {axis} names one axis twice")
    return found


def reshaped(old: tuple[int, ...], new: Sequence[int]) -> tuple[int, ...]:
    """Return ``new`` with its -1, if any, inferred."""
    size = math.prod(old)
    if size == math.prod(new) and min(new, default=0) >= 0:
        return tuple(new)
    known = math.prod([n for n in new if n != -1])
    fits = list(new).count(-1) == 1 and known and size % known == 0
    if not fits or min(new) < -1:
        count = "" if min(new, default=0) < 0 else f" with {known}"
        error = ValueError(
            f"reshape: cannot turn shape {old} with {size} elements into "
            f"{tuple(new)}{count}; one size may be -1 and is inferred"
        )
        raise explained(error, "reshape-to-another-size")
    return tuple(size // known if n == -1 else n for n in new)


def broadcast(op: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which all ``shapes`` broadcast, as NumPy does.

    Raises:
        ValueError: The shapes do not broadcast.

    """
    found = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for axis, n in enumerate(shape, -len(shape)):
            if n != 1 and found[axis] != n:
                if found[axis] != 1:
                    error = ValueError(
                        f"{op}: shapes {' and '.join(map(str, shapes))} do not "
                        "broadcast; sizes must be equal or 1, aligned at the last axis"
                    )
                    raise explained(error, "shapes-do-not-broadcast")
                found[axis] = n
    return tuple(found)


def pairs(op: str, name: str, given: object, count: int) -> tuple[Pair, ...]:
    """Return ``count`` pairs (before, after) of sizes, one for each axis."""
    found = [integers(op, name, row) for row in entries(given) or ()]
    if len(found) != count or any(len(row) != 2 or min(row) < 0 for row in found):
        raise ValueError(
            f"{op}: {name} must be {count} pairs (before, after), none negative, got "
            f"{given}"
        )
    return tuple([(before, after) for before, after in found])


# --- strides ---------------------------------------------------------------------


def contiguous_strides(shape: Sequence[int]) -> Shape:
    """Return the strides of a contiguous array in row-major order, in elements.

    Args:
        shape: The shape of the array.

    Returns:
        One stride for each axis. An axis of size 0 makes the strides before it 0.

    Example:
        >>> from plugrad.geometry import contiguous_strides
        >>> contiguous_strides((2, 3, 4))
        (12, 4, 1)

    """
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(strides[::-1])


def broadcast_strides(shape: Sequence[int], rank: int) -> Shape:
    """Return the strides by which a contiguous array broadcasts to ``rank`` axes.

    Args:
        shape: The shape of the array.
        rank: The number of axes of the result, at least that of ``shape``.

    Returns:
        One stride for each axis of the result, in elements; 0 where the array repeats.

    Example:
        >>> from plugrad.geometry import broadcast_strides
        >>> broadcast_strides((3, 1), 3)
        (0, 1, 0)

    """
    own = zip(shape, contiguous_strides(shape), strict=True)
    return (0,) * (rank - len(shape)) + tuple([s if n != 1 else 0 for n, s in own])


def repeated_rows(
    shape: Sequence[int], other: Sequence[int]
) -> tuple[int, int, int] | None:
    """Return ``shape`` as ``[outer, repeat, rows]``, where ``other`` is [outer, rows].

    Args:
        shape: The sizes of an array.
        other: The sizes of another array, which broadcasts to the first one.

    Returns:
        Three sizes; None if the other array repeats along axes that are not neighbors.

    Example:
        >>> from plugrad.geometry import repeated_rows
        >>> repeated_rows((2, 3, 4, 5), (2, 1, 1, 5))
        (2, 12, 5)

    """
    return _repeated_rows(tuple(shape), tuple(other))


@functools.lru_cache(maxsize=1024)
def _repeated_rows(
    shape: tuple[int, ...], other: tuple[int, ...]
) -> tuple[int, int, int] | None:
    """Return what ``repeated_rows`` returns; few shapes occur often."""
    axes = collapse_axes(shape, broadcast_strides(other, len(shape)))
    repeats = [i for i, (_, step) in enumerate(axes) if not step]
    if not repeats or axes == ((1, 1),):
        return math.prod(shape), 1, 1
    sizes = [n for n, _ in axes]
    (first, *more) = repeats
    if more:
        return None
    return math.prod(sizes[:first]), sizes[first], math.prod(sizes[first + 1 :])


def collapse_axes(
    shape: Sequence[int], *strides: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Return the fewest axes with which a loop can run over ``shape``.

    Neighboring axes become one where all strides allow it; axes of size 1 disappear.

    Args:
        shape: The sizes of the axes, outermost first.
        strides: The strides of each array that the loop goes through.

    Returns:
        The axes, one or more: for each, its size and its stride in each array.

    Example:
        >>> from plugrad.geometry import collapse_axes
        >>> collapse_axes((2, 3, 4), (12, 4, 1), (0, 4, 1))
        ((2, 12, 0), (12, 1, 1))

    """
    axes: list[tuple[int, ...]] = []
    for n, *steps in zip(shape, *strides, strict=True):
        if n == 1:
            continue
        if axes and axes[-1][1:] == tuple([step * n for step in steps]):
            axes[-1] = (axes[-1][0] * n, *steps)
        else:
            axes.append((n, *steps))
    return tuple(axes) or ((1,) * (1 + len(strides)),)
