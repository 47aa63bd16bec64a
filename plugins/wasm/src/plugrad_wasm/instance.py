"""WebAssembly modules in a store, reached through wasmtime's C interface.

``wasmtime.Func.__call__`` takes 60 us. This module instead packs the arguments into the
slots from which wasmtime reads them, and calls the underlying C function: 0.9 us.

This is a trick: wasmtime's C interface is stable, but this module reaches the C objects
through private names of wasmtime's Python package (``_ffi``, ``_func``, ``_instance``,
``_from_raw``), which may change.

- *Fallback* for calls: ``Func.__call__``, selected by ``PLUGRAD_WASM_PLAIN=1``.
  ``test_tricks`` runs kernels, errors and threads with it. Host functions and exports
  have no fallback.
- *Tried with*: wasmtime 50.0.
- *Delete it* when ``Func.__call__`` takes less than 5 us, or if
  ``benchmarks/tricks.py`` shows a speedup below 1.3.

Contents: ``engine`` (the compiler); ``HostFunction``; ``on_large_stack``; ``Instance``
(``prepare`` a frequent call, ``invoke`` a rare one); ``Library`` and ``WasmProgram``,
our own modules; errors; memories.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import wasmtime
from wasmtime import _ffi as ffi
from wasmtime._extern import wrap_extern

# A slot has 16 bytes. "q" is used for signed and unsigned i32: only the lower half is
# read.
_SLOTS = {"i32": "q8x", "i64": "q8x", "f32": "f12x", "f64": "d8x"}
_POINTER = ctypes.c_void_p
# No argument types are declared: converting arguments of the right types takes 0.1 us.
_call = ctypes.CFUNCTYPE(_POINTER)(
    ctypes.cast(ffi.dll.wasmtime_func_call_unchecked, _POINTER).value or 0
)
_delete_trap = ctypes.CFUNCTYPE(None, _POINTER)(
    ctypes.cast(ffi.dll.wasm_trap_delete, _POINTER).value or 0
)
_new_host_function = ctypes.CFUNCTYPE(None, *[_POINTER] * 6)(
    ctypes.cast(ffi.dll.wasmtime_func_new, _POINTER).value or 0
)
# The type of a host function: it returns a trap or NULL, and ignores its arguments.
_host = ctypes.CFUNCTYPE(_POINTER)


@functools.cache
def engine(shared: bool, reservation: int | None) -> wasmtime.Engine:
    """Return the compiler of our own modules."""

    def configure(config: wasmtime.Config) -> None:
        # A forked child would not have the compiler's threads, but would wait for them.
        config.parallel_compilation = False
        config.wasm_threads = config.shared_memory = shared
        if reservation is not None:
            config.memory_reservation = reservation
            config.memory_may_move = False

    return new_engine(configure)


def new_engine(configure: Callable[[wasmtime.Config], None]) -> wasmtime.Engine:
    """Return a compiler; wasmtime caches compiled modules on disk."""
    for cache in (True, False):
        config = wasmtime.Config()
        configure(config)
        try:
            if cache:
                config.cache = True
            return wasmtime.Engine(config)
        except wasmtime.WasmtimeError as error:  # there may be no writable folder
            refused = error
    raise refused


class HostFunction:
    """A function without arguments or results that a module can import.

    Args:
        address: The address of a C function. It may return a trap, which wasmtime then
            owns.
        first: The first argument of the C function, as a number.
        keep: An object to keep alive with the host function.

    """

    def __init__(self, address: int, first: int = 0, keep: object = None) -> None:
        self._address = address
        self._first = first
        self._keep = keep

    @classmethod
    def calling(cls, function: Callable[[], object]) -> HostFunction:
        """Return a host function that calls a Python function.

        There are two callbacks. If the function raises, the inner callback reports it
        and continues; it has no result. If the outer callback raised, it would have no
        result either, and wasmtime would mistake an undefined value for a trap.
        Therefore the outer callback runs no Python code.
        """
        outer = _host(ctypes.PYFUNCTYPE(None)(function))
        return cls(ctypes.cast(outer, _POINTER).value or 0, keep=outer)

    @classmethod
    def failing(cls) -> HostFunction:
        """Return a host function that traps without a processor signal."""
        address = ctypes.cast(ffi.dll.wasmtime_trap_new_code, _POINTER).value or 0
        return cls(address, wasmtime.TrapCode.INTERRUPT.value)

    def within(self, store: wasmtime.Store) -> wasmtime.Func:
        """Return the host function as a wasmtime function of a store."""
        found = ffi.wasmtime_func_t()
        kind = wasmtime.FuncType([], [])
        _new_host_function(
            ctypes.cast(store._context(), _POINTER),
            ctypes.cast(kind.ptr(), _POINTER),
            self._address,
            self._first,
            None,
            ctypes.addressof(found),
        )
        return wasmtime.Func._from_raw(found)


STACK_MIN_BYTES = 1 << 23  # the usual stack size of a main thread
_sizes = threading.Lock()
T = TypeVar("T")


def on_large_stack(function: Callable[[], T]) -> T:
    """Call a function on a large stack, and return its result.

    The compiler needs 100 KiB or more, and a module may use 512 KiB before its stack
    counts as exhausted, but a Python thread may have only 32 KiB. A stack overflow
    would end the process. The main thread has enough; other threads wait for a new
    thread with a stack of known size.
    """
    if threading.current_thread() is threading.main_thread():
        return function()
    found: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(function())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="plugrad-wasm-stack")
    with _sizes:  # another thread started meanwhile also gets a large stack
        given = threading.stack_size()
        if 0 < given < STACK_MIN_BYTES:  # 0: the default of the system
            threading.stack_size(STACK_MIN_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(given)
    thread.join()
    if raised:
        raise raised[0]
    return found[0]


def _call_plainly(
    store: wasmtime.Store, function: wasmtime.Func, layout: struct.Struct, slots: Any
) -> Exception | None:
    """Call a function through wasmtime's package; return the error if it fails."""
    try:
        found = function(store, *layout.unpack_from(slots, 0))
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        return error
    for kind in function.type(store).results:
        struct.pack_into(f"<{_SLOTS[str(kind)]}", slots, 0, found)
    return None


