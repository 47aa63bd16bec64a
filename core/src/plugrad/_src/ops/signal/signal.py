"""Short-time transforms of signals, public as ``plugrad.signal``; no kernels.

The last axis is the signal; all others are a batch.

Contents: windows; frames; spectra.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import gather
from plugrad._src.ops.basis import _convert, compare, creation, reduce, shape
from plugrad._src.tensor.arguments import (
    finite,
    flag,
    integer,
    misfit,
    positive,
    several,
)
from plugrad._src.tensor.dtypes import BOOL, INT32, DType
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import fft

__all__ = [
    "bartlett_window",
    "blackman_window",
    "cosine_window",
    "enclosing_power_of_two",
    "frame",
    "gaussian_window",
    "general_cosine_window",
    "hamming_window",
    "hann_window",
    "istft",
    "kaiser_window",
    "nuttall_window",
    "overlap_and_add",
    "stft",
]

Window = Callable[[int], TensorLike]

# --- windows ---------------------------------------------------------------------


def cosine_window(
    window_length: int,
    /,
    a: float,
    b: float,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``a - b · cos(2πt/m)`` for t from 0 to ``window_length - 1``.

    Args:
        window_length: The number of elements, 0 or more. A single element is ``a + b``.
        a: The mean.
        b: The amplitude.
        periodic: If True, m is ``window_length``, and copies of the window join
            smoothly. If False, m is one less, and the window is symmetric. None stands
            for True if the length is even, and for False if it is odd.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.cosine_window(4, 0.5, 0.5)
        Tensor([0. , 0.5, 1. , 0.5], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(cosine_window, unknown)
    return _cosine("cosine_window", window_length, a, b, periodic, dtype)


def hann_window(
    window_length: int,
    /,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Hann window, ``0.5 - 0.5 · cos(2πt/m)``.

    Args:
        window_length: The number of elements, 0 or more.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.hann_window(4)
        Tensor([0. , 0.5, 1. , 0.5], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(hann_window, unknown)
    return _cosine("hann_window", window_length, 0.5, 0.5, periodic, dtype)


def hamming_window(
    window_length: int,
    /,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Hamming window, ``0.54 - 0.46 · cos(2πt/m)``.

    Args:
        window_length: The number of elements, 0 or more.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.hamming_window(4)
        Tensor([0.08, 0.54, 1.  , 0.54], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(hamming_window, unknown)
    return _cosine("hamming_window", window_length, 0.54, 0.46, periodic, dtype)


def bartlett_window(
    window_length: int,
    /,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Bartlett window, a triangle: ``1 - |2t/m - 1|``.

    Args:
        window_length: The number of elements, 0 or more.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.bartlett_window(4)
        Tensor([0. , 0.5, 1. , 0.5], dtype=float32, backend='cpu')

    Source:
        ``numpy.bartlett`` and ``torch.bartlett_window``.

    """
    if unknown:
        raise unexpected(bartlett_window, unknown)
    formula = lambda phase: 1 - np.abs(2 * phase - 1)
    return _sampled_window("bartlett_window", window_length, formula, periodic, dtype)


