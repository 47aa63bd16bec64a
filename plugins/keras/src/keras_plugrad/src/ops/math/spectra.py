"""Fourier transforms; complex numbers are pairs of a real and an imaginary part."""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor

from ..core.variables import convert_to_tensor, floating

WINDOWS = {"hann": pg.signal.hann_window, "hamming": pg.signal.hamming_window}
LEAST = 1e-10  # a sum of squared windows below this does not determine a sample


def _get_complex_tensor_from_tuple(x: Any) -> Tensor:
    """Return a complex tensor with these real and imaginary parts.

    Raises:
        ValueError: ``x`` is not a pair, the shapes differ, or a part is not floating.

    """
    if not isinstance(x, tuple | list) or len(x) != 2:
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. "
            f"Received: x={x}"
        )
    real = convert_to_tensor(x[0])
    imag = convert_to_tensor(x[1])
    if real.shape != imag.shape:
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary. Both the "
            "real and imaginary parts should have the same shape. Received: "
            f"x[0].shape = {real.shape}, x[1].shape = {imag.shape}"
        )
    if "float" not in real.dtype.name or "float" not in imag.dtype.name:
        raise ValueError(
            "At least one tensor in input `x` is not of type float. Received: "
            f"x[0].dtype = {real.dtype.name}, x[1].dtype = {imag.dtype.name}"
        )
    return pg.complex(real, imag)


def _parts(y: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """Return the real and the imaginary part in the dtype of the argument."""
    return pg.astype(pg.real(y), dtype), pg.astype(pg.imag(y), dtype)


def _dtype(x: Any) -> Any:
    """Return the dtype of the first of two parts."""
    return convert_to_tensor(x[0]).dtype


def fft(x: Any) -> tuple[Tensor, Tensor]:
    """Return the Fourier transform along the last axis."""
    return _parts(pg.fft.fft(_get_complex_tensor_from_tuple(x)), _dtype(x))


def fft2(x: Any) -> tuple[Tensor, Tensor]:
    """Return the Fourier transform along the last two axes."""
    y = pg.fft.fftn(_get_complex_tensor_from_tuple(x), axes=(-2, -1))
    return _parts(y, _dtype(x))


def ifft2(x: Any) -> tuple[Tensor, Tensor]:
    """Return the inverse Fourier transform along the last two axes."""
    y = pg.fft.ifftn(_get_complex_tensor_from_tuple(x), axes=(-2, -1))
    return _parts(y, _dtype(x))


def rfft(x: Any, fft_length: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the first half of the Fourier transform of real numbers."""
    x = floating(x)
    return _parts(pg.fft.rfft(x, n=fft_length), x.dtype)


def irfft(x: Any, fft_length: int | None = None) -> Tensor:
    """Return the real numbers whose Fourier transform begins with ``x``."""
    y = pg.fft.irfft(_get_complex_tensor_from_tuple(x), n=fft_length)
    return pg.astype(y, _dtype(x))


def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Tensor:
    """Return the windows along the last axis that begin ``sequence_stride`` apart."""
    return pg.signal.frame(convert_to_tensor(x), sequence_length, sequence_stride)


def stft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    window: Any = "hann",
    center: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the Fourier transforms of windows of real numbers."""
    x = convert_to_tensor(x)
    if x.dtype.name not in ("float32", "float64"):
        raise TypeError(
            "Invalid input type. Expected `float32` or `float64`. "
            f"Received: input type={x.dtype.name}"
        )
    weights = _window(window, sequence_length, fft_length, x.dtype)
    if center:
        half = fft_length // 2
        x = pg.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(half, half)], mode="reflect")
    frames = extract_sequences(x, fft_length, sequence_stride)
    return rfft(frames if weights is None else frames * weights, fft_length)


def istft(
    x: Any,
    sequence_length: int,
    sequence_stride: int,
    fft_length: int,
    length: int | None = None,
    window: Any = "hann",
    center: bool = True,
) -> Tensor:
    """Return the real numbers whose ``stft`` is ``x``.

    The result is ``Σ w·y / Σ w²``, where ``w`` are the windows and ``y`` the inverse
    transforms; without a window it is ``Σ y``. Samples that no window covers are 0.
    """
    frames = irfft(x, fft_length)
    weights = _window(window, sequence_length, fft_length, frames.dtype)
    y = _overlapped(frames, weights, sequence_stride)
    size = y.shape[-1]
    begin = fft_length // 2 if center else 0
    end = size - begin if length is None else begin + length
    if end > size:
        y = pg.pad(y, [(0, 0)] * (len(y.shape) - 1) + [(0, end - size)])
    return y[..., begin:end]


def _overlapped(frames: Tensor, weights: Tensor | None, stride: int) -> Tensor:
    """Return the sums of weighted windows, divided by the sums of squared weights.

    The sums of squares are those in the middle of a long signal, also at its ends.
    """
    if weights is None:
        return pg.signal.overlap_and_add(frames, stride)
    size = weights.shape[0]
    overlaps = -(-size // stride)
    squares = pg.pad(pg.square(weights), [(0, overlaps * stride - size)])
    norm = pg.sum(pg.reshape(squares, (overlaps, stride)), axis=0)
    norm = pg.tile(norm, (overlaps,))[:size]
    is_covered = norm > LEAST
    scaled = pg.where(is_covered, weights / pg.where(is_covered, norm, 1.0), 0.0)
    return pg.signal.overlap_and_add(frames * scaled, stride)


def _window(
    window: Any, sequence_length: int, fft_length: int, dtype: Any
) -> Tensor | None:
    """Return the weights of a window, centered among zeros; None if there are none."""
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. Received: "
            f"sequence_length={sequence_length}, fft_length={fft_length}"
        )
    if window is None:
        return None
    if isinstance(window, str):
        if window not in WINDOWS:
            raise ValueError(
                "If a string is passed to `window`, it must be one of "
                f'`"hann"`, `"hamming"`. Received: window={window}'
            )
        weights = WINDOWS[window](sequence_length, periodic=True, dtype=dtype)
    else:
        weights = convert_to_tensor(window, dtype=dtype)
    if weights.shape != (sequence_length,):
        raise ValueError(
            "The shape of `window` must be equal to [sequence_length]. "
            f"Received: window shape={weights.shape}"
        )
    before = (fft_length - sequence_length) // 2
    return pg.pad(weights, [(before, fft_length - sequence_length - before)])