class _Trap(_POINTER):
    """The memory for the trap of a call; keeps alive what the call needs."""

    keep: tuple[Any, ...]


class Instance:
    """A module in a store, for one thread at a time."""

    def __init__(
        self, store: wasmtime.Store, module: wasmtime.Module, externs: list[Any]
    ) -> None:
        self.store = store
        self._instance = wasmtime.Instance(store, module, externs)

    def export(self, name: str) -> Any:
        """Return an export, or None; listing all exports would take 8 ms."""
        found = ffi.wasmtime_extern_t()
        key = name.encode()
        if not ffi.wasmtime_instance_export_get(
            self.store._context(),
            ctypes.byref(self._instance._instance),
            ctypes.create_string_buffer(key, len(key)),
            len(key),
            ctypes.byref(found),
        ):
            return None
        return wrap_extern(found)

    def value(self, name: str) -> int:
        """Return the value of a global."""
        return self.export(name).value(self.store)

    def prepare(self, name: str) -> tuple[Any, Any, Any, Any]:
        """Return everything that is needed to call an exported function.

        Returns:
            Four objects: a function that takes the arguments; a function that runs the
            call and returns an error; the slots, which then contain the result; and the
            memory for a trap. All are valid as long as the last one is alive.

        """
        function = self.export(name)
        kind = function.type(self.store)
        count = max(1, len(kind.params), len(kind.results))
        layout = struct.Struct("<" + "".join(_SLOTS[str(p)] for p in kind.params))
        slots = (ctypes.c_int64 * (2 * count))()
        trap = _Trap()
        trap.keep = (self, function, slots)
        fixed = (
            ctypes.cast(self.store._context(), _POINTER),
            _POINTER(ctypes.addressof(function._func)),
            _POINTER(ctypes.addressof(slots)),
            ctypes.c_size_t(count),
            _POINTER(ctypes.addressof(trap)),
        )
        pack = functools.partial(layout.pack_into, slots, 0)
        start = functools.partial(_call, *fixed)
        if os.environ.get("PLUGRAD_WASM_PLAIN", "0") != "0":
            given = self.store, function, layout, slots
            start = functools.partial(_call_plainly, *given)
        return pack, start, slots, trap

    def invoke(self, name: str, *args: int) -> int:
        """Call an exported function that is rarely called, and return its result.

        Raises:
            wasmtime.Trap: The function trapped.

        """
        pack, start, slots, trap = self.prepare(name)
        pack(*args)
        error = start()
        if error or trap.value:
            raise as_exception(error, trap)
        return slots[0] & 0xFFFFFFFF


# --- our own modules -------------------------------------------------------------

PAGES = 65535  # pages of 64 KiB: the linker's maximum for a memory
STACK_TOP = 1 << 20  # first thread's stack; as in hatch_build.py and runtime.c
TLS = 64  # maximum bytes of thread-local data of a module


MODULES = Path(__file__).parent / "modules"


