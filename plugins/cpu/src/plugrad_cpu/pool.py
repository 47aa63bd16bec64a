"""The memory pool for large results: see ``src_c/pool.c``.

Only results of kernels use it; your own NumPy arrays never do.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType

DEFAULT_MAX_BYTES = 1 << 30  # default limit if the machine has at least 8 GiB
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


native: ModuleType | None = None
missing = ""  # why the native module is missing; else empty
try:
    native = importlib.import_module("plugrad_cpu._native")
except ModuleNotFoundError:
    missing = "plugrad-cpu was installed without a C compiler"
except Exception as error:  # built for another NumPy or Python, or damaged
    missing = f"plugrad_cpu._native cannot be imported, reinstall plugrad-cpu: {error}"


def limit_of(text: str | None) -> int:
    """Return how many bytes to cache; default: an eighth of memory, up to 1 GiB.

    Raises:
        ValueError: The text is not a size.

    """
    if text is None:
        return min(DEFAULT_MAX_BYTES, memory() // 8)
    found = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(
            f"PLUGRAD_CPU_POOL={text}: use 0 to turn the pool off, or the maximum "
            "number of bytes to cache, such as 512M or 2G"
        )
    size = int(found[1]) * _UNITS[found[2].upper()]
    return min(size, sys.maxsize)


def memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process may use, limited by machine and cgroup."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 * DEFAULT_MAX_BYTES  # Windows has no sysconf
    try:
        limit = (root / "sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        limit = ""
    return min(total, int(limit)) if limit.isdigit() else total


LIMIT = limit_of(os.environ.get("PLUGRAD_CPU_POOL")) if native else 0


def enter() -> None:
    """Allocate the new arrays of this context from the pool."""
    if native and LIMIT:
        native.use_pool(LIMIT)


def kept() -> int:
    """Return the number of bytes that are cached for later arrays."""
    return native.pool_statistics()["kept"] if native else 0
