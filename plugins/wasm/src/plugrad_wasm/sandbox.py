"""Kernels from user-provided modules, each in a sandbox; see ``load_kernel``.

The module gets a ``plugrad_call`` (include/plugrad_kernel.h) and everything that it
points to in new pages after those that the module has used so far. Addresses that the
module writes are not trusted: results are read from where the outputs were placed.

Contents: ``SandboxedKernel``: loading, a call, its errors; ``Clock``; results; forks.
``checks`` contains the checks of a module, and ``layout`` the bytes of a call.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import wasmtime
from plugrad import BackendError
from plugrad.plugin import Kernel, Spec

from .arrays import download, empty, writable
from .checks import (
    MESSAGE_MAX_CHARACTERS,
    PAGE,
    checked,
    compiled,
    contract,
    limits,
    printable,
    reason,
)
from .instance import Instance, as_exception, new_engine, on_large_stack
from .layout import layout, numbers
from .runtime import Machine

NOT_IMPLEMENTED = 1  # PLUGRAD_NOT_IMPLEMENTED, a return value


class SandboxedKernel:
    """A kernel whose implementation is a function of a WebAssembly module."""

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | bytearray,
        kernel: str | Kernel,
        export: str | None,
        memory: int,
        time_limit: float | None,
        module_size: int,
    ) -> None:
        self._contract = contract(kernel)
        if isinstance(source, bytes | bytearray):
            data = bytes(source)
            self._name = "a module"
        else:
            data = Path(source).read_bytes()
            self._name = printable(Path(source).name)
        limits(memory, time_limit)
        self._limit, self._time_limit = memory, time_limit
        self._engine = new_engine(self._configure)
        self._module = compiled(self._engine, data, self._name, module_size)
        self._export = checked(self._module, self._name, export)
        self._forked()
        self._open()
        _loaded.add(self)

    def _configure(self, config: wasmtime.Config) -> None:
        # A forked child would not have the compiler's threads, but would wait for them.
        config.parallel_compilation = False
        # The sandbox must also work under faulthandler, which handles the signals.
        config.signals_based_traps = False
        config.memory_reservation = -(-self._limit // PAGE) * PAGE
        config.memory_guard_size = 0
        config.memory_may_move = False
        config.wasm_threads = config.wasm_memory64 = config.wasm_multi_memory = False
        config.epoch_interruption = self._time_limit is not None

    def __repr__(self) -> str:
        return f"<kernel {self._contract.name}: {self._source()}>"

    def _forked(self) -> None:
        """Set the initial state: at the start, and in a forked child."""
        self._lock = threading.RLock()
        self._busy = False
        self._clock = Clock(self._engine, self._time_limit)
        self._instance: Instance | None = None

    def _open(self) -> Instance:
        """Instantiate the module and run its initialization."""
        store = wasmtime.Store(self._engine)
        store.set_limits(self._limit, 1 << 20, instances=1, tables=16, memories=1)
        with self._clock.running(store):
            try:
                kinds: Any = [i.type for i in self._module.imports]
                externs = [wasmtime.Memory(store, kind) for kind in kinds]
                instance = on_large_stack(
                    lambda: Instance(store, self._module, list(externs))
                )
                if instance.export("_initialize") is not None:
                    on_large_stack(lambda: instance.invoke("_initialize"))
            except wasmtime.Trap as trap:
                raise self._failed(trap, "the initialization") from trap
            except wasmtime.WasmtimeError as error:
                raise ValueError(
                    f"load_kernel: {self._name} does not fit into "
                    f"memory={self._limit:,} bytes: {reason(error)}"
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
            except BackendError:
                raise
            except BaseException:  # for example raised by a signal handler
                self._instance = None  # its state is undefined
                raise
            finally:
                self._busy = False
        return ys[0] if isinstance(ys, tuple) and contract.single else ys

    def _outputs(
        self, specs: tuple[Spec | None, ...], attrs: dict[str, Any]
    ) -> tuple[Spec, ...]:
        """Return the specs of the outputs; raise if they do not fit into memory."""
        if (found := self._contract.out(*specs, **attrs)) is None:  # type: ignore[misc]
            raise ValueError(f"{self._label()}: out= gives no specs for {specs}")
        outputs = (found,) if isinstance(found, Spec) else tuple(found)
        for shape, dtype in outputs:
            most = max(prod(shape) * dtype.itemsize, *shape, 0)
            if min(shape, default=0) < 0 or most > self._limit:
                raise BackendError(
                    f"{self._label()}: an output of shape {shape} and dtype {dtype} "
                    f"does not fit into memory={self._limit:,} bytes"
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
        for x, at in zip(inputs, plan.addresses, strict=False):
            if x is not None:
                np.ndarray(x.shape, x.dtype, whole, at)[...] = download(x)
        ctypes.memset(ctypes.addressof(whole) + plan.zeros, 0, plan.end - plan.zeros)
        pack, start, slots, trap = self._call
        pack(self._begin)
        with self._clock.running(instance.store):
            error = on_large_stack(start)
        if error or trap.value:
            self._instance = None  # its state is undefined
            raise self._failed(as_exception(error, trap), self._export)
        machine = next(x.machine for x in inputs if x is not None)
        whole = self._whole()
        answer = slots[0] & 0xFFFFFFFF
        if answer == NOT_IMPLEMENTED:
            return NotImplemented
        if answer:
            raise BackendError(f"{self._label()}: {_message(whole, answer)}")
        return tuple(
            [
                _copied(machine, whole, spec, at)
                for spec, at in zip(outputs, plan.addresses[len(inputs) :], strict=True)
            ]
        )

    def _whole(self) -> Any:
        """Return the whole memory at its current size."""
        store = self._memory_store()
        address = ctypes.addressof(self._memory.data_ptr(store).contents)
        return (ctypes.c_uint8 * self._memory.data_len(store)).from_address(address)

    def _memory_store(self) -> wasmtime.Store:
        assert self._instance is not None
        return self._instance.store

    def _make_room(self, size: int) -> None:
        """Reserve ``size`` bytes after the memory that the module uses."""
        store = self._memory_store()
        have = self._memory.data_len(store)
        if self._end != have:  # the module itself has grown its memory
            self._begin = have
        pages = -(-(self._begin + size - have) // PAGE)
        try:
            self._memory.grow(store, pages)
        except wasmtime.WasmtimeError as error:
            raise BackendError(
                f"{self._label()}: {size:,} bytes of inputs and outputs do not fit "
                f"into memory={self._limit:,} bytes next to the module's own "
                f"{self._begin:,} bytes; give load_kernel more memory"
            ) from error
        self._end = have + pages * PAGE

    # --- errors ----------------------------------------------------------------------

    def _label(self) -> str:
        return f"wasm: the kernel {self._contract.name}, {self._source()}"

    def _source(self) -> str:
        return f"{printable(self._export)} of {self._name}"

    def _failed(self, cause: Exception, where: str) -> BackendError:
        code = cause.trap_code if isinstance(cause, wasmtime.Trap) else None
        what = reason(cause)
        if code is wasmtime.TrapCode.INTERRUPT:
            what = f"it took longer than time_limit={self._time_limit} s"
        error = BackendError(
            f"wasm: the kernel {self._contract.name} failed in {printable(where)} of "
            f"{self._name}: {what}"
        )
        error.__cause__ = cause
        return error


class Clock:
    """Ends a call in an engine when its time limit is reached."""

    def __init__(self, engine: wasmtime.Engine, seconds: float | None) -> None:
        self._engine, self._seconds = engine, seconds
        self._lock = threading.Lock()
        self._run: object = None

    @contextmanager
    def running(self, store: wasmtime.Store) -> Generator[None]:
        """Limit the time of the call within the context."""
        if self._seconds is None:
            yield
            return
        run = object()
        timer = threading.Timer(self._seconds, self._over, (run,))
        timer.daemon = True
        try:
            self._enter(run)
            store.set_epoch_deadline(1)
            timer.start()
            yield
        finally:
            self._enter(None)
            timer.cancel()

    def _enter(self, run: object) -> None:
        with self._lock:
            self._run = run

    def _over(self, run: object) -> None:
        with self._lock:
            if run is self._run:  # no later call has begun
                self._engine.increment_epoch()


# --- results ---------------------------------------------------------------------


def _copied(machine: Machine, whole: Any, spec: Spec, at: int) -> Any:
    values: Any = np.ndarray(spec.shape, spec.dtype, whole, at)
    if spec.dtype.kind == "b":  # nonzero bytes become 1
        values = values.view(np.uint8) != 0
    native = empty(machine, spec.shape, spec.dtype)
    writable(native)[...] = values
    return native


def _message(whole: Any, address: int) -> str:
    text = bytes(whole[address : address + MESSAGE_MAX_CHARACTERS]).partition(b"\0")[0]
    shown = printable(text.decode(errors="replace"))
    return shown or f"it returned {address}, which is not the address of a text"


# --- forks -----------------------------------------------------------------------

_loaded: weakref.WeakSet[SandboxedKernel] = weakref.WeakSet()


def _in_child() -> None:
    for kernel in list(_loaded):
        kernel._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
