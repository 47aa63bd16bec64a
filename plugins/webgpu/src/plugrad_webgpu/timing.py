"""Measures kernels by timestamps of the device, for ``pg.profile()``."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import wgpu

Interval = tuple[int, int]


class Timer:
    """Writes timestamps at the begin and end of each pass, and sums them by thread."""

    def __init__(self, device: Any, most_steps: int) -> None:
        """Measure batches of at most ``most_steps`` kernels."""
        self._device = device
        self._queries = device.create_query_set(type="timestamp", count=2 * most_steps)
        self._batches: list[tuple[Any, Sequence[int]]] = []
        self._seconds: dict[int, float] = defaultdict(float)

    def writes(self, step: int) -> dict[str, Any]:
        """Return the descriptor of the timestamps around the pass of a step."""
        return {
            "query_set": self._queries,
            "beginning_of_pass_write_index": 2 * step,
            "end_of_pass_write_index": 2 * step + 1,
        }

    def resolve(self, encoder: Any, threads: Sequence[int]) -> None:
        """Record the copy of a batch's timestamps; ``threads`` launched its steps."""
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        n = len(threads)
        buffer = self._device.create_buffer(size=16 * n, usage=usage)
        encoder.resolve_query_set(self._queries, 0, 2 * n, buffer, 0)
        self._batches.append((buffer, threads))

    def start(self) -> None:
        """Begin to measure, from zero."""
        self._batches.clear()
        self._seconds.clear()

    def seconds(self) -> float:
        """Return the time that kernels of the calling thread have run."""
        batches, self._batches = self._batches, []
        for buffer, threads in batches:
            raw = self._device.queue.read_buffer(buffer, 0, 16 * len(threads))
            times = np.frombuffer(raw, np.uint64).reshape(-1, 2).tolist()
            by_thread: dict[int, list[Interval]] = defaultdict(list)
            for thread, (begin, end) in zip(threads, times, strict=True):
                by_thread[thread].append((begin, end))
            for thread, intervals in by_thread.items():
                self._seconds[thread] += covered(intervals) * 1e-9
        return self._seconds[threading.get_ident()]


def covered(intervals: Sequence[Interval]) -> int:
    """Return the length of the union of intervals."""
    total = last = 0
    for begin, end in sorted(intervals):
        total += max(0, end - max(begin, last))
        last = max(last, end)
    return total