@functools.cache
def exported() -> frozenset[str]:
    """Return the names of all kernels; all builds of our modules export the same."""
    return frozenset(
        json.loads((MODULES / "plain" / "index.json").read_text())["owners"]
    )


class Library:
    """Our modules, each compiled when it is first needed.

    Attributes:
        heap: The address at which the data of all modules ends and the heap begins.
        owners: The name of the module that exports a function, by the function's name.
        names: The name of a module by the address that identifies it in C.

    """

    def __init__(self, engine: wasmtime.Engine, folder: Path, hosts: Any) -> None:
        index = json.loads((folder / "index.json").read_text())
        self.engine = engine
        self.hosts = hosts
        self._folder = folder
        self.heap: int = index["heap"]
        self.owners: dict[str, str] = index["owners"]
        self.names: dict[int, str] = {}
        self._modules: dict[str, wasmtime.Module] = {}

    def module(self, name: str) -> wasmtime.Module:
        """Return a compiled module."""
        if name not in self._modules:
            content = (self._folder / f"{name}.wasm").read_bytes()
            self._modules[name] = on_large_stack(
                lambda: wasmtime.Module(self.engine, content)
            )
        return self._modules[name]

    def memory_type(self, shared: bool) -> wasmtime.MemoryType:
        """Return the type of the memory that all modules share."""
        limits = wasmtime.Limits(self.heap >> 16, PAGES)
        return wasmtime.MemoryType(limits, shared=shared)


class WasmProgram:
    """Our modules with one memory, for one thread; instantiated when needed.

    Args:
        library: The modules.
        shared: The memory; None: create a memory for this thread only.
        block: For a worker: where its thread-local data begins and its stack ends.

    """

    def __init__(
        self,
        library: Library,
        shared: wasmtime.SharedMemory | None,
        block: tuple[int, int] | None = None,
    ) -> None:
        self._library, self._block = library, block
        # With shared memory, each instance has its own store. If two instances were in
        # one store, wasmtime could not tell which memory an invalid pointer belongs to,
        # and would panic.
        self.store = None if shared else wasmtime.Store(library.engine)
        self.memory: Any = shared
        if self.store:
            self.memory = wasmtime.Memory(self.store, library.memory_type(False))
        self.instances: dict[str, Instance] = {}

    def instance(self, name: str) -> Instance:
        """Return an instance of a module, ready to run."""
        if name in self.instances:
            return self.instances[name]
        module = self._library.module(name)
        store = self.store or wasmtime.Store(self._library.engine)
        hosts = self._library.hosts
        externs = [
            self.memory if i.name == "memory" else hosts[i.name].within(store)
            for i in module.imports
        ]
        found = Instance(store, module, externs)
        if self._block:
            data = self._block[0] + TLS * (1 + len(self.instances))
            found.invoke("__wasm_init_tls", data)
            self._reset(found)
        elif not self.store:
            self._library.names[found.value("this_module")] = name
        self.instances[name] = found  # last, because a signal may interrupt the above
        return found

    def reset(self, name: str) -> None:
        """Reset the stack pointer of a module after a trap."""
        self._reset(self.instances[name])

    def _reset(self, found: Instance) -> None:
        top = self._block[1] if self._block else STACK_TOP
        found.export("__stack_pointer").set_value(found.store, top)


# --- errors ----------------------------------------------------------------------


def as_exception(error: int | Exception | None, trap: Any) -> Exception:
    """Return a wasmtime error or trap as an exception."""
    if isinstance(error, Exception):
        return error
    if error:
        failed = ctypes.cast(error, ctypes.POINTER(ffi.wasmtime_error_t))
        return wasmtime.WasmtimeError._from_ptr(failed)
    trapped = ctypes.cast(trap, ctypes.POINTER(ffi.wasm_trap_t))
    trap.value = None
    return wasmtime.Trap._from_ptr(trapped)


def free_trap(trap: int | None) -> None:
    """Free a trap, if there is one, without creating a Python object for it.

    A Python object would have a finalizer in Python, which signals can interrupt.
    """
    if trap:
        _delete_trap(_POINTER(trap))


# --- memories --------------------------------------------------------------------


class OwnMemory:
    """A memory that is not shared, with the methods of a shared memory."""

    def __init__(self, memory: wasmtime.Memory, store: wasmtime.Store) -> None:
        self.grow = functools.partial(memory.grow, store)
        self.data_len = functools.partial(memory.data_len, store)
        self.data_ptr = functools.partial(memory.data_ptr, store)


class SharedMemory(wasmtime.SharedMemory):
    """A shared memory for imports; the class of wasmtime 50 wraps its pointer twice."""

    def _as_extern(self) -> ffi.wasmtime_extern_t:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)
