"""Repeat C kernel calls on another platform: ``python -m tests.native.replayed``.

This compiles plugrad-cpu's kernel library for arm64 or Windows, runs the table of op
calls on this machine, writes each kernel call with its arrays to a file, and repeats
the calls with ``replay.c`` on the other platform. The results must agree.

- ``arm64`` is Linux, emulated by QEMU. It needs Debian's packages qemu-user and
  libc6-arm64-cross; QEMU_LD_PREFIX is the folder of the latter.
- ``windows`` is x86-64 with AVX2, under Wine. It needs Debian's package wine64.

A call in the file consists of the kernel's name in 64 bytes, the number of arguments
(u32), and the arguments. An argument is one of:

- "i" and an integer (u64),
- "d" and a double,
- "a" and an array: the number of bytes from its lowest element to its highest (u64),
  the offset of its first element in them (u64), and these bytes,
- "s" and the index of an earlier array in the same call (u64).
"""

import argparse
import ctypes
import os
import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .guards import MAX_SPAN_BYTES
from .run import Calls, cases, options

CPU = Path(__file__).parents[2] / "plugins/cpu"
sys.path.insert(0, str(CPU))
import compile_kernels  # noqa: E402  # a module of plugrad-cpu

RUNS = [["results", "--count", "6"], ["results", "--large"]]
QEMU_PREFIX = os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
QUIET = {"WINEDEBUG": "-all"}  # no messages from Wine itself


class Platform(NamedTuple):
    """A platform on which calls are repeated.

    Attributes:
        level: The instruction set of the kernel library, as in ``compile_kernels``.
        system: The end of zig's name for the target.
        emulator: The command that runs a program.

    """

    level: str
    system: str
    emulator: list[str]


PLATFORMS = {
    "arm64": Platform("aarch64", "linux-gnu.2.17", ["qemu-aarch64", "-L", QEMU_PREFIX]),
    "windows": Platform("x86_64_v3", "windows-gnu", ["wine"]),
}
TAKE_ADDRESSES = {"join"}  # kernels whose arguments include arrays of addresses
# Kernels whose last array is a workspace: its contents afterwards depend on the
# instruction set.
TAKE_WORKSPACE = {"matmul_integer_i8", "quantized_conv_i8", "quantized_matmul_i8"}
TOLERANCES = {"f": 1e-5, "d": 1e-12}  # relative to the largest number


