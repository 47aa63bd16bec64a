"""Schedules of the learning rate: functions of the step, which starts at 0.

A step is a number or a tensor, and the result is a float32 tensor; ``pg.jit`` records
a schedule once for all steps. Pass a schedule, or any function of this kind, as the
``learning_rate`` of an optimizer. The functions here raise ValueError for rates that
are negative or not finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import plugrad as pg
from plugrad.plugin import hinted

from ._ranges import check_ranges

__all__ = [
    "Schedule",
    "constant",
    "cosine",
    "exponential",
    "join",
    "linear",
    "one_cycle",
    "step",
    "warmup",
]

Schedule = Callable[[Any], pg.Tensor]


def _as_step(step: Any) -> pg.Tensor:
    return pg.astype(pg.asarray(step), pg.float32)


@hinted
def constant(value: float) -> Schedule:
    """Return the schedule that is ``value`` in every step.

    Example:
        >>> pt.schedules.constant(0.5)(100).item()
        0.5

    """
    check_ranges("constant", value=value)
    return lambda step: pg.zeros_like(_as_step(step)) + value


@hinted
def step(value: float, factors: Mapping[int, float]) -> Schedule:
    """Return the schedule that multiplies ``value`` by each factor from its step on.

    Args:
        value: The first value.
        factors: The factors, by the step from which each applies.

    Returns:
        A schedule.

    Example:
        >>> rate = pt.schedules.step(1.0, {10: 0.5, 20: 0.5})
        >>> rate(9).item(), rate(10).item(), rate(25).item()
        (1.0, 0.5, 0.25)

    Source:
        ``optax.piecewise_constant_schedule``, ``torch.optim.lr_scheduler.MultiStepLR``.

    """
    check_ranges("step", value=value)
    for boundary, factor in factors.items():
        check_ranges("step", boundary=boundary, factors=factor)

    def schedule(step: Any) -> pg.Tensor:
        number = _as_step(step)
        rate = pg.zeros_like(number) + value
        for boundary, factor in factors.items():
            rate = pg.where(number >= float(boundary), rate * factor, rate)
        return rate

    return schedule


def _completed_fraction(step: Any, steps: int) -> pg.Tensor:
    """Return the completed fraction of ``steps``, from 0 to 1."""
    return pg.clip(_as_step(step) / float(steps), 0.0, 1.0)


@hinted
def linear(first: float, last: float, steps: int) -> Schedule:
    """Return the schedule that changes linearly from ``first`` to ``last``.

    Example:
        >>> rate = pt.schedules.linear(1.0, 0.0, 4)
        >>> rate(0).item(), rate(1).item(), rate(9).item()
        (1.0, 0.75, 0.0)

    """
    check_ranges("linear", first=first, last=last, steps=steps)
    return lambda step: first + (last - first) * _completed_fraction(step, steps)


@hinted
def exponential(value: float, steps: int, factor: float) -> Schedule:
    """Return the schedule ``value · factor ** (step / steps)``.

    Example:
        >>> round(pt.schedules.exponential(1.0, 10, 0.5)(20).item(), 4)
        0.25

    """
    check_ranges("exponential", value=value, steps=steps, factor=factor)
    power = math.log(factor) / steps
    return lambda step: value * pg.exp(_as_step(step) * power)


@hinted
def cosine(value: float, steps: int, last: float = 0.0) -> Schedule:
    """Return the schedule that goes from ``value`` to ``last`` along half a cosine.

    Args:
        value: The first value.
        steps: The number of steps until the schedule reaches ``last``.
        last: The value after these steps.

    Returns:
        A schedule.

    Example:
        >>> rate = pt.schedules.cosine(1.0, 10)
        >>> round(rate(5).item(), 4), round(rate(10).item(), 4)
        (0.5, 0.0)

    Source:
        I. Loshchilov and F. Hutter, "SGDR: stochastic gradient descent with warm
        restarts", ICLR 2017; ``optax.cosine_decay_schedule``.

    """
    check_ranges("cosine", value=value, steps=steps, last=last)
    half = (value - last) / 2
    return lambda step: (
        last + half * (1.0 + pg.cos(_completed_fraction(step, steps) * math.pi))
    )


def join(first: Schedule, then: Schedule, boundary: int) -> Schedule:
    """Return ``first``, followed by ``then``, whose step 0 is the step ``boundary``.

    Example:
        >>> rate = pt.schedules.join(
        ...     pt.schedules.constant(1.0), pt.schedules.linear(1.0, 0.0, 4), 10
        ... )
        >>> rate(9).item(), rate(11).item()
        (1.0, 0.75)

    """
    check_ranges("join", boundary=boundary)

    def schedule(step: Any) -> pg.Tensor:
        number = _as_step(step)
        later = then(pg.maximum(number - float(boundary), 0.0))
        return pg.where(number < float(boundary), first(number), later)

    return schedule


@hinted
def warmup(schedule: Schedule, steps: int, first: float = 0.0) -> Schedule:
    """Return ``schedule`` after a linear rise from ``first`` to ``schedule(0)``.

    Args:
        schedule: The schedule that follows.
        steps: The number of steps of the rise.
        first: The first value.

    Returns:
        A schedule.

    Example:
        >>> rate = pt.schedules.warmup(pt.schedules.cosine(1.0, 100), 10)
        >>> rate(0).item(), rate(5).item(), rate(10).item()
        (0.0, 0.5, 1.0)

    """
    check_ranges("warmup", steps=steps, first=first)
    if not callable(schedule):
        raise TypeError(
            f"warmup: schedule must be a function of the step, got {schedule!r}; use "
            "schedules.constant for a number"
        )

    def rising(step: Any) -> pg.Tensor:
        fraction = _completed_fraction(step, steps)
        return first * (1.0 - fraction) + schedule(0) * fraction

    return join(rising, schedule, steps)


@hinted
def one_cycle(
    peak: float,
    steps: int,
    rising: float = 0.3,
    first_factor: float = 25.0,
    last_factor: float = 1e4,
) -> Schedule:
    """Return the schedule that rises to ``peak`` along a cosine, and then falls.

    Args:
        peak: The largest value.
        steps: The total number of steps.
        rising: The fraction of the steps in which the schedule rises.
        first_factor: The first value is ``peak / first_factor``.
        last_factor: The last value is the first value divided by ``last_factor``.

    Returns:
        A schedule.

    Example:
        >>> rate = pt.schedules.one_cycle(1.0, 100)
        >>> round(rate(0).item(), 4), round(rate(30).item(), 4)
        (0.04, 1.0)

    Source:
        L. N. Smith and N. Topin, "Super-convergence: very fast training of neural
        networks using large learning rates", 2018; ``optax.cosine_onecycle_schedule``.

    """
    check_ranges("one_cycle", peak=peak, steps=steps, rising=rising)
    factors = {"first_factor": first_factor, "last_factor": last_factor}
    check_ranges("one_cycle", **factors)
    rising_steps = round(rising * steps)
    if not 0 < rising_steps < steps:
        raise ValueError(
            f"one_cycle: {steps} steps with rising={rising} rise for {rising_steps} "
            "steps; rise and fall need at least one step each"
        )
    first = peak / first_factor
    return join(
        cosine(first, rising_steps, peak),
        cosine(peak, steps - rising_steps, first / last_factor),
        rising_steps,
    )
