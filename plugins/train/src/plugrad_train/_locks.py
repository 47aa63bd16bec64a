"""Whether another process writes into a folder, so that nobody removes its files."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

fcntl: Any = None
with contextlib.suppress(ImportError):  # on Windows
    fcntl = import_module("fcntl")

ABANDONED_AFTER_S = 3600.0  # where the system has no locks: a save takes less time


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[Callable[[Path], bool]]:
    """Declare that this process writes into the folder, for the block.

    Writers share a lock on the folder, which the system releases when a process ends,
    however it ends. Nobody waits for another writer.

    Yields:
        A function that says whether a file that nothing refers to has no writer, to be
        called once this process has written its own: nobody else holds the lock, or,
        without locks, the file is old.

    """
    handle = _locked(folder)
    try:
        yield lambda path: _is_alone(handle) or _is_old(path)
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child may have inherited the handle
            os.close(handle)


def _locked(folder: Path) -> int | None:
    """Return a handle of the folder with a shared lock; None where there are none."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


def _is_alone(handle: int | None) -> bool:
    """Return whether this is the only writer; then no other one begins."""
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > ABANDONED_AFTER_S
    except FileNotFoundError:  # another process has removed it
        return False
