"""Compiles a module to machine code for this processor, and loads it."""

from __future__ import annotations

import functools
import hashlib
import platform
from typing import NamedTuple

import llvmlite  # type: ignore[import-untyped]
import llvmlite.binding as llvm  # type: ignore[import-untyped]

from . import cache
from .code import Module

# Levels of the code generator. QUICK takes a quarter of the time; its code is slower,
# but gives the same bits. No optimization passes run.
LEVEL = 1
QUICK = 0
AVX512_FEATURES = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "fma"}
MAX_CACHED_MODULES = 256  # loaded modules


class Processor(NamedTuple):
    """The processor for which machine code is generated."""

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


@functools.lru_cache(MAX_CACHED_MODULES)
def _loaded(text: str, level: int) -> llvm.ExecutionEngine:
    """Return the engine that owns the machine code of a module."""
    code = _machine_code(text, level)
    empty = llvm.parse_assembly("")
    engine = llvm.create_mcjit_compiler(empty, _new_machine(level))  # owns both
    engine.set_object_cache(getbuffer_func=lambda module: code)
    engine.finalize_object()
    return engine


def compiled(module: Module, level: int = LEVEL) -> llvm.ExecutionEngine:
    """Return the engine that owns the machine code of a module.

    Args:
        module: The module to compile.
        level: The level of the code generator: ``LEVEL`` or ``QUICK``.

    """
    return _loaded(str(module), level)
