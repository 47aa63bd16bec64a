"""Locks that keep one process from removing files that another one is writing."""

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

# The age at which an unreferenced file counts as abandoned where the file system has
# no locks. No save takes that long.
ABANDONED_AFTER_S = 3600.0


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[Callable[[], bool]]:
    """Declare that this process writes into the folder during the ``with`` block.

    Writers share a lock on the folder. The system releases it when a process ends, even
    if the process crashes. Writers do not wait for each other.

    Yields:
        A function that keeps other processes from starting to write until the end of
        the block, and returns True; it returns False if another process is writing, or
        without locks. Call it only after this process has written its own files.

    """
    handle = _lock_folder(folder)
    try:
        yield lambda: _lock_others_out(handle)
    finally:
        if handle is not None:
            fcntl.flock(handle, fcntl.LOCK_UN)  # a child may have inherited the handle
            os.close(handle)


def _lock_folder(folder: Path) -> int | None:
    """Return a folder handle with a shared lock; None without lock support."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:  # a file system without locks
        os.close(handle)
        return None
    return handle


def _lock_others_out(handle: int | None) -> bool:
    """Return whether this is the only writer; if so, keep others from starting."""
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_abandoned(path: Path) -> bool:
    """Return whether a file is so old that no process can still be writing it."""
    try:
        return time.time() - path.stat().st_mtime > ABANDONED_AFTER_S
    except FileNotFoundError:  # another process has removed it
        return False
