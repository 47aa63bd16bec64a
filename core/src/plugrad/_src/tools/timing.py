"""Timing of functions: ``time``, and ``Timing``, its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from plugrad._src.tensor import arguments

from .device import synchronize
from .profile import Profile, _ms


@dataclass(frozen=True)
class Timing:
    """The time that a function takes.

    Attributes:
        seconds: The shortest duration of a call, excluding the first call.
        mean: The mean duration of the calls, excluding the first call.
        kernel_seconds: The time that the first call, which was profiled, spent in
            kernels.
        peak: The peak size in bytes of the results of the first call.

    """

    seconds: float
    mean: float
    kernel_seconds: float
    peak: int

    def __str__(self) -> str:
        return (
            f"{_ms(self.seconds)} ms (mean {_ms(self.mean)}); first call: "
            f"{_ms(self.kernel_seconds)} ms in kernels, at most {self.peak:,} bytes at "
            "once"
        )


def time(f: Callable[[], object], /, *, repeat: int = 1) -> Timing:
    """Return how long ``f()`` takes, in seconds, and how much of it goes to kernels.

    ``f`` is called once under ``profile``, which also warms it up, and then ``repeat``
    times without ``profile``; ``seconds`` is the shortest duration of these calls. Each
    duration includes the work of backends that run asynchronously.

    Args:
        f: A function without arguments.
        repeat: The number of calls that are timed, 1 or more.

    Returns:
        A ``Timing`` with ``seconds``, ``mean``, ``kernel_seconds`` and ``peak``.

    Raises:
        ValueError: ``repeat`` is less than 1.
        TypeError: ``f`` is not a function.

    Example:
        >>> timing = pg.time(lambda: pg.exp([1.0, 2.0]), repeat=3)
        >>> timing.seconds > 0
        True

    """
    repeat = arguments.integer("time", "repeat", repeat, 1)
    arguments.function("time", f)
    with Profile() as p:
        f()
    spent = []
    for _ in range(repeat):
        synchronize()
        start = perf_counter()
        f()
        synchronize()
        spent.append(perf_counter() - start)
    return Timing(min(spent), sum(spent) / repeat, p.kernel_seconds, p.peak)
