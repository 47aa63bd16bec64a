"""The share of the kit's tests that runs on a backend: another one in each commit.

The tests of such a backend are dealt into as many shares as ``SHARES`` says, by their
names. A commit runs the share of its number, so that as many commits in a row run all.
"""

import subprocess
import zlib
from pathlib import Path

# opencl compiles each kernel, which takes a fifth of a second.
SHARES = {"primitives": 6, "wasm": 6, "opencl": 12}


def number_of_commit(folder: Path) -> int:
    """Return how many commits lead to the one that is checked out; 0 without git.

    In a shallow clone, whose commits cannot be counted, it is made of the hash.
    """
    if _git(folder, "rev-parse", "--is-shallow-repository") == "false":
        return int(_git(folder, "rev-list", "--count", "HEAD") or 0)
    return int(_git(folder, "rev-parse", "HEAD")[:8] or "0", 16)


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def runs(backend: str | None, name: str, number: int) -> bool:
    """Tell whether a test of the kit runs on a backend in the share of a number."""
    count = SHARES.get(backend or "", 1)
    return zlib.crc32(name.encode()) % count == number % count


def described(number: int) -> str:
    """Return the shares, for the header of pytest."""
    shares = (f"{number % count + 1}/{count} on {b}" for b, count in SHARES.items())
    return f"shares: {', '.join(shares)} (again: --share {number})"
