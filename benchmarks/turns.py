"""Time functions in turns, so that a change of the machine's load affects all alike."""

import time
from collections.abc import Callable, Sequence
from typing import Any


def best_ms(
    functions: Sequence[Callable[[], Any]],
    turns: int = 9,
    clock: Callable[[], float] = time.perf_counter,
    calls: int = 1,
) -> list[float]:
    """Return the best time of each function in milliseconds; they take turns.

    Each function is first called three times without being timed. ``clock`` returns
    seconds. With several ``calls`` in a turn, the caches of the processor contain what
    the function needs, as in a loop over many inputs; the best call counts.
    """
    for function in functions:
        for _ in range(3):
            function()
    found = [float("inf")] * len(functions)
    for _ in range(turns):
        for number, function in enumerate(functions):
            for _ in range(calls):
                start = clock()
                function()
                found[number] = min(found[number], clock() - start)
    return [seconds * 1e3 for seconds in found]
