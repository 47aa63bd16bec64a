"""Budgets: limits on the cost of loading an untrusted file.

A loader starts a copy of the caller's budget. Before it makes anything whose size
depends on the file, it charges the budget: bytes, nodes, seconds and depth.

Contents: ``Budget``; which files are read; JSON.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import errno
import functools
import json
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Budget", "BudgetError"]

BASE_BYTES = 2**28  # the bytes that even the smallest file may need
# A uint8 that becomes float32 takes 1 + 4 bytes during conversion; 3 are a reserve.
BYTES_PER_FILE_BYTE = 8
JSON_BYTES_PER_BYTE = 16  # an empty list has two characters and takes 56 bytes
JSON_LEVELS = 4  # levels of brackets that one level of ``depth`` allows
MAX_SCANNED_NAMES = 10_000  # names to scan in a folder in search of hard links


class BudgetError(ValueError):
    """Loading a file would cost more than its ``Budget`` allows."""

    @property
    def problem(self) -> str:
        """The message without the name of the function."""
        return str(self).partition(": ")[2]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits on what loading a file may cost: ``budget=`` of every loader.

    A file that is no larger than an e-mail can describe terabytes, or billions of
    nodes. A loader charges its budget before it makes anything, and raises an error
    when a limit is exceeded. The defaults are chosen for the files that people
    exchange. Each load starts from zero, so one budget can be used for many loads.

    Args:
        bytes: The limit on allocations. None: 256 MiB plus eight times the size of the
            files read, each counted once, but no more than the memory of the machine.
        nodes: The limit on ops, layers or tensors, with all functions expanded.
        seconds: The limit on the processor time of the thread that loads.
        depth: The limit on the nesting of function calls, branches and models. JSON may
            be nested four times as deep.

    Example:
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "weights.safetensors")
        ...     pg.save(path, {"w": pg.ones(1000)})
        ...     try:
        ...         pg.load(path, budget=pg.Budget(bytes=1000))
        ...     except pg.BudgetError as error:
        ...         print(error)
        load: 4000 bytes are needed, but the budget allows 1000; if you trust the \
file, raise it: budget=plugrad.Budget(bytes=...)

    """

    bytes: int | None = None
    nodes: int = 100_000
    seconds: float = 30.0
    depth: int = 100
    _spent: _Spent = field(
        default_factory=lambda: _Spent(), init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check the limits."""
        for name in ("bytes", "nodes", "depth"):
            value = getattr(self, name)
            if value is None and name == "bytes":
                continue
            if type(value) is not int or value < 0:
                raise TypeError(
                    f"Budget: {name} must be a non-negative integer, got {value!r}"
                )
        if type(self.seconds) not in (int, float) or not self.seconds >= 0:
            raise TypeError(
                f"Budget: seconds must be a non-negative number, got {self.seconds!r}"
            )

    @classmethod
    def started(cls, budget: object, who: str) -> Budget:
        """Return an unspent copy, whose clock starts now.

        Args:
            budget: The caller's budget; None stands for the defaults.
            who: The name of the function, with which messages begin.

        Raises:
            TypeError: ``budget`` is not a budget.

        """
        if not (budget is None or isinstance(budget, Budget)):
            kind = type(budget).__name__
            raise TypeError(f"{who}: budget must be a plugrad.Budget, got {kind}")
        started = cls() if budget is None else dataclasses.replace(budget)
        started._spent.who = who
        return started

    def allocate(self, nbytes: int) -> None:
        """Charge memory before it is allocated.

        Args:
            nbytes: The number of bytes.

        Raises:
            BudgetError: The limit is exceeded.

        """
        self._spent.bytes += nbytes
        limit = self._limit()
        if self._spent.bytes > limit:
            raise self._error("bytes", limit, f"{self._spent.bytes} bytes are needed")

    def affords(self, nbytes: int) -> bool:
        """Return whether ``nbytes`` bytes are left, for optional allocations."""
        return self._spent.bytes + nbytes <= self._limit()

    def count(self, nodes: int = 1) -> None:
        """Charge nodes, and check the time.

        Args:
            nodes: The number of new nodes.

        Raises:
            BudgetError: A limit is exceeded.

        """
        self._spent.nodes += nodes
        self.check_nodes(self._spent.nodes)
        self.tick()

    def check_nodes(self, nodes: int) -> None:
        """Check the total number of nodes before they are made.

        Args:
            nodes: The number of nodes.

        Raises:
            BudgetError: The limit is exceeded.

        """
        if nodes > self.nodes:
            what = f"{nodes} nodes or more, with functions expanded"
            raise self._error("nodes", self.nodes, what)

    def tick(self) -> None:
        """Check the time; call it for each node of a pass.

        Raises:
            BudgetError: The limit is exceeded.

        """
        spent = time.thread_time() - self._spent.start
        if spent > self.seconds:
            what = f"{spent:.1f} seconds of processor time"
            raise self._error("seconds", self.seconds, what)

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Return a context manager whose block is one level deeper.

        Raises:
            BudgetError: The limit is exceeded.

        """
        self._spent.depth += 1
        self.check_depth(self._spent.depth)
        try:
            yield
        finally:
            self._spent.depth -= 1

    def check_depth(self, depth: int) -> None:
        """Check a depth before anything is nested that deeply.

        Args:
            depth: The number of levels.

        Raises:
            BudgetError: The limit is exceeded.

        """
        if depth > self.depth:
            what = f"{depth} nested levels of functions, branches or models"
            raise self._error("depth", self.depth, what)

    def _limit(self) -> int:
        """Return the limit on bytes, given the size of the files read so far."""
        if self.bytes is not None:
            return self.bytes
        limit = BASE_BYTES + BYTES_PER_FILE_BYTE * self._spent.size
        return min(limit, _memory() or limit)

    def _error(self, name: str, limit: float, what: str) -> BudgetError:
        return BudgetError(
            f"{self._spent.who}: {what}, but the budget allows {limit}; if you trust "
            f"the file, raise it: budget=plugrad.Budget({name}=...)"
        )

    # --- files -------------------------------------------------------------------

    def measure(self, size: int) -> None:
        """Count data that is not in a file as if it were a file of this size."""
        self._spent.size += size

    def open(
        self, path: str | os.PathLike[str], folder: Path | None = None
    ) -> BufferedReader:
        """Return a regular file, open for reading; its size is counted once.

        Pipes and devices are refused, because reading them may never start or end.

        Args:
            path: The file; relative to ``folder``, if there is one.
            folder: The folder that must contain the file under all of its names,
                including hard links; None allows any folder.

        Raises:
            OSError: The file cannot be opened, or is a folder.
            ValueError: The file is not a regular file, or is outside of the folder.

        """
        found = Path(path) if folder is None else _inside(os.fspath(path), folder)
        _check_kind(os.stat(found), found)  # opening a device may have an effect
        flags = os.O_RDONLY
        for name in ("O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
            flags |= getattr(os, name, 0)
        file = os.fdopen(os.open(found, flags), "rb")
        try:
            status = os.fstat(file.fileno())
            _check_kind(status, found)
            if folder is not None:
                _check_links(status, path, folder)
        except BaseException:
            file.close()
            raise
        if (status.st_dev, status.st_ino) not in self._spent.files:
            self._spent.files.add((status.st_dev, status.st_ino))
            self._spent.size += status.st_size
        return file

    def read(
        self, path: str | os.PathLike[str], folder: Path | None = None
    ) -> builtins.bytes:
        """Return the content of a regular file, and charge its size.

        Args:
            path: The file; relative to ``folder``, if there is one.
            folder: As for ``open``.

        Raises:
            OSError: The file cannot be opened, or is a folder.
            ValueError: The file is not a regular file, or is outside of the folder.
            BudgetError: The file is too large.

        """
        with self.open(path, folder) as file:
            size = os.fstat(file.fileno()).st_size
            self.allocate(size)
            return file.read(size)

    def json(self, data: builtins.bytes) -> Any:
        """Parse JSON, after checking its depth.

        Args:
            data: The text.

        Raises:
            ValueError: The text is not JSON.
            BudgetError: The text is too large, or nested too deeply.

        """
        self.allocate(JSON_BYTES_PER_BYTE * len(data))
        limit = JSON_LEVELS * self.depth
        depth = _json_depth(data)
        if depth <= limit:
            with contextlib.suppress(RecursionError):  # the stack may be deep already
                return json.loads(data)
        what = f"{depth} levels of JSON, {JSON_LEVELS} of which count as one"
        raise self._error("depth", self.depth, what)


class _Spent:
    """The amounts that one load has spent; ``size`` is the size of the files read."""

    def __init__(self) -> None:
        self.who = "load"
        self.start = time.thread_time()
        self.bytes = self.nodes = self.depth = self.size = 0
        self.files: set[tuple[int, int]] = set()


@functools.cache
def _memory() -> int | None:
    """Return the memory of the machine, if the system reports it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows, or no such name
        return None


# --- which files are read --------------------------------------------------------


def _inside(name: str, folder: Path) -> Path:
    """Return the path of a file named by a model; raise unless it is in the folder."""
    root = folder.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a NUL
        raise ValueError(f"the file {name!r} cannot be found: {error}") from None
    if not name or Path(name).is_absolute() or not path.is_relative_to(root):
        raise ValueError(f"the file {name!r} is outside of the model's folder")
    return path


def _check_kind(status: os.stat_result, path: object) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe" if stat.S_ISFIFO(status.st_mode) else "a device or a socket"
        raise ValueError(f"the file {str(path)!r} is {kind}, not a regular file")


def _check_links(status: os.stat_result, path: object, folder: Path) -> None:
    """Raise if a file also has a name outside of the folder: a hard link."""
    if status.st_nlink < 2:
        return
    found = 0
    for i, entry in enumerate(folder.rglob("*")):
        with contextlib.suppress(OSError):  # the entry has been removed meanwhile
            other = entry.lstat()
            found += (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)
        if found == status.st_nlink or i == MAX_SCANNED_NAMES:
            break
    if found < status.st_nlink:
        raise ValueError(
            f"the file {path!r} has hard links outside of the model's folder: it may "
            "be another user's file; copy it if it is yours"
        )


# --- JSON ------------------------------------------------------------------------

_STEPS = np.zeros(256, np.int8)  # what each character adds to the depth
_STEPS[[*b"[{"]] = 1
_STEPS[[*b"]}"]] = -1
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)


def _json_depth(data: bytes) -> int:
    """Return the nesting depth of the brackets outside of strings."""
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", data), np.uint8)]
    return int(np.cumsum(steps, dtype=np.int32).max(initial=0))
