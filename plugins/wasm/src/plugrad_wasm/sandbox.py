"""Kernels from modules of the user, each in a sandbox; see ``load_kernel``.

The module gets a ``plugrad_call`` (include/plugrad_kernel.h) and all that it points to
in pages behind those that it has used so far. What it writes into its memory is never
believed: results are read from where the outputs were placed.

Map: ``SandboxedKernel``: loading, a call, its end; ``Clock``; ``numbers`` and
``layout``, which make the bytes of a call; what a module may have; forks.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
import struct
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import wasmtime
from plugrad import BackendError
from plugrad.plugin import Kernel, Spec, contracts

from .arrays import download, empty, writable
from .instance import Instance, new_engine, taken
from .launch import NUMBERS

VERSION = 1  # PLUGRAD_VERSION
PAGE = 1 << 16
NOT_IMPLEMENTED = 1  # a result
MESSAGE = 1000  # bytes that are read of one, at most


class SandboxedKernel:
    """A kernel whose implementation is a function of a WebAssembly module."""

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | bytearray,
        kernel: str | Kernel,
        export: str | None,
        memory: int,
        time_limit: float | None,
    ) -> None:
        self._contract = _contract(kernel)
        if isinstance(source, bytes | bytearray):
            data, self._name = bytes(source), "a module"
        else:
            data, self._name = Path(source).read_bytes(), Path(source).name
        if memory < PAGE:
            raise ValueError(f"load_kernel: memory={memory}: give {PAGE} bytes or more")
        if time_limit is not None and not 0 < time_limit <= threading.TIMEOUT_MAX:
            raise ValueError(
                f"load_kernel: time_limit={time_limit}: give seconds or None"
            )
        self._limit, self._time_limit = memory, time_limit
        engine = new_engine(self._configure)
        try:
            self._module = wasmtime.Module(engine, data)
        except wasmtime.WasmtimeError as error:
            raise ValueError(
                f"load_kernel: {self._name} cannot be compiled: {_reason(error)}"
            ) from error
        self._engine = engine
        self._export = _checked(self._module, self._name, export)
        self._forked()
        self._open()
        _loaded.add(self)

    def _configure(self, config: wasmtime.Config) -> None:
        # Its threads would be missing in a forked child, which would wait for them.
        config.parallel_compilation = False
        # A sandbox must hold under faulthandler too, which takes the signals away.
        config.signals_based_traps = False
        config.memory_reservation = -(-self._limit // PAGE) * PAGE
        config.memory_guard_size = 0
        config.memory_may_move = False
        config.wasm_threads = config.wasm_memory64 = config.wasm_multi_memory = False
        config.epoch_interruption = self._time_limit is not None

    def __repr__(self) -> str:
        return f"<kernel {self._contract.name}: {self._export} of {self._name}>"

    def _forked(self) -> None:
        """Begin anew: at first, and in a child, where others may have been inside."""
        self._lock = threading.RLock()
        self._busy = False
        self._clock = Clock(self._engine, self._time_limit)
        self._instance: Instance | None = None

    def _open(self) -> Instance:
        """Instantiate the module, and run what it runs at its beginning."""
        store = wasmtime.Store(self._engine)
        store.set_limits(self._limit, 1 << 20, instances=1, tables=16, memories=1)
        with self._clock.running(store):
            try:
                kinds: Any = [i.type for i in self._module.imports]
                externs = [wasmtime.Memory(store, kind) for kind in kinds]
                instance = Instance(store, self._module, list(externs))
                if instance.export("_initialize") is not None:
                    instance.invoke("_initialize")
            except wasmtime.Trap as trap:
                raise self._failed(trap, "its start") from trap
            except wasmtime.WasmtimeError as error:
                raise ValueError(
                    f"load_kernel: {self._name} does not fit into "
                    f"memory={self._limit:,} bytes: {_reason(error)}"
                ) from error
        self._memory = externs[0] if externs else instance.export("memory")
        self._begin = self._end = self._memory.data_len(store)
        self._call = instance.prepare(self._export)
        self._instance = instance
        return instance

    # --- a call ----------------------------------------------------------------------

    def __call__(self, *inputs: Any, **attrs: Any) -> Any:
        """Run the kernel on native arrays of the backend ``wasm``."""
        contract = self._contract
        if any([x is not None and x.dtype.hasobject for x in inputs]):
            return NotImplemented
        specs = tuple([x if x is None else Spec(x.shape, x.dtype) for x in inputs])
        values = tuple([numbers(contract.name, n, attrs[n]) for n in contract.attrs])
        outputs = self._outputs(specs, attrs)
        with self._lock:
            if self._busy:
                raise BackendError(
                    f"wasm: the kernel {contract.name} was called by a signal handler "
                    "or a finalizer while it was running"
                )
            self._busy = True
            try:
                ys = self._run(inputs, specs, outputs, values)
            finally:
                self._busy = False
        return ys[0] if isinstance(ys, tuple) and contract.single else ys

    def _outputs(
        self, specs: tuple[Spec | None, ...], attrs: dict[str, Any]
    ) -> tuple[Spec, ...]:
        """Return what the contract's rule says, if memory can be made of it."""
        if (found := self._contract.out(*specs, **attrs)) is None:  # type: ignore[misc]
            raise ValueError(f"{self._who()}: out= gives no specs for {specs}")
        outputs = (found,) if isinstance(found, Spec) else tuple(found)
        for shape, dtype in outputs:
            most = max(prod(shape) * dtype.itemsize, *shape, 0)
            if min(shape, default=0) < 0 or most > self._limit:
                raise BackendError(
                    f"{self._who()}: an output of shape {shape} and dtype {dtype} does "
                    f"not fit into memory={self._limit:,} bytes"
                )
        return outputs

    def _run(
        self,
        inputs: tuple[Any, ...],
        specs: tuple[Spec | None, ...],
        outputs: tuple[Spec, ...],
        values: tuple[tuple[bytes, bytes | None], ...],
    ) -> Any:
        instance = self._instance or self._open()
        plan = layout(self._begin, specs, outputs, values)
        if plan.end > self._end:
            self._make_room(plan.end - self._begin)
            plan = layout(self._begin, specs, outputs, values)
        whole = self._whole()
        whole[self._begin : self._begin + len(plan.head)] = plan.head
        for x, at in zip(inputs, plan.places, strict=False):
            if x is not None:
                np.ndarray(x.shape, x.dtype, whole, at)[...] = download(x)
        ctypes.memset(ctypes.addressof(whole) + plan.zeros, 0, plan.end - plan.zeros)
        pack, start, slots, trap = self._call
        pack(self._begin)
        with self._clock.running(instance.store):
            error = start()
        if error or trap.value:
            self._instance = None  # its state is anything
            raise self._failed(taken(error, trap), self._export)
        whole, answer = self._whole(), slots[0] & 0xFFFFFFFF
        if answer == NOT_IMPLEMENTED:
            return NotImplemented
        if answer:
            raise BackendError(f"{self._who()}: {_message(whole, answer)}")
        return tuple(
            [
                _copied(whole, spec, at)
                for spec, at in zip(outputs, plan.places[len(inputs) :], strict=True)
            ]
        )

    def _whole(self) -> Any:
        """Return all of the memory, as it is now."""
        store = self._memory_store()
        address = ctypes.addressof(self._memory.data_ptr(store).contents)
        return (ctypes.c_uint8 * self._memory.data_len(store)).from_address(address)

    def _memory_store(self) -> wasmtime.Store:
        assert self._instance is not None
        return self._instance.store

    def _make_room(self, size: int) -> None:
        """Have ``size`` bytes behind what the module may use."""
        store = self._memory_store()
        have = self._memory.data_len(store)
        if self._end != have:  # the module has grown its memory behind them
            self._begin = have
        pages = -(-(self._begin + size - have) // PAGE)
        try:
            self._memory.grow(store, pages)
        except wasmtime.WasmtimeError as error:
            raise BackendError(
                f"{self._who()}: {size:,} bytes of inputs and outputs do not fit "
                f"beside the {self._begin:,} of the module into memory="
                f"{self._limit:,} bytes; give load_kernel more"
            ) from error
        self._end = have + pages * PAGE

    # --- its end ---------------------------------------------------------------------

    def _who(self) -> str:
        return f"wasm: the kernel {self._contract.name}, {self._export} of {self._name}"

    def _failed(self, cause: Exception, where: str) -> BackendError:
        code = cause.trap_code if isinstance(cause, wasmtime.Trap) else None
        what = _reason(cause)
        if code is wasmtime.TrapCode.INTERRUPT:
            what = f"it took longer than time_limit={self._time_limit} s"
        error = BackendError(
            f"wasm: the kernel {self._contract.name} failed in {where} of "
            f"{self._name}: {what}"
        )
        error.__cause__ = cause
        return error


class Clock:
    """Ends what runs in an engine when the time is over."""

    def __init__(self, engine: wasmtime.Engine, seconds: float | None) -> None:
        self._engine, self._seconds = engine, seconds
        self._lock = threading.Lock()
        self._run = 0

    @contextmanager
    def running(self, store: wasmtime.Store) -> Generator[None]:
        """Give what runs inside the time that there is."""
        if self._seconds is None:
            yield
            return
        store.set_epoch_deadline(1)
        timer = threading.Timer(self._seconds, self._over, (self._run,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            with self._lock:
                self._run += 1
            timer.cancel()

    def _over(self, run: int) -> None:
        with self._lock:
            if run == self._run:  # and not a later one
                self._engine.increment_epoch()


# --- the bytes of a call ---------------------------------------------------------


def numbers(kernel: str, name: str, value: Any) -> tuple[bytes, bytes | None]:
    """Return an attribute as doubles, and as a text if it is one.

    Raises:
        TypeError: It is neither numbers nor text, or an integer that no double holds.

    """
    if isinstance(value, str):
        return b"", value.encode() + b"\0"
    flat: list[float] = []

    def add(part: Any) -> None:
        if isinstance(part, bool | int | float | np.number | np.bool):
            if float(part) != part and part == part:
                raise TypeError(f"{kernel}: {name}={value!r}: {part} is no float64")
            flat.append(float(part))
        elif isinstance(part, np.dtype):
            flat.append(NUMBERS[part])
        elif isinstance(part, tuple | list):
            for each in part:
                add(each)
        elif dataclasses.is_dataclass(part) and not isinstance(part, type):
            for field in dataclasses.fields(part):
                add(getattr(part, field.name))
        elif part is not None:
            raise TypeError(
                f"{kernel}: {name}={value!r}: a WebAssembly kernel takes numbers, "
                f"dtypes, tuples of these, or one str"
            )

    add(value)
    return struct.pack(f"<{len(flat)}d", *flat), None


class Layout(NamedTuple):
    """What is written at the beginning, and where the elements of each tensor lie."""

    head: bytes
    places: tuple[int, ...]
    zeros: int  # the outputs begin here
    end: int


@functools.lru_cache(maxsize=1024)
def layout(
    begin: int,
    inputs: tuple[Spec | None, ...],
    outputs: tuple[Spec, ...],
    values: tuple[tuple[bytes, bytes | None], ...],
) -> Layout:
    """Return the bytes of a ``plugrad_call`` at the address ``begin``."""
    tensors = [*inputs, *outputs]
    first_attr = 28 + 20 * len(tensors)
    head = bytearray(first_attr + 12 * len(values))

    def place(data: bytes, unit: int) -> int:
        head.extend(bytes(-len(head) % unit))
        head.extend(data)
        return begin + len(head) - len(data)

    for i, (doubles, text) in enumerate(values):
        at, count = place(doubles, 8), len(doubles) // 8
        words = (at, count, 0 if text is None else place(text, 1))
        struct.pack_into("<3I", head, first_attr + 12 * i, *words)
    shapes = [
        place(struct.pack(f"<{len(t.shape)}I", *t.shape), 4) if t else 0
        for t in tensors
    ]
    at = zeros = _aligned(begin + len(head))
    places = []
    for i, (tensor, shape) in enumerate(zip(tensors, shapes, strict=True)):
        if i == len(inputs):
            zeros = at
        places.append(at)
        if tensor is None:
            continue
        size = prod(tensor.shape)
        record = (at, shape, len(tensor.shape), size, NUMBERS[tensor.dtype])
        struct.pack_into("<5I", head, 28 + 20 * i, *record)
        at = _aligned(at + size * tensor.dtype.itemsize)
    counts = (VERSION, len(inputs), len(outputs), len(values))
    pointers = (28, 28 + 20 * len(inputs), first_attr)
    struct.pack_into("<7I", head, 0, *counts, *[begin + p for p in pointers])
    return Layout(bytes(head), tuple(places), zeros if outputs else at, at)


def _aligned(address: int) -> int:
    return -(-address // 16) * 16


def _copied(whole: Any, spec: Spec, at: int) -> Any:
    values: Any = np.ndarray(spec.shape, spec.dtype, whole, at)
    if spec.dtype.kind == "b":  # bytes of any value become 0 and 1
        values = values.view(np.uint8) != 0
    native = empty(spec.shape, spec.dtype)
    writable(native)[...] = values
    return native


def _message(whole: Any, address: int) -> str:
    text = bytes(whole[address : address + MESSAGE]).partition(b"\0")[0]
    return text.decode(errors="replace") or f"it returned {address}, which is no text"


# --- what a module may have ------------------------------------------------------


def _contract(kernel: str | Kernel) -> Kernel:
    if isinstance(kernel, str):
        known = contracts()
        if kernel not in known:
            raise ValueError(
                f"load_kernel: unknown kernel {kernel!r}; give its contract, a Kernel"
            )
        kernel = known[kernel]
    elif not isinstance(kernel, Kernel):
        raise TypeError(f"load_kernel: expected a Kernel or a name, got {kernel!r}")
    if kernel.out is None:
        raise ValueError(
            f"load_kernel: {kernel} has no out rule, by which the outputs are made; "
            "give the contract out="
        )
    return kernel


def _checked(module: wasmtime.Module, name: str, export: str | None) -> str:
    """Return the name of the function, after a look at imports and exports."""
    for i in module.imports:
        if not isinstance(i.type, wasmtime.MemoryType):
            raise ValueError(
                f"load_kernel: {name} imports {i.module}.{i.name}; only a memory may "
                "be imported: link what it needs into the module"
            )
    exports = {e.name: e.type for e in module.exports}
    own = isinstance(exports.get("memory"), wasmtime.MemoryType)
    if not module.imports and not own:
        raise ValueError(f"load_kernel: {name} exports no memory as 'memory'")
    functions = {n: t for n, t in exports.items() if isinstance(t, wasmtime.FuncType)}
    names = [n for n in functions if not n.startswith("_")]
    if export is None and len(names) == 1:
        export = names[0]
    if export is None or export not in functions:
        asked = "export= is needed" if export is None else f"no function {export!r}"
        raise ValueError(
            f"load_kernel: {name}: {asked}; it exports {', '.join(names) or 'none'}"
        )
    kind = functions[export]
    params, results = [str(p) for p in kind.params], [str(r) for r in kind.results]
    if (params, results) != (["i32"], ["i32"]):
        raise ValueError(
            f"load_kernel: {name}: {export} is ({', '.join(params)}) -> "
            f"({', '.join(results)}); a kernel is (i32) -> (i32), see plugrad_kernel.h"
        )
    return export


def _reason(error: Exception) -> str:
    """Return what a message of wasmtime says: the cause, or what stands first."""
    lines = str(error).strip().splitlines()
    return lines[-1 if "Caused by:" in lines else 0].strip()


# --- forks -----------------------------------------------------------------------

_loaded: weakref.WeakSet[SandboxedKernel] = weakref.WeakSet()


def _in_child() -> None:
    for kernel in list(_loaded):
        kernel._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
