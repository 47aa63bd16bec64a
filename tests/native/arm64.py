"""Kernels in C of plugrad-cpu for arm64, in QEMU: ``python -m tests.native.arm64``.

It compiles the library for arm64, runs the table of ops here, writes every call of a
kernel with its arrays to a file, and replays the file by ``replay.c`` on an arm64 that
QEMU emulates: the results must be those of this processor. It needs ziglang,
``qemu-aarch64`` and the C library of arm64: Debian's packages qemu-user and
libc6-arm64-cross. QEMU_LD_PREFIX is the folder of the latter.

A call in the file is its name in 64 bytes, the number of arguments (u32), and the
arguments: "i" and a u64, "d" and a double, or "s" and the number of an earlier array of
the call (u64). An array is "a", the bytes from its lowest element to its highest, where
its first one is among them (u64 both), and the memory between.
"""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .guards import MOST
from .run import Calls, cases, options

ROOT = Path(__file__).parents[2]
CPU = ROOT / "plugins/cpu"
BUILT = CPU / "build/arm64"
LIBRARY = BUILT / "lib/plugrad_cpu/lib/aarch64.so"
RUNS = [["results", "--count", "6"], ["results", "--large"]]
PREFIX = os.environ.get("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")
ADDRESSES = {"join"}  # kernels with arrays of addresses, which hold in a process only
# Kernels of which the last array is memory to work in: what is there depends on the
# instructions that the processor has.
MEMORY = {"matmul_integer_i8", "quantized_conv_i8"}
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


def build() -> Path:
    """Compile the library and the program that calls it; return the program."""
    command = [sys.executable, "setup.py", "--quiet", "build"]
    command += ["--build-lib", str(BUILT / "lib"), "--build-temp", str(BUILT / "temp")]
    env = os.environ | {"PLUGRAD_CPU_LEVELS": "aarch64"}
    subprocess.run(command, cwd=CPU, env=env, check=True)
    program = BUILT / "replay"
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        "aarch64-linux-gnu.2.17",
    ]
    command += [str(Path(__file__).parent / "replay.c"), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    return program


def record() -> Recording:
    """Run the table here."""
    calls, made = Calls(), Recording()
    calls.run = made.run
    import plugrad as pg

    pg.set_backend("cpu")
    for arguments in RUNS:
        for _, call in cases(options(arguments)):
            call()
    if not calls.reached:
        sys.exit("no kernel in C has run here")
    return made


def replay(program: Path, made: Recording) -> bytes:
    """Return what the arrays of all calls hold afterwards, on arm64."""
    threads = b"set_threads".ljust(64, b"\0") + struct.pack("<IcQ", 1, b"i", 4)
    calls, results = BUILT / "calls", BUILT / "results"
    calls.write_bytes(threads + made.calls)
    command = [
        "qemu-aarch64",
        "-L",
        PREFIX,
        *map(str, (program, LIBRARY, calls, results)),
    ]
    subprocess.run(command, check=True)
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
    warnings.simplefilter("error")
    if shutil.which("qemu-aarch64") is None:
        sys.exit("there is no qemu-aarch64: install the package qemu-user")
    program = build()
    made = record()
    names = wrong(made, replay(program, made))
    kernels = {name for name, _ in made.expected if name}
    print(f"{len(made.expected)} arrays of {len(kernels)} kernels; wrong: {len(names)}")
    print(*sorted({*names}), sep="\n")
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
