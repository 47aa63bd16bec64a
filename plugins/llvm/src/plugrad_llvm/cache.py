"""Caches machine code on disk, by content, so that later processes need not compile.

``PLUGRAD_LLVM_CACHE`` is the folder; ``0`` turns the cache off. Each file begins with a
checksum; a damaged file counts as missing and is written again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import sys
import tempfile
from pathlib import Path

MAX_BYTES = 64 << 20  # in total; beyond it, the least recently used are deleted
FILES_PER_TRIM = 64  # files that a process writes between two checks of the total size
DIGEST = hashlib.sha256().digest_size


@functools.cache
def folder() -> Path | None:
    """Return the folder of the cache; None if there is no cache."""
    given = os.environ.get("PLUGRAD_LLVM_CACHE")
    if given == "0":
        return None
    try:
        found = Path(given) if given else _user_cache() / "plugrad-llvm"
        found.mkdir(parents=True, exist_ok=True, mode=0o700)
        return found if _is_private(found) else None
    except (OSError, RuntimeError):  # no permission, or no home folder
        return None


def _is_private(path: Path) -> bool:
    """Return whether only this user can write there: the contents are executed."""
    if not hasattr(os, "getuid"):
        return True
    about = path.stat()
    return about.st_uid == os.getuid() and not about.st_mode & 0o022


def _user_cache() -> Path:
    """Return the user's cache folder."""
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    if sys.platform == "darwin":
        return home / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")


def read(key: str) -> bytes | None:
    """Return the code of a key; None if it is missing or damaged."""
    directory = folder()
    if directory is None:
        return None
    path = directory / key
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, code = data[:DIGEST], data[DIGEST:]
    if not code or hashlib.sha256(code).digest() != digest:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return code


_written = 0


def write(key: str, code: bytes) -> None:
    """Write code to the cache, or do nothing if the folder is not writable."""
    global _written
    directory = folder()
    if directory is None:
        return
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=directory, prefix="new-")
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(name, directory / key)
        if _written % FILES_PER_TRIM == 0:
            trim(directory)
        _written += 1


def trim(directory: Path, max_bytes: int = MAX_BYTES) -> None:
    """Delete the least recently used files, until at most ``max_bytes`` are left."""
    found = [(path.stat(), path) for path in directory.iterdir()]
    total = 0
    for stat, path in sorted(found, key=lambda entry: -entry[0].st_mtime):
        total += stat.st_size
        if total > max_bytes:
            path.unlink(missing_ok=True)
