"""Fourier transforms and mel weights."""

from __future__ import annotations

import numpy as np
import plugrad as pg

from ..dtypes import dtype_of
from ..registry import Value, op


def _complex(x: Value) -> Value:
    """Return complex numbers; ONNX stores them as pairs on the last axis."""
    if x.shape[-1] == 1:
        return pg.complex(x[..., 0], pg.zeros_like(x[..., 0]))
    return pg.complex(x[..., 0], x[..., 1])


def _pairs(y: Value) -> Value:
    return pg.stack([pg.real(y), pg.imag(y)], axis=-1)


@op("DFT", since=17, reads=(1,))
def dft_attribute(
    x: Value,
    length: Value = None,
    *,
    axis: int = 1,
    inverse: int = 0,
    onesided: int = 0,
) -> Value:
    n = None if length is None else int(length.item())
    axis = axis % x.ndim
    if inverse and onesided:
        return pg.expand_dims(pg.fft.irfft(_complex(x), n=n, axis=axis), -1)
    if onesided:
        return _pairs(pg.fft.rfft(x[..., 0], n=n, axis=axis))
    transform = pg.fft.ifft if inverse else pg.fft.fft
    return _pairs(transform(_complex(x), n=n, axis=axis))


@op("DFT", since=20, reads=(1, 2))
def dft(
    x: Value,
    length: Value = None,
    axis: Value = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Value:
    position = -2 if axis is None else int(axis.item())
    return dft_attribute(x, length, axis=position, inverse=inverse, onesided=onesided)


@op("STFT", since=17, reads=(1, 3))
def stft(
    x: Value,
    step: Value,
    window: Value = None,
    length: Value = None,
    *,
    onesided: int = 1,
) -> Value:
    size = int(window.shape[0] if length is None else length.item())
    hop = int(step.item())
    starts = np.arange(0, x.shape[1] - size + 1, hop)
    frames = pg.gather(x, starts[:, None] + np.arange(size), 1)
    if window is not None:
        frames = frames * pg.reshape(window, (-1, 1))
    if x.shape[-1] == 1 and onesided:
        return _pairs(pg.fft.rfft(frames[..., 0], axis=2))
    y = pg.fft.fft(_complex(frames), axis=2)
    return _pairs(y[:, :, : size // 2 + 1] if onesided else y)


@op("MelWeightMatrix", since=17, reads=range(5))
def mel_weight_matrix(
    bins: Value,
    length: Value,
    rate: Value,
    lower: Value,
    upper: Value,
    *,
    output_datatype: int = 1,
) -> Value:
    count = int(bins.item())
    size = int(length.item())
    hz = np.array([lower.item(), upper.item()])
    mel = 2595 * np.log10(1 + hz / 700)
    points = np.arange(count + 2) * ((mel[1] - mel[0]) / (count + 2)) + mel[0]
    positions = 700 * (10 ** (points / 2595) - 1)
    positions = ((size + 1) * positions // rate.item()).astype(int)
    y = np.zeros((size // 2 + 1, count), dtype_of(output_datatype))
    for i in range(count):
        left, center, right = positions[i : i + 3]
        if center == left:
            y[center, i] = 1
        else:
            y[left : center + 1, i] = (np.arange(left, center + 1) - left) / (
                center - left
            )
        if right > center:
            rows = np.arange(center, right)
            y[center:right, i] = (right - rows) / (right - center)
    return y