def blackman_window(
    window_length: int,
    /,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Blackman window, ``0.42 - 0.5 · cos(2πt/m) + 0.08 · cos(4πt/m)``.

    Args:
        window_length: The number of elements, 0 or more.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.blackman_window(4)[1:]
        Tensor([0.34, 1.  , 0.34], dtype=float32, backend='cpu')

    Source:
        ``numpy.blackman`` and ``torch.blackman_window``.

    """
    if unknown:
        raise unexpected(blackman_window, unknown)
    op = "blackman_window"
    terms = (0.42, 0.5, 0.08)
    return _cosines(op, window_length, terms, periodic, dtype)


def nuttall_window(
    window_length: int,
    /,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return Nuttall's window, a sum of four cosines with low side lobes.

    It is ``general_cosine_window`` with the coefficients 0.3635819, 0.4891775,
    0.1365995 and 0.0106411.

    Args:
        window_length: The number of elements, 0 or more.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.nuttall_window(4)
        Tensor([0.0004, 0.227 , 1.    , 0.227 ], dtype=float32, backend='cpu')

    Source:
        ``scipy.signal.windows.nuttall``. A. H. Nuttall, "Some Windows with Very Good
        Sidelobe Behavior", 1981.

    """
    if unknown:
        raise unexpected(nuttall_window, unknown)
    op = "nuttall_window"
    terms = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _cosines(op, window_length, terms, periodic, dtype)


def general_cosine_window(
    window_length: int,
    /,
    coefficients: Sequence[float],
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return ``Σ (-1)^k · coefficients[k] · cos(2πkt/m)``.

    Args:
        window_length: The number of elements, 0 or more.
        coefficients: One or more real numbers.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative, or there are no coefficients.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.general_cosine_window(4, [0.5, 0.5])
        Tensor([0. , 0.5, 1. , 0.5], dtype=float32, backend='cpu')

    Source:
        ``scipy.signal.windows.general_cosine``.

    """
    if unknown:
        raise unexpected(general_cosine_window, unknown)
    op = "general_cosine_window"
    terms = [
        finite(op, "coefficients", c) for c in several(op, "coefficients", coefficients)
    ]
    if not terms:
        raise ValueError(f"{op}: coefficients must be one number or more, got none")
    return _cosines(op, window_length, terms, periodic, dtype)


def gaussian_window(
    window_length: int,
    /,
    std: float,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Gaussian window, ``exp(-((t - m/2) / std)² / 2)``.

    Args:
        window_length: The number of elements, 0 or more.
        std: The standard deviation in elements, positive.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative, or ``std`` is not positive.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.gaussian_window(5, 1.0)
        Tensor([0.1353, 0.6065, 1.    , 0.6065, 0.1353], dtype=float32, backend='cpu')

    Source:
        ``scipy.signal.windows.gaussian``.

    """
    if unknown:
        raise unexpected(gaussian_window, unknown)
    op = "gaussian_window"
    std = positive(op, "std", std)
    size, is_periodic = _length(op, window_length, periodic)
    t = np.arange(size) - (size if is_periodic and size > 1 else size - 1) / 2
    return fft._floats(op, np.exp(-0.5 * (t / std) ** 2), dtype)


def kaiser_window(
    window_length: int,
    /,
    beta: float = 12.0,
    *,
    periodic: bool | None = None,
    dtype: Any = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the Kaiser window, ``I₀(beta · √(1 - (2t/m - 1)²)) / I₀(beta)``.

    ``I₀`` is the modified Bessel function of order 0.

    Args:
        window_length: The number of elements, 0 or more.
        beta: The shape parameter, 0 or more: 0 gives ones, larger numbers give a
            narrower window.
        periodic: Which m to use, as in ``cosine_window``.
        dtype: A real floating dtype; float32 unless given.

    Returns:
        ``[window_length]``, of ``dtype``.

    Raises:
        ValueError: The length is negative, or ``beta`` is negative or above 700.
        TypeError: The dtype is not a real floating dtype.

    Example:
        >>> pg.signal.kaiser_window(5, 8.0)
        Tensor([0.0023, 0.369 , 1.    , 0.369 , 0.0023], dtype=float32, backend='cpu')

    Source:
        ``numpy.kaiser`` and ``torch.kaiser_window``.

    """
    if unknown:
        raise unexpected(kaiser_window, unknown)
    op = "kaiser_window"
    beta = finite(op, "beta", beta, least=0, most=KAISER_MAX_BETA)

    def formula(phase: Any) -> Any:
        root = np.sqrt(np.maximum(1 - (2 * phase - 1) ** 2, 0))
        return np.i0(beta * root) / np.i0(beta)

    return _sampled_window(op, window_length, formula, periodic, dtype)


# ``np.i0`` of this number is still finite in float64.
KAISER_MAX_BETA = 700


def _cosine(
    op: str, length: int, a: float, b: float, periodic: bool | None, dtype: Any
) -> Tensor:
    terms = finite(op, "a", a), finite(op, "b", b)
    return _cosines(op, length, terms, periodic, dtype)


def _cosines(
    op: str, length: int, terms: Sequence[float], periodic: bool | None, dtype: Any
) -> Tensor:
    def formula(phase: Any) -> Any:
        turns = enumerate(terms)
        return sum((-1) ** k * c * np.cos(2 * np.pi * k * phase) for k, c in turns)

    return _sampled_window(op, length, formula, periodic, dtype)


def _length(op: str, length: int, periodic: bool | None) -> tuple[int, bool]:
    """Return the number of elements, and whether the window is periodic."""
    size = integer(op, "window_length", length, 0)
    is_periodic = size % 2 == 0 if periodic is None else flag(op, "periodic", periodic)
    return size, is_periodic


def _sampled_window(
    op: str,
    length: int,
    formula: Callable[[Any], Any],
    periodic: bool | None,
    dtype: Any,
) -> Tensor:
    """Return ``formula(t / m)``; a single element is ``formula(1/2)``."""
    size, is_periodic = _length(op, length, periodic)
    phase = np.arange(size) / max(size if is_periodic else size - 1, 1)
    return fft._floats(op, formula(phase if size != 1 else np.asarray([0.5])), dtype)


# Windows whose only required argument is the length.
WINDOWS = (
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
    nuttall_window,
)


def _window(op: str, window_fn: Window | None, length: int, dtype: DType) -> Tensor:
    """Return the values of a window in the dtype of the signal."""
    if window_fn is None:
        return creation.ones((length,), dtype=dtype)
    if not callable(window_fn):
        raise TypeError(f"{op}: window_fn must be a function, got {window_fn!r}")
    if window_fn in WINDOWS:  # computed in the precision of the signal
        return window_fn(length, dtype=dtype)
    window = fft._real(op, window_fn(length))
    if window.shape != (length,):
        raise misfit(op, f"window_fn must return shape {(length,)}", window)
    return creation.cast(window, dtype)


# --- frames ----------------------------------------------------------------------


def frame(
    signal: TensorLike,
    /,
    frame_length: int,
    frame_step: int,
    *,
    pad_end: bool = False,
    pad_value: complex = 0,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return frames of a signal, ``y[..., i, t] = signal[..., i · frame_step + t]``.

    Args:
        signal: ``[..., samples]``, of any dtype.
        frame_length: The number of samples of a frame.
        frame_step: The number of samples from one frame to the next.
        pad_end: Whether to return frames that begin inside the signal and end outside,
            filled with ``pad_value``.
        pad_value: A number that the dtype can represent.

    Returns:
        ``[..., frames, frame_length]``, of the dtype of ``signal``.

    Raises:
        ValueError: There is no axis, or length or step is less than 1.
        TypeError: The dtype cannot represent ``pad_value``.

    Example:
        >>> pg.signal.frame([1, 2, 3, 4, 5], 3, 2)
        Tensor([[1, 2, 3],
                [3, 4, 5]], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(frame, unknown)
    x, length, step = _checked("frame", signal, 1, frame_length, frame_step)
    pad_end = flag("frame", "pad_end", pad_end)
    *batch, size = x.shape
    count = -(-size // step) if pad_end else max((size - length) // step + 1, 0)
    ids, rows, size, cover = _frame_rows(math.prod(batch), count, length, step)
    x = fft._resized(x, len(batch), cover, pad_value)
    x = run(shape.RESHAPE, x, shape=(rows, size))
    ids = _convert.tensor_of(ids, copy=False)
    y = run(gather.GATHER_V2, x, ids, axis=0, batch_dims=0)
    return run(shape.RESHAPE, y, shape=(*batch, count, length))


def overlap_and_add(
    frames: TensorLike, /, frame_step: int, **unknown: Unpack[Nothing]
) -> Tensor:
    """Add up frames that begin ``frame_step`` apart: the transpose of ``frame``.

    Args:
        frames: ``[..., frames, frame_length]``, numbers.
        frame_step: The number of samples from one frame to the next.

    Returns:
        ``[..., samples]``, ``samples = (frames - 1) · frame_step + frame_length``, of
        the dtype of ``frames``; int32 for bool.

    Raises:
        ValueError: There are fewer than two axes, or the step is less than 1.
        TypeError: ``frames`` contain strings.

    Example:
        >>> pg.signal.overlap_and_add([[1, 2, 3], [4, 5, 6]], 2)
        Tensor([1, 2, 7, 5, 6], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(overlap_and_add, unknown)
    frames = _convert.numbers("overlap_and_add", frames)
    x, length, step = _checked("overlap_and_add", frames, 2, None, frame_step)
    x = creation.cast(x, INT32) if x.dtype is BOOL else x
    *batch, count, _ = x.shape
    ids, rows, size, cover = _frame_rows(math.prod(batch), count, length, step)
    x = run(shape.RESHAPE, x, shape=(len(ids), size))
    ids = _convert.tensor_of(ids, copy=False)
    y = run(gather.UNSORTED_SEGMENT_SUM, x, ids, num_segments=rows)
    return run(shape.RESHAPE, y, shape=(*batch, cover))


@functools.lru_cache(maxsize=8)
def _frame_rows(
    batch: int, count: int, length: int, step: int
) -> tuple[Any, int, int, int]:
    """Split signals into rows so that every frame consists of whole rows.

    Returns:
        The row indices of all frames, one frame after another; the number of rows and
        their size; and the number of samples that the frames cover in each signal.

    """
    cover = (count - 1) * step + length if count else 0
    size = math.gcd(length, step)
    each = cover // size
    first = np.add.outer(np.arange(batch) * each, np.arange(count) * (step // size))
    ids = np.add.outer(first, np.arange(length // size)).ravel()
    ids = ids.astype(INT32 if batch * each < 2**31 else _convert.INT64)
    ids.flags.writeable = False
    return ids, batch * each, size, cover


def _checked(
    op: str, x: TensorLike, rank: int, length: int | None, step: int
) -> tuple[Tensor, int, int]:
    """Return checked arguments; the length defaults to the size of the last axis."""
    x = _convert.asarray(x)
    if len(x.shape) < rank:
        raise misfit(op, f"expected {rank} axes or more", x)
    size = integer(op, "frame_length", x.shape[-1] if length is None else length, 1)
    return x, size, integer(op, "frame_step", step, 1)


# --- spectra ---------------------------------------------------------------------


def enclosing_power_of_two(value: int, /) -> int:
    """Return the smallest power of two that is at least ``value``.

    Args:
        value: An int, 1 or more.

    Returns:
        An int.

    Raises:
        ValueError: ``value`` is less than 1.

    Example:
        >>> pg.signal.enclosing_power_of_two(300)
        512

    """
    return 1 << (integer("enclosing_power_of_two", "value", value, 1) - 1).bit_length()


def stft(
    signal: TensorLike,
    /,
    frame_length: int,
    frame_step: int,
    *,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the short-time Fourier transform: the spectra of windowed frames.

    It is ``rfft(frame(signal, ...) · window, n=fft_length)``.

    Args:
        signal: ``[..., samples]``, real numbers.
        frame_length: The number of samples of a frame; frames that end outside the
            signal are not returned.
        frame_step: The number of samples from one frame to the next.
        fft_length: The size of the transforms, to which frames are cropped or padded;
            by default the smallest power of two that is at least ``frame_length``.
        window_fn: A function from a length to a window; None for no window.

    Returns:
        ``[..., frames, fft_length // 2 + 1]``, complex64; complex128 for float64.

    Raises:
        ValueError: There is no axis, a length or step is less than 1, or ``window_fn``
            returns a window of the wrong length.
        TypeError: The signal or the window is complex.

    Example:
        >>> spectra = pg.signal.stft([1.0, 0.0, -1.0, 0.0, 1.0, 0.0], 4, 2)
        >>> spectra.shape, spectra.dtype.name
        ((2, 3), 'complex64')

    Source:
        TensorFlow, ``tf.signal.stft``.

    """
    if unknown:
        raise unexpected(stft, unknown)
    x = reduce.widened(fft._real("stft", signal))
    x, length, step = _checked("stft", x, 1, frame_length, frame_step)
    n = enclosing_power_of_two(length) if fft_length is None else fft_length
    n = integer("stft", "fft_length", n, 1)
    x = frame(x, length, step)
    if window_fn is not None:
        x = x * _window("stft", window_fn, length, x.dtype)
    return fft.rfft(x, n=n)


def istft(
    spectra: TensorLike,
    /,
    frame_length: int,
    frame_step: int,
    *,
    fft_length: int | None = None,
    window_fn: Window | None = hann_window,
    length: int | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the signal whose ``stft`` is closest to ``spectra`` in least squares.

    It is ``Σ w·x / Σ w²``, where w are windows that begin ``frame_step`` apart, and x
    are the inverse transforms. Samples at which ``Σ w²`` is below 1e-10 are 0, such as
    the first sample under a Hann window.

    Args:
        spectra: ``[..., frames, fft_length // 2 + 1]``.
        frame_length: The number of samples of a frame, as in ``stft``.
        frame_step: The number of samples from one frame to the next.
        fft_length: The size of the transforms; by default the smallest power of two
            that is at least ``frame_length``.
        window_fn: The window function that was passed to ``stft``; None for no window.
        length: The number of samples to return; the signal is cropped or padded with
            zeros.

    Returns:
        ``[..., samples]``, real; without ``length``, as many samples as the frames
        cover.

    Raises:
        ValueError: The size of ``spectra`` does not match ``fft_length``, a length or
            step is less than 1, or ``window_fn`` returns a window of the wrong length.
        TypeError: The window is complex.

    Example:
        >>> spectra = pg.signal.stft([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 4, 2)
        >>> pg.round(pg.signal.istft(spectra, 4, 2))
        Tensor([0., 1., 2., 3., 4., 5.], dtype=float32, backend='cpu')

    Source:
        D. W. Griffin and J. S. Lim, "Signal Estimation from Modified Short-Time Fourier
        Transform", 1984.

    """
    if unknown:
        raise unexpected(istft, unknown)
    x, size, step = _checked("istft", spectra, 2, frame_length, frame_step)
    n = enclosing_power_of_two(size) if fft_length is None else fft_length
    n = integer("istft", "fft_length", n, 1)
    *_, count, bins = x.shape
    half = n // 2 + 1
    if bins != half:
        raise misfit("istft", f"fft_length {n} gives {half} bins; pass that of stft", x)
    kept = min(size, n)
    x = fft._resized(fft.irfft(x, n=n), len(x.shape) - 1, kept)
    window = fft._resized(_window("istft", window_fn, size, x.dtype), 0, kept)
    squares = run(shape.BROADCAST_TO, window * window, shape=(count, kept))
    weight = overlap_and_add(squares, step)
    seen = weight > 1e-10
    y = overlap_and_add(x * window, step) / compare.where(seen, weight, 1)
    y = compare.where(seen, y, 0)
    samples = y.shape[-1] if length is None else integer("istft", "length", length, 1)
    return fft._resized(y, len(y.shape) - 1, samples)
