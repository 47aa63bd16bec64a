"""Compiles a module to machine code, and calls its function from Python.

``run(*arrays)`` is a function of CPython's C interface, also in machine code. It checks
that each argument is a row-major array, and passes the addresses of the elements to the
code of the region: see the module ``entry``.

It is a trick that relies on the memory layout of CPython and NumPy objects. When the
pack is opened, ``plugin.knows_objects`` compares the layout with real objects.

- *Fallback*: the regions of plugrad-cpu, which run if the pack cannot be opened, and
  with ``PLUGRAD_LLVM_PLAIN=1``. ``test_tricks`` runs a region with it.
- *Tried with*: CPython 3.11 with the GIL, NumPy 2 and llvmlite 0.50, 64 bits.
- *Delete it* when a documented interface calls regions as fast, or if
  ``benchmarks/tricks.py`` shows less than a factor of 1.3.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import struct
from collections.abc import Callable
from typing import NamedTuple

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np

from . import cache, entry
from .code import Module

Run = Callable[..., bool]
# How threads share a region: the address of the backend's ``parallel_for``, or 0; the
# number of items; the items of a unit, which is never split; the number of units; the
# units of a piece, which is what a thread runs at once.
Pieces = tuple[int, int, int, int, int]
FASTCALL = 0x80  # METH_FASTCALL of CPython
# Levels of the code generator. QUICK takes a quarter of the time; its code is slower,
# but gives the same bits. No optimization passes run.
LEVEL = 1
QUICK = 0
AVX512_FEATURES = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma"}
MAX_CACHED_MODULES = 256  # equal modules are compiled once
CALLED = ["PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread"]


class Processor(NamedTuple):
    """The processor that machine code is for."""

    name: str
    features: str
    lanes: int
    fused: bool


@functools.cache
def processor() -> Processor:
    """Return the processor; vectors are as wide as in the kernels of plugrad-cpu."""
    features = llvm.get_host_cpu_features()
    found = {name for name, present in features.items() if present}
    lanes = 16 if found >= AVX512_FEATURES else 8 if found >= {"avx2", "fma"} else 4
    fused = "fma" in found or platform.machine() in ("aarch64", "arm64")
    return Processor(llvm.get_host_cpu_name(), features.flatten(), lanes, fused)


def new_module() -> Module:
    """Return an empty module for this processor."""
    return Module(processor().lanes, processor().fused)


@functools.cache
def _target() -> llvm.Target:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name in CALLED:
        function = getattr(ctypes.pythonapi, name)
        address = ctypes.cast(function, ctypes.c_void_p).value
        llvm.add_symbol(name, address)
    return llvm.Target.from_triple(llvm.get_process_triple())


def _new_machine(level: int) -> llvm.TargetMachine:
    about = processor()
    return _target().create_target_machine(
        cpu=about.name, features=about.features, opt=level
    )


_machine = functools.cache(_new_machine)  # creating one takes a millisecond


def _machine_code(text: str, level: int) -> bytes:
    """Return the machine code of a module, from the cache if possible."""
    version = f"{llvmlite.__version__} {llvm.llvm_version_info}"
    identity = "\0".join([version, *map(str, processor()), str(level), text])
    key = hashlib.sha256(identity.encode()).hexdigest()
    code = cache.read(key)
    if code is None:
        code = _machine(level).emit_object(llvm.parse_assembly(text))
        cache.write(key, code)
    return code


class _Method(ctypes.Structure):
    """A PyMethodDef, CPython's description of a function."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_Method), ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


@functools.lru_cache(MAX_CACHED_MODULES)
def _loaded(text: str, level: int) -> llvm.ExecutionEngine:
    """Return the engine that owns the machine code of a module."""
    code = _machine_code(text, level)
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, _new_machine(level))  # which owns both
    engine.set_object_cache(getbuffer_func=lambda module: code)
    engine.finalize_object()
    return engine


def compiled(module: Module, release: bool, pieces: Pieces, level: int = LEVEL) -> Run:
    """Return the function of a module, which keeps the machine code alive.

    Args:
        module: A module with ``run(ptr addresses, i64 begin, i64 end)``.
        release: Whether to release the GIL while the function runs.
        pieces: How threads share the region, if ``release``.
        level: The level of the code generator.

    """
    call = _loaded(entry.text(), QUICK)
    region = _loaded(str(module), level)
    run = region.get_function_address("run")
    description = struct.pack(entry.FORMAT, run, id(np.ndarray), release, *pieces)
    method = _Method(b"region", call.get_function_address("call"), FASTCALL, None)
    kept = (call, region, method)  # alive as the function's module
    return _new_function(ctypes.byref(method), description, kept)
