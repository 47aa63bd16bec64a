"""Large regions in pieces, on threads of Python that wait for them.

The machine code runs without the interpreter's lock. Pieces are parts of the outputs,
so the results do not depend on their number.
"""

from __future__ import annotations

import functools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LEAST = 1 << 17  # elements of a region that is worth waking threads
EACH = 4  # pieces for each thread


@functools.cache
def count() -> int:
    """Return how many threads there are, as for the kernels of cpu."""
    for name in ("PLUGRAD_CPU_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text):
            return int(text)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count() - 1, thread_name_prefix="plugrad-llvm")


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_pool.cache_clear)


def pieces(total: int, of: int) -> list[tuple[int, int]]:
    """Return the parts of ``total`` items, which begin at multiples of ``of``.

    None is smaller than ``of``, unless there is one only.
    """
    whole = max(1, total // of)
    parts = min(EACH * count(), whole) if count() > 1 else 1
    cuts = [whole * k // parts * of for k in range(parts)]
    return [*zip(cuts, [*cuts[1:], total], strict=True)]


def run_all(run: Callable[[int, int], bool], parts: list[tuple[int, int]]) -> bool:
    """Run all pieces; return whether all of them were taken.

    A thread that wakes up late, which takes 0.1 ms, finds that others did its pieces.
    This one takes pieces from the front, the others from the back.
    """
    left = deque(parts)

    def work(take: Callable[[], tuple[int, int]]) -> bool:
        done = True
        while left:
            try:
                part = take()
            except IndexError:  # another thread was faster
                break
            done = run(*part) and done
        return done

    helpers = min(count(), len(parts)) - 1
    others = [_pool().submit(work, left.pop) for _ in range(helpers)]
    done = work(left.popleft)
    return all([other.cancel() or other.result() for other in others]) and done
