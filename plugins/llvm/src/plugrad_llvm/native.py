"""Compiles a module to machine code, and calls its function from Python.

``run(*arrays)`` is a function of CPython's interface, in machine code itself: it checks
that each argument is an array in row-major order, and gives the addresses of their
elements to the code of the region.

It is a trick: it leans on where CPython and NumPy have the parts of their objects.
``plugin.knows_objects`` compares that with what they say, when the pack is opened.

- *Fallback*: the regions of plugrad-cpu, which run where the pack does not open, and
  with ``PLUGRAD_LLVM_PLAIN=1``. ``test_tricks`` runs a region on it.
- *Tried with*: CPython 3.11 with the GIL, NumPy 2 and llvmlite 0.50, 64 bits.
- *Delete it* when regions can be called as fast by an interface that is promised, or if
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

from . import cache
from .code import Module

Run = Callable[..., bool]
# How threads share a region: the address of ``parallel_for`` of the backend, or 0; all
# items; those of a unit, which is not divided; the units, and those of a piece.
Pieces = tuple[int, int, int, int, int]
FASTCALL = 0x80  # METH_FASTCALL of CPython
# Levels of the code generator. QUICK costs a quarter of the time; its code is slower
# and gives the same bits. No passes over the module run.
LEVEL = 1
QUICK = 0
AVX512_FEATURES = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma"}
MAX_CACHED_MODULES = 256  # equal modules are compiled once
CALLED = ["PyBool_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread"]
# What Python calls. ``self`` is a bytes object, which has its bytes at 32: the address
# of ``run``, that of the type of arrays, whether other threads of Python may run
# meanwhile, and ``Pieces``. If these are for threads, ``piece`` runs some units, of
# which the last one has the rest; it finds the bytes behind the addresses. An object
# has its type at 8; an array has the address of its elements at 16 and its flags at
# 64, in which 257 is row-major order and alignment.
CALL = """
declare ptr @PyBool_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

%About = type { ptr, ptr, i64, ptr, i64, i64, i32, i32 }

define void @piece(i32 %first, i32 %last, ptr %addresses) nounwind {
  %at = getelementptr ptr, ptr %addresses, i64 128
  %self = load ptr, ptr %at
  %about = load %About, ptr %self
  %run = extractvalue %About %about, 0
  %items = extractvalue %About %about, 4
  %unit = extractvalue %About %about, 5
  %units = extractvalue %About %about, 6
  %from = zext i32 %first to i64
  %to = zext i32 %last to i64
  %begin = mul i64 %from, %unit
  %before = mul i64 %to, %unit
  %is.last = icmp eq i32 %last, %units
  %end = select i1 %is.last, i64 %items, i64 %before
  call void %run(ptr %addresses, i64 %begin, i64 %end)
  ret void
}

define ptr @call(ptr %self, ptr %args, i64 %count) nounwind {
entry:
  %addresses = alloca [129 x ptr]
  %bytes = getelementptr i8, ptr %self, i64 32
  %about = load %About, ptr %bytes
  %run = extractvalue %About %about, 0
  %type = extractvalue %About %about, 1
  %release = extractvalue %About %about, 2
  %parallel = extractvalue %About %about, 3
  %items = extractvalue %About %about, 4
  %units = extractvalue %About %about, 6
  %grain = extractvalue %About %about, 7
  br label %array
array:
  %k = phi i64 [ 0, %entry ], [ %next, %fits ]
  %x.at = getelementptr ptr, ptr %args, i64 %k
  %x = load ptr, ptr %x.at
  %own.at = getelementptr i8, ptr %x, i64 8
  %own = load ptr, ptr %own.at
  %is = icmp eq ptr %own, %type
  br i1 %is, label %look, label %refuse
look:
  %flags.at = getelementptr i8, ptr %x, i64 64
  %flags = load i32, ptr %flags.at
  %set = and i32 %flags, 257
  %ordered = icmp eq i32 %set, 257
  br i1 %ordered, label %fits, label %refuse
fits:
  %data.at = getelementptr i8, ptr %x, i64 16
  %data = load ptr, ptr %data.at
  %to = getelementptr ptr, ptr %addresses, i64 %k
  store ptr %data, ptr %to
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %array, label %start
start:
  %long = icmp ne i64 %release, 0
  br i1 %long, label %free, label %held
free:
  %state = call ptr @PyEval_SaveThread()
  %alone = icmp eq ptr %parallel, null
  br i1 %alone, label %one, label %many
one:
  call void %run(ptr %addresses, i64 0, i64 %items)
  br label %back
many:
  %at = getelementptr ptr, ptr %addresses, i64 128
  store ptr %bytes, ptr %at
  call void %parallel(ptr @piece, ptr %addresses, i32 %units, i32 %grain)
  br label %back
back:
  call void @PyEval_RestoreThread(ptr %state)
  br label %done
held:
  call void %run(ptr %addresses, i64 0, i64 %items)
  br label %done
done:
  %true = call ptr @PyBool_FromLong(i64 1)
  ret ptr %true
refuse:
  %false = call ptr @PyBool_FromLong(i64 0)
  ret ptr %false
}
"""


class Processor(NamedTuple):
    """The processor that machine code is for."""

    name: str
    features: str
    lanes: int
    fused: bool


@functools.cache
def processor() -> Processor:
    """Return the processor; vectors are as wide as those of the kernels of cpu."""
    features = llvm.get_host_cpu_features()
    have = {name for name, there in features.items() if there}
    lanes = 16 if have >= AVX512_FEATURES else 8 if have >= {"avx2", "fma"} else 4
    fused = "fma" in have or platform.machine() in ("aarch64", "arm64")
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


_machine = functools.cache(_new_machine)  # to be set up takes a millisecond


def _machine_code(text: str, level: int) -> bytes:
    """Return the machine code of a module, from the cache if it is there."""
    version = f"{llvmlite.__version__} {llvm.llvm_version_info}"
    about = "\0".join([version, *map(str, processor()), str(level), text])
    key = hashlib.sha256(about.encode()).hexdigest()
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
    engine = llvm.create_mcjit_compiler(empty, _new_machine(level))  # it owns both
    engine.set_object_cache(getbuffer_func=lambda module: code)
    engine.finalize_object()
    return engine


def compiled(module: Module, release: bool, pieces: Pieces, level: int = LEVEL) -> Run:
    """Return the function of a module; the machine code lives as long as this does.

    Args:
        module: It has ``run(ptr addresses, i64 begin, i64 end)``.
        release: Whether other threads of Python may run meanwhile.
        pieces: How threads share it, if ``release``.
        level: Of the code generator.

    """
    call = _loaded(CALL, QUICK)
    region = _loaded(str(module), level)
    run = region.get_function_address("run")
    about = struct.pack("PPqPqqII", run, id(np.ndarray), release, *pieces)
    method = _Method(b"region", call.get_function_address("call"), FASTCALL, None)
    kept = (call, region, method)  # by the function, as what it belongs to
    return _new_function(ctypes.byref(method), about, kept)
