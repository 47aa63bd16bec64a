"""Signals: windows, frames, and the short-time Fourier transform."""

from ._src.ops.signal.signal import (
    __doc__ as __doc__,
)
from ._src.ops.signal.signal import (
    bartlett_window,
    blackman_window,
    cosine_window,
    enclosing_power_of_two,
    frame,
    gaussian_window,
    general_cosine_window,
    hamming_window,
    hann_window,
    istft,
    kaiser_window,
    nuttall_window,
    overlap_and_add,
    stft,
)
from ._src.public import publish

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

publish(globals())
