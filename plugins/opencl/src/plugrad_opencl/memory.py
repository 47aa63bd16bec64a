"""Finds out how much memory the host has, and how much this process can still use.

Memory is limited by the machine, by the limits of the process (``ulimit -v``), and by
its control groups, which containers use. PoCL reserves the memory of a buffer at its
first use, and Linux grants more memory than there is. Beyond a limit, Linux kills the
process, or PoCL crashes. So the pool asks this module before it allocates a buffer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

UNLIMITED_BYTES = 1 << 62  # reported if nothing sets a limit
COMPILER_RESERVED_BYTES = 512 << 20  # address space without which compilers crash
_ROOT = Path("/")


class Bound(NamedTuple):
    """The bytes that a limit allows in total, and the bytes that are left."""

    total: int
    left: int


def total(root: Path = _ROOT) -> int:
    """Return the maximum that arrays can ever use, in bytes; call this at the start."""
    return min([bound.total for bound in _bounds(root)], default=UNLIMITED_BYTES)


def left(root: Path = _ROOT) -> int:
    """Return the bytes that this process can still use without swapping."""
    return min([bound.left for bound in _bounds(root)], default=UNLIMITED_BYTES)


def _bounds(root: Path) -> Iterator[Bound]:
    yield from _machine(root)
    yield from _process(root)
    yield from _groups(root)


def _machine(root: Path) -> Iterator[Bound]:
    found = _numbers(root / "proc/meminfo", ":")
    if "MemTotal" in found and "MemAvailable" in found:
        yield Bound(found["MemTotal"] << 10, found["MemAvailable"] << 10)


def _process(root: Path) -> Iterator[Bound]:
    """Yield the limits of the address space and the data segment, if they are set."""
    if sys.platform == "win32":
        return
    import resource

    words = _text(root / "proc/self/statm").split()
    for which, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit, _ = resource.getrlimit(which)
        if limit != resource.RLIM_INFINITY and len(words) > field:
            used = int(words[field]) * resource.getpagesize()
            yield Bound(limit - used - COMPILER_RESERVED_BYTES, limit - used)


class _Version(NamedTuple):
    """The folder and the file names in one version of control groups."""

    folder: str
    limit: str
    usage: str
    prefix: str  # prefix of counters that include child groups


_V2 = _Version("", "memory.max", "memory.current", "")
_V1 = _Version("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_")


def _groups(root: Path) -> Iterator[Bound]:
    """Yield the limits of this process's control group and of its parent groups.

    In a container, the path of the group may be that on the host, which is not visible
    there. The topmost folder is then the group of the container.
    """
    mount = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        version = _V1 if controllers else _V2
        top = mount / version.folder
        group = top / path.strip("/")
        for folder in (group, *group.parents):
            yield from _group(folder, version)
            if folder == top:
                break


def _group(folder: Path, version: _Version) -> Iterator[Bound]:
    """Yield the limit of a group; the page cache counts as available."""
    limit, usage = (_text(folder / name) for name in version[1:3])
    if limit.strip().isdecimal() and usage.strip().isdecimal():
        found = _numbers(folder / "memory.stat")
        files = [found.get(f"{version.prefix}{n}_file", 0) for n in _LISTS]
        yield Bound(int(limit), int(limit) - int(usage) + sum(files))


_LISTS = ("active", "inactive")


def _numbers(file: Path, end: str = "") -> dict[str, int]:
    """Return the numbers in a file by the word that precedes each of them."""
    rows = [line.split() for line in _text(file).splitlines()]
    return {row[0].removesuffix(end): int(row[1]) for row in rows if len(row) > 1}


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""  # another operating system, or no such limit