class Recording:
    """Kernel calls in the file format, and their results on this machine."""

    def __init__(self) -> None:
        self.calls = bytearray()
        self.expected: list[tuple[str, np.ndarray]] = []  # "": not compared

    def run(
        self, name: str, kernel: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """Run a kernel; record the call if it can be repeated in another process."""
        spans = [memory_of(x).nbytes for x in args if isinstance(x, np.ndarray)]
        if name in TAKE_ADDRESSES or max(spans, default=0) > MAX_SPAN_BYTES:
            kernel(*args)
            return
        self.calls += name.encode().ljust(64, b"\0") + struct.pack("<I", len(args))
        by_address: dict[int, list[np.ndarray]] = {}
        for x in args:
            if isinstance(x, np.ndarray):
                by_address.setdefault(x.ctypes.data, []).append(x)
        memories = {address: memory_of(*xs) for address, xs in by_address.items()}
        known: list[int] = []
        for x in args:
            self.calls += self._encoded(x, memories, known)
        kernel(*args)
        self.expected += [(name, memory.copy()) for memory in memories.values()]
        if name in TAKE_WORKSPACE:
            self.expected[-1] = ("", self.expected[-1][1])

    def _encoded(
        self, x: Any, memories: dict[int, np.ndarray], known: list[int]
    ) -> bytes:
        """Return an argument in the file format.

        Args:
            x: The argument.
            memories: The memory of the arrays of the call, by address.
            known: The addresses of earlier arguments; the array's address may be added.

        """
        if isinstance(x, float):
            return struct.pack("<cd", b"d", x)
        if not isinstance(x, np.ndarray):
            return struct.pack("<cQ", b"i", int(x or 0) % 2**64)
        address = x.ctypes.data
        if address in known:
            return struct.pack("<cQ", b"s", known.index(address))
        known.append(address)
        memory = memories[address]
        first = address - memory.ctypes.data
        return struct.pack("<cQQ", b"a", memory.nbytes, first) + memory.tobytes()


def memory_of(*arrays: np.ndarray) -> np.ndarray:
    """Return the memory of arrays, from the lowest element to the highest, as one."""
    bounds = [np.lib.array_utils.byte_bounds(x) for x in arrays]
    low = min(begin for begin, _ in bounds)
    high = max(end for _, end in bounds)
    memory = (ctypes.c_char * (high - low)).from_address(low)
    return np.frombuffer(memory, arrays[0].dtype if arrays[0].size else np.uint8)


def build(platform: Platform, folder: Path) -> tuple[Path, Path]:
    """Compile the replay program and the library; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "replay.exe"
    library = folder / f"kernels{compile_kernels.suffix(platform.system)}"
    compile_kernels.build_library(library, platform.level, platform.system)
    machine = "aarch64" if platform.level == "aarch64" else "x86_64"
    source = str(Path(__file__).parent / "replay.c")
    command = ["cc", "-target", f"{machine}-{platform.system}", "-Isrc_c/library"]
    command += ["-Wall", "-fno-sanitize=all", source, "-o", str(program)]
    compile_kernels.zig(*command)
    return program, library


def record() -> Recording:
    """Run the table on this machine, and record the kernel calls."""
    calls = Calls()
    recording = Recording()
    calls.run = recording.run
    import plugrad as pg

    pg.set_backend("cpu")
    for arguments in RUNS:
        for _, call in cases(options(arguments)):
            call()
    if not calls.reached:
        sys.exit("no C kernel has run on this machine")
    return recording


def replay(platform: Platform, folder: Path, recording: Recording) -> bytes:
    """Return the contents of all arrays after the calls on the other platform."""
    threads = b"set_threads".ljust(64, b"\0") + struct.pack("<IcQ", 1, b"i", 4)
    program, library = build(platform, folder)
    calls = folder / "calls"
    results = folder / "results"
    calls.write_bytes(threads + recording.calls)
    files = program, library, calls, results
    command = [*platform.emulator, *map(str, files)]
    subprocess.run(command, check=True, env=os.environ | QUIET)
    return results.read_bytes()


def differing(recording: Recording, found: bytes) -> list[str]:
    """Return the names of the kernels whose results differ."""
    names, offset = [], 0
    for name, expected in recording.expected:
        other = np.frombuffer(found, expected.dtype, expected.size, offset).reshape(
            expected.shape
        )
        offset += expected.nbytes
        rtol = TOLERANCES.get(expected.dtype.char, 0.0)
        scale = float(np.abs(expected).max(initial=1.0, where=np.isfinite(expected)))
        if name and not np.allclose(
            other, expected, rtol=rtol, atol=rtol * scale, equal_nan=True
        ):
            names.append(name)
    assert offset == len(found)
    return names


def main() -> int:
    """Record the calls, repeat them on the other platform, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platform", choices=PLATFORMS)
    name = parser.parse_args().platform
    platform = PLATFORMS[name]
    warnings.simplefilter("error")
    if shutil.which(platform.emulator[0]) is None:
        sys.exit(f"{platform.emulator[0]} is missing: install its package")
    recording = record()
    names = differing(
        recording, replay(platform, CPU / "build/replayed" / name, recording)
    )
    arrays = len(recording.expected)
    kernels = {name for name, _ in recording.expected if name}
    print(f"{arrays} arrays of {len(kernels)} kernels; wrong: {len(names)}")
    print(*sorted({*names}), sep="\n")
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
