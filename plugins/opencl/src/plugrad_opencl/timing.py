"""Measures how long kernels run, from the events of their queues, for a profile."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

MAX_PENDING_EVENTS = 4096  # events whose times have not been added up


class Timer:
    """The seconds that each thread's kernels ran. Callers hold the device's lock."""

    def __init__(self) -> None:
        self._events: list[tuple[int, Any]] = []
        self._worked: defaultdict[int, float] = defaultdict(float)

    def note(self, event: Any) -> None:
        """Record an event of this thread, to be counted once it is complete."""
        self._events.append((threading.get_ident(), event))
        if len(self._events) >= MAX_PENDING_EVENTS:
            event.wait()
            self._add_up()

    def seconds(self) -> float:
        """Return how long this thread's kernels ran; all events must be complete."""
        self._add_up()
        return self._worked[threading.get_ident()]

    def _add_up(self) -> None:
        events, self._events = self._events, []
        for thread, event in events:
            seconds = (event.profile.end - event.profile.start) * 1e-9
            self._worked[thread] += seconds


class Timed:
    """Calls ``enqueue``, and records the event that it returns."""

    __slots__ = ("_timer", "enqueue")

    def __init__(self, enqueue: Callable[..., Any], timer: Timer) -> None:
        self.enqueue, self._timer = enqueue, timer

    def __call__(self, *args: Any) -> Any:
        """Enqueue, and return the event."""
        event = self.enqueue(*args)
        self._timer.note(event)
        return event
