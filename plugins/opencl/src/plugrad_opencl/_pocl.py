"""The processor that PoCL compiles for: a trick, which writes into PoCL's device.

It leans on the layout of a struct of PoCL that no header promises: word 80 of a device
points to the name of the processor, and word 69 to that of the device.

- *Fallback*: PoCL asks LLVM, and the kernels are those for GPUs, which have no
  vectors: on a processor that LLVM 14 does not know, vectors of 16 end the process.
  ``PLUGRAD_OPENCL_PLAIN=1`` chooses it; ``test_tricks`` runs kernels on it. Where word
  69 is not the name of the device, nothing is written.
- *Tried with*: pocl-binary-distribution 3.0 (LLVM 14) and pyopencl 2026.1, x86-64.
  Any other PoCL is left alone.
- *Delete it* when the package index has a PoCL whose LLVM knows the processors of the
  day, or if ``benchmarks/tricks.py`` shows less than a factor of 1.3.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_AVX2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}
_NAME_OF_CPU = 80  # where PoCL 3.0 has it, in words from the start of a device


def is_plain() -> bool:
    """Return whether the fallback is chosen."""
    return os.environ.get("PLUGRAD_OPENCL_PLAIN", "0") != "0"


@functools.cache
def processor() -> str:
    """Return the name by which LLVM 14 knows this processor; empty: PoCL asks."""
    if is_plain():
        return ""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""
    flags = next((x for x in text.splitlines() if x.startswith("flags")), "").split()
    if _AVX512.issubset(flags):
        return "skylake-avx512"
    return "haswell" if _AVX2.issubset(flags) else ""


def name_processor(device: Any) -> None:
    """Tell a device of the PoCL of the package index for which processor to compile.

    It asks LLVM 14 for the name of the processor and its flags for the library of
    built-in functions. Where the two do not fit each other, functions are not inlined
    (ten times as slow), vectors of 16 do not compile, and for a processor that LLVM 14
    has never heard of nothing does: "unknown target CPU 'generic'".
    """
    if "PoCL 3.0" not in device.platform.version or "pyopencl" not in _library():
        return
    words = (ctypes.c_void_p * (_NAME_OF_CPU + 1)).from_address(device.int_ptr)
    name = ctypes.string_at(words[_NAME_OF_CPU - 11] or 0).decode(errors="replace")
    if processor() and name == device.name:  # the layout is the one that we know
        words[_NAME_OF_CPU] = ctypes.addressof(_name())


@functools.cache
def _name() -> ctypes.Array[ctypes.c_char]:
    """Return it where it stays, for PoCL to read."""
    return ctypes.create_string_buffer(processor().encode())


def _library() -> str:
    """Return the paths of the PoCL that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return ""
    return " ".join({x.split()[-1] for x in lines if "libpocl" in x})
