"""Devices that work asynchronously: wait for them, and time their work."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from plugrad._src.registry.backend import OpenBackend
from plugrad._src.registry.registry import registry


def wait(backend: OpenBackend) -> None:
    """Wait for the work that a backend has queued, if it has ``synchronize``."""
    finish = getattr(backend.runtime.arrays, "synchronize", None)
    if finish is not None:
        finish()


def synchronize() -> None:
    """Wait for the work that all backends have queued."""
    for backend in registry.opened.values():
        wait(backend)


class Clock:
    """A clock of the device time of this thread.

    A device measures its work while at least one of its clocks is running.
    """

    _running: ClassVar[Counter[OpenBackend]] = Counter()  # clocks of all threads

    def __init__(self, backend: OpenBackend) -> None:
        self._backend = backend
        self._arrays: Any = backend.runtime.arrays
        self._seen = 0.0

    def __enter__(self) -> Clock:
        with registry.lock:
            if not self._running[self._backend]:
                self._arrays.time_device(True)
            self._running[self._backend] += 1
        return self

    def __exit__(self, *_: object) -> None:
        with registry.lock:
            self._running[self._backend] -= 1
            if not self._running[self._backend]:
                del self._running[self._backend]
                self._arrays.time_device(False)

    def lap(self) -> float:
        """Return the seconds of device time since the last lap."""
        before = self._seen
        self._seen = self._arrays.device_seconds()
        return self._seen - before
