"""Compiles programs and caches their binaries."""

from __future__ import annotations

import hashlib
import re
import warnings
from pathlib import Path
from typing import Any

import plugrad as pg
import pyopencl as cl

from . import environment
from ._devices import DeviceInfo


def load(context: Any, info: DeviceInfo, source: str, queue_index: int) -> Any:
    """Return a program from the cache; otherwise compile it and cache its binary.

    Loading a binary takes 2 ms. Building from source takes PoCL 30 ms even if the
    program is in PoCL's own cache.
    """
    handle = info.handles[queue_index]
    options = _options(info.kind, handle)
    parts = (source, *options, handle.name, info.key, cl.VERSION_TEXT)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    file = environment.folder() / "programs" / f"{key}.bin"
    try:
        return _built(cl.Program(context, [handle], [_read_binary(file)]), options)
    except (OSError, ValueError, cl.Error):
        pass  # not cached, damaged, or rejected by the driver
    try:
        built = _built(cl.Program(context, source), options, handle)
    except cl.Error as error:
        raise pg.BackendError(
            f"opencl: {handle.name} does not compile {_name(source)}:\n{_log(error)}"
        ) from error
    (binary,) = [b for b in built.binaries if b]
    try:
        environment.save(file, hashlib.sha256(binary).digest() + binary)
        return _built(cl.Program(context, [handle], [binary]), options)
    except (OSError, cl.Error):
        return built  # it works without the cache


def _read_binary(file: Path) -> bytes:
    """Return the binary in a file; check its hash: PoCL crashes on truncated files."""
    data = file.read_bytes()
    digest, binary = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(binary).digest() != digest:
        raise ValueError(f"opencl: {file} is damaged")
    return binary


_DIGEST = hashlib.sha256().digest_size


def _name(source: str) -> str:
    """Return a name for a program: the file that ``#line`` names, or its kernels."""
    found = re.findall(r'^#line 1 "(.*)"', source, re.MULTILINE)
    found = found or re.findall(r"void (\w+)\(__global", source)
    return ", ".join(dict.fromkeys(found))


def _log(error: Exception) -> str:
    """Return the compiler's log, without the text that pyopencl adds."""
    noise = ("Build on ", "====", "(options:", "(source saved")
    output = str(error).partition("Build on ")[2].splitlines()[1:]
    lines = [line for line in output if line and not line.startswith(noise)]
    return "\n".join(lines) or str(error)


def _options(kind: str, handle: Any) -> list[str]:
    """Return the compiler options; without them, GPUs divide with errors of 2.5 ulp."""
    options = ["-w"]
    rounds = cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
    if kind != "cpu" and handle.single_fp_config & rounds:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    return options


def _built(program: Any, options: list[str], *handles: Any) -> Any:
    """Build the program, ignoring compiler warnings, which only tests look at."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(options, devices=list(handles) or None)
