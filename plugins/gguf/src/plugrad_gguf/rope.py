"""Scaled rotary embeddings, for texts longer than those of the training.

Contents: ``RopeScaling``; ``scaled_frequencies``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["SCALINGS", "RopeScaling", "scaled_frequencies"]

SCALINGS = ("none", "linear", "yarn")
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class RopeScaling:
    """How the frequencies of rotary embeddings are scaled.

    Attributes:
        kind: ``"none"``, ``"linear"`` or ``"yarn"``.
        factor: How many times longer texts become.
        original_context: The number of tokens in the texts of the training.
        attention_factor: Multiplies the cosines and sines.
        extrapolation: The share of YaRN's ramp, 1 for YaRN; with 0, all frequencies are
            scaled.
        beta_fast: Pairs that rotate more often than this over the original context keep
            their frequency.
        beta_slow: Pairs that rotate less often than this are fully scaled.

    """

    kind: str = "none"
    factor: float = 1.0
    original_context: int = 1
    attention_factor: float = 1.0
    extrapolation: float = 1.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0

    @property
    def magnitude(self) -> float:
        """The factor of cosines and sines; YaRN's grows with the logarithm."""
        if self.kind != "yarn" or not self.extrapolation or self.factor <= 1:
            return self.attention_factor
        return self.attention_factor * (1 + 0.1 * math.log(self.factor))


def scaled_frequencies(
    frequencies: Array, scaling: RopeScaling, base: float, size: int
) -> Array:
    """Return the frequency of each rotated pair after scaling.

    Args:
        frequencies: The frequencies of ``size // 2`` pairs, falling.
        scaling: How they are scaled.
        base: The base of the frequencies.
        size: The number of rotated elements.

    Source:
        S. Chen et al., "Extending Context Window of Large Language Models via
        Positional Interpolation", 2023; B. Peng et al., "YaRN: Efficient Context Window
        Extension of Large Language Models", 2023.

    """
    if scaling.kind == "none":
        return frequencies
    interpolated = frequencies / scaling.factor
    if scaling.kind == "linear":
        return interpolated

    def pair_that_rotates(times: float) -> float:
        """Return the index of the pair that rotates so often in the old context."""
        length = scaling.original_context / (times * 2 * math.pi)
        return size * math.log(length) / (2 * math.log(base))

    low = max(0, math.floor(pair_that_rotates(scaling.beta_fast)))
    high = min(size - 1, math.ceil(pair_that_rotates(scaling.beta_slow)))
    ramp = (np.arange(size // 2) - low) / max(0.001, high - low)
    kept = (1 - np.clip(ramp, 0, 1)) * scaling.extrapolation
    mixed: Array = interpolated * (1 - kept) + frequencies * kept
    return mixed
