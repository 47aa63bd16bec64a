"""Sets the processor that PoCL compiles for: a trick that writes into PoCL's memory.

The trick relies on the layout of PoCL's device struct, which no header documents: word
80 points to the name of the processor, and word 69 to the name of the device.

- *Fallback*: PoCL asks LLVM for the processor. plugrad uses the GPU kernels, which
  contain no vectors, because 16-element vectors crash the process on a processor that
  LLVM 14 does not know. ``PLUGRAD_OPENCL_PLAIN=1`` selects the fallback, and
  ``test_tricks`` runs kernels with it. If word 69 does not point to the name of the
  device, plugrad writes nothing.
- *Tried with*: pocl-binary-distribution 3.0 (LLVM 14) and pyopencl 2026.1, x86-64.
  The trick does not touch any other PoCL.
- *Delete it* when the package index has a PoCL whose LLVM knows current processors, or
  if ``benchmarks/tricks.py`` shows a speedup below 1.3.
"""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_AVX2 = {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}
_CPU_NAME_WORD = 80  # index of the word in the device struct of PoCL 3.0


def is_plain() -> bool:
    """Return whether the user selected the fallback."""
    return os.environ.get("PLUGRAD_OPENCL_PLAIN", "0") != "0"


@functools.cache
def processor() -> str:
    """Return LLVM 14's name for this processor; empty if PoCL should ask LLVM."""
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
    """Set the processor that the PoCL from the package index compiles for.

    PoCL compiles for the processor that LLVM 14 names, but selects its library of
    built-in functions by the features of the processor. If the two do not match,
    functions are not inlined (ten times as slow) and vectors of 16 elements do not
    compile. For a processor that LLVM 14 does not know, nothing compiles: "unknown
    target CPU 'generic'".
    """
    if "PoCL 3.0" not in device.platform.version or "pyopencl" not in _library():
        return
    words = (ctypes.c_void_p * (_CPU_NAME_WORD + 1)).from_address(device.int_ptr)
    name = ctypes.string_at(words[_CPU_NAME_WORD - 11] or 0).decode(errors="replace")
    if processor() and name == device.name:  # the layout is as expected
        words[_CPU_NAME_WORD] = ctypes.addressof(_name())


@functools.cache
def _name() -> ctypes.Array[ctypes.c_char]:
    """Return the name in a buffer that lives as long as the process."""
    return ctypes.create_string_buffer(processor().encode())


def _library() -> str:
    """Return the paths of the PoCL libraries that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return ""
    return " ".join({x.split()[-1] for x in lines if "libpocl" in x})
