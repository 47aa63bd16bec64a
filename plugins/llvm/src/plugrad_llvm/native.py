"""Machine code: compiling a module, and calling its function from Python.

``run(*arrays, begin, end)`` is a function of CPython's interface, in the machine code
itself: it checks that each argument is an array in row-major order, and gives the
addresses of their elements to the code of the region.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
from collections.abc import Callable
from typing import NamedTuple

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numpy as np

from . import cache
from .code import Module

Run = Callable[..., bool]
# Of CPython and NumPy on 64 bits: where an object has its type; where an array has its
# elements and its flags; those of row-major order and alignment; METH_FASTCALL.
TYPE, DATA, FLAGS = 8, 16, 64
IN_ORDER = 0x1 | 0x100
FASTCALL = 0x80
WIDEST = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma"}
LEVEL = 1  # of the code generator; passes over the module do not run
CALLED = ["PyLong_AsSsize_t", "PyBool_FromLong", "PyEval_SaveThread"]
CALLED += ["PyEval_RestoreThread"]


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
    lanes = 16 if have >= WIDEST else 8 if have >= {"avx2", "fma"} else 4
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


def _machine_code(text: str, machine: llvm.TargetMachine) -> bytes:
    """Return the machine code of a module, from the cache if it is there."""
    version = f"{llvmlite.__version__} {llvm.llvm_version_info}"
    about = "\0".join([version, *map(str, processor()), str(LEVEL), text])
    key = hashlib.sha256(about.encode()).hexdigest()
    code = cache.read(key)
    if code is None:
        code = machine.emit_object(llvm.parse_assembly(text))
        cache.write(key, code)
    return code


class _Method(ctypes.Structure):
    """What CPython knows of a function: a PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_new_function = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.POINTER(_Method), ctypes.py_object, ctypes.py_object
)(("PyCFunction_NewEx", ctypes.pythonapi))


def compiled(module: Module) -> Run:
    """Return the function of a module; the machine code lives as long as this does."""
    about = processor()
    machine = _target().create_target_machine(
        cpu=about.name, features=about.features, opt=LEVEL
    )
    code = _machine_code(str(module), machine)
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, machine)  # which the engine owns now
    engine.set_object_cache(getbuffer_func=lambda module: code)
    engine.finalize_object()
    method = _Method(b"region", engine.get_function_address("call"), FASTCALL, None)
    kept = (engine, method)  # by the function, as what it belongs to
    return _new_function(ctypes.byref(method), np.ndarray, kept)


def add_call(module: Module, arrays: int, release: bool) -> None:
    """Add the function that Python calls, in front of ``run``.

    It returns False if an argument is not an array in order.

    Args:
        module: It has ``run(ptr..., i64 begin, i64 end)``.
        arrays: How many arrays there are.
        release: Whether other threads of Python may run meanwhile.

    """
    lines = [line for k in range(arrays) for line in _array(k)]
    given = [f"ptr %data{k}" for k in range(arrays)]
    for k, name in enumerate(("begin", "end"), arrays):
        lines += [
            *_argument(k),
            f"%{name} = call i64 @PyLong_AsSsize_t(ptr %x{k})",
        ]
        given.append(f"i64 %{name}")
    lines += ["%state = call ptr @PyEval_SaveThread()"] if release else []
    lines += [f"call void @run({', '.join(given)})"]
    lines += ["call void @PyEval_RestoreThread(ptr %state)"] if release else []
    lines += ["%true = call ptr @PyBool_FromLong(i64 1)", "ret ptr %true"]
    lines += ["refuse:", "%false = call ptr @PyBool_FromLong(i64 0)", "ret ptr %false"]
    body = "\n  ".join(lines)
    head = "define ptr @call(ptr %self, ptr %args, i64 %count)"
    module.functions["call"] = f"{head} #0 {{\n  {body}\n}}"
    module.declarations |= {
        "i64 @PyLong_AsSsize_t(ptr)",
        "ptr @PyBool_FromLong(i64)",
        "ptr @PyEval_SaveThread()",
        "void @PyEval_RestoreThread(ptr)",
    }


def _argument(k: int) -> list[str]:
    return [
        f"%at{k} = getelementptr ptr, ptr %args, i64 {k}",
        f"%x{k} = load ptr, ptr %at{k}",
    ]


def _array(k: int) -> list[str]:
    """Return the lines that check an argument and find its elements.

    ``%self`` is the type of arrays.
    """
    return [
        *_argument(k),
        f"%tp{k} = getelementptr i8, ptr %x{k}, i64 {TYPE}",
        f"%type{k} = load ptr, ptr %tp{k}",
        f"%is{k} = icmp eq ptr %type{k}, %self",
        f"br i1 %is{k}, label %array{k}, label %refuse",
        f"array{k}:",
        f"%fp{k} = getelementptr i8, ptr %x{k}, i64 {FLAGS}",
        f"%flags{k} = load i32, ptr %fp{k}",
        f"%order{k} = and i32 %flags{k}, {IN_ORDER}",
        f"%ok{k} = icmp eq i32 %order{k}, {IN_ORDER}",
        f"br i1 %ok{k}, label %good{k}, label %refuse",
        f"good{k}:",
        f"%dp{k} = getelementptr i8, ptr %x{k}, i64 {DATA}",
        f"%data{k} = load ptr, ptr %dp{k}",
    ]
