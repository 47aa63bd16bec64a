"""Kernels in C of plugrad-cpu on other platforms: ``python -m tests.native.replayed``.

It compiles the library for arm64 or Windows, runs the table of ops here, writes every
call of a kernel with its arrays to a file, and replays the file by ``replay.c`` on the
other platform: the results must be those of this machine.

- ``arm64`` is Linux that QEMU emulates. It needs Debian's packages qemu-user and
  libc6-arm64-cross; QEMU_LD_PREFIX is the folder of the latter.
- ``windows`` is x86-64 with AVX2, under Wine: Debian's package wine64.

A call in the file is its name in 64 bytes, the number of arguments (u32), and the
arguments: "i" and a u64, "d" and a double, or "s" and the number of an earlier array of
the call (u64). An array is "a", the bytes from its lowest element to its highest, where
its first one is among them (u64 both), and the memory between.
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

from .guards import MOST
from .run import Calls, cases, options

CPU = Path(__file__).parents[2] / "plugins/cpu"
sys.path.insert(0, str(CPU))
import compile_kernels  # noqa: E402  # of plugrad-cpu

RUNS = [["results", "--count", "6"], ["results", "--large"]]
PREFIX = os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
QUIET = {"WINEDEBUG": "-all"}  # but for what a program prints


class Platform(NamedTuple):
    """Where calls are replayed.

    Attributes:
        level: That of the library, as in ``compile_kernels``.
        system: The end of zig's name of the target.
        emulator: The command that runs a program.

    """

    level: str
    system: str
    emulator: list[str]


PLATFORMS = {
    "arm64": Platform("aarch64", "linux-gnu.2.17", ["qemu-aarch64", "-L", PREFIX]),
    "windows": Platform("x86_64_v3", "windows-gnu", ["wine"]),
}
ADDRESSES = {"join"}  # kernels with arrays of addresses, which hold in a process only
# Kernels of which the last array is memory to work in: what is there depends on the
# instructions that the processor has.
MEMORY = {"matmul_integer_i8", "quantized_conv_i8", "quantized_matmul_i8"}
FAR = {"f": 1e-5, "d": 1e-12}  # in units of the largest number


class Recording:
    """Calls of kernels as a file, and what they gave here."""

    def __init__(self) -> None:
        self.calls = bytearray()
        self.expected: list[tuple[str, np.ndarray]] = []  # "": not compared

    def run(
        self, name: str, kernel: Callable[..., None], args: tuple[Any, ...]
    ) -> None:
        """Run a kernel, and record it unless it has addresses or views of far steps."""
        spans = [memory_of(x).nbytes for x in args if isinstance(x, np.ndarray)]
        if name in ADDRESSES or max(spans, default=0) > MOST:
            kernel(*args)
            return
        self.calls += name.encode().ljust(64, b"\0") + struct.pack("<I", len(args))
        arrays: dict[int, np.ndarray] = {}
        for x in args:
            self.calls += self._written(x, arrays)
        kernel(*args)
        self.expected += [(name, memory_of(x).copy()) for x in arrays.values()]
        if name in MEMORY:
            self.expected[-1] = ("", self.expected[-1][1])

    def _written(self, x: Any, arrays: dict[int, np.ndarray]) -> bytes:
        if isinstance(x, float):
            return struct.pack("<cd", b"d", x)
        if not isinstance(x, np.ndarray):
            return struct.pack("<cQ", b"i", int(x or 0) % 2**64)
        if (place := x.ctypes.data) in arrays:
            return struct.pack("<cQ", b"s", [*arrays].index(place))
        arrays[place], memory = x, memory_of(x)
        first = place - memory.ctypes.data
        return struct.pack("<cQQ", b"a", memory.nbytes, first) + memory.tobytes()


def memory_of(x: np.ndarray) -> np.ndarray:
    """Return the memory from the lowest element to the highest, by its elements."""
    low, high = np.lib.array_utils.byte_bounds(x)
    memory = (ctypes.c_char * (high - low)).from_address(low)
    return np.frombuffer(memory, x.dtype if x.size else np.uint8)


def build(platform: Platform, folder: Path) -> tuple[Path, Path]:
    """Compile the program that replays calls, and the library; return their paths."""
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
    """Run the table here."""
    calls = Calls()
    made = Recording()
    calls.run = made.run
    import plugrad as pg

    pg.set_backend("cpu")
    for arguments in RUNS:
        for _, call in cases(options(arguments)):
            call()
    if not calls.reached:
        sys.exit("no kernel in C has run here")
    return made


def replay(platform: Platform, folder: Path, made: Recording) -> bytes:
    """Return what the arrays of all calls hold afterwards, on the other platform."""
    threads = b"set_threads".ljust(64, b"\0") + struct.pack("<IcQ", 1, b"i", 4)
    program, library = build(platform, folder)
    calls = folder / "calls"
    results = folder / "results"
    calls.write_bytes(threads + made.calls)
    files = program, library, calls, results
    command = [*platform.emulator, *map(str, files)]
    subprocess.run(command, check=True, env=os.environ | QUIET)
    return results.read_bytes()


def wrong(made: Recording, found: bytes) -> list[str]:
    """Return the kernels whose results differ."""
    names, at = [], 0
    for name, here in made.expected:
        there = np.frombuffer(found, here.dtype, here.size, at).reshape(here.shape)
        at += here.nbytes
        far = FAR.get(here.dtype.char, 0.0)
        scale = float(np.abs(here).max(initial=1.0, where=np.isfinite(here)))
        if name and not np.allclose(
            there, here, rtol=far, atol=far * scale, equal_nan=True
        ):
            names.append(name)
    assert at == len(found)
    return names


def main() -> int:
    """Build, record, replay and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platform", choices=PLATFORMS)
    name = parser.parse_args().platform
    platform = PLATFORMS[name]
    warnings.simplefilter("error")
    if shutil.which(platform.emulator[0]) is None:
        sys.exit(f"there is no {platform.emulator[0]}: install the package that has it")
    made = record()
    names = wrong(made, replay(platform, CPU / "build/replayed" / name, made))
    kernels = {name for name, _ in made.expected if name}
    print(f"{len(made.expected)} arrays of {len(kernels)} kernels; wrong: {len(names)}")
    print(*sorted({*names}), sep="\n")
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
