"""Valid ranges of the numeric arguments of optimizers, transforms and schedules."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ._trees import check_number


class Range(NamedTuple):
    """A finite interval from ``low`` to ``high``; each end may be excluded."""

    low: float
    high: float = math.inf
    without_low: bool = False
    without_high: bool = True

    def __contains__(self, value: object) -> bool:
        number: Any = value  # comparisons with NaN are false
        above = number > self.low if self.without_low else number >= self.low
        below = number < self.high if self.without_high else number <= self.high
        return bool(above and below)

    def __str__(self) -> str:
        """Return the interval in words, for messages."""
        low = f"{'more than' if self.without_low else 'at least'} {self.low:g}"
        if math.isinf(self.high):
            return f"finite and {low}"
        return (
            f"{low} and {'less than' if self.without_high else 'at most'} {self.high:g}"
        )


NOT_NEGATIVE = Range(0)
POSITIVE = Range(0, without_low=True)
DECAY = Range(0, 1)  # excludes 1: the running mean would never change
FRACTION = Range(0, 1, without_high=False)

RANGES = {
    "learning_rate": NOT_NEGATIVE,
    "weight_decay": NOT_NEGATIVE,
    "eps": NOT_NEGATIVE,
    "initial_accumulator_value": NOT_NEGATIVE,
    "b1": DECAY,
    "b2": DECAY,
    "decay": DECAY,
    "momentum": FRACTION,
    # Arguments of schedules.
    "value": NOT_NEGATIVE,
    "first": NOT_NEGATIVE,
    "last": NOT_NEGATIVE,
    "peak": NOT_NEGATIVE,
    "factors": NOT_NEGATIVE,
    "factor": POSITIVE,
    "first_factor": POSITIVE,
    "last_factor": POSITIVE,
    "boundary": NOT_NEGATIVE,
    "steps": Range(1),
    "rising": FRACTION,
}


def check_ranges(op: str, **values: Any) -> None:
    """Raise if a number is outside the range for arguments of its name.

    Raises:
        TypeError: An argument is not a number.
        ValueError: A number is out of range, infinite or NaN.

    """
    for name, value in values.items():
        check_number(op, name, value)
        if value not in RANGES[name]:
            raise ValueError(f"{op}: {name} must be {RANGES[name]}, got {value}")
