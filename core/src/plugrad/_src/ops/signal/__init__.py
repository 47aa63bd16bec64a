"""Signals and their spectra.

- ``fft``: discrete Fourier transforms, the namespace ``plugrad.fft``.
- ``signal``: windows, frames and short-time transforms, ``plugrad.signal``.
"""
