"""WebAssembly modules in a store, reached through wasmtime's C interface.

``wasmtime.Func.__call__`` costs 60 us. Here the arguments are packed into the slots
from which wasmtime takes them, and the C function behind is called: 0.9 us.

It is a trick: wasmtime's C interface is promised, but not the way from objects of its
package for Python to those of C (``_ffi``, ``_func``, ``_instance``, ``_from_raw``).

- *Fallback* for calls: ``Func.__call__``, which ``PLUGRAD_WASM_PLAIN=1`` chooses.
  ``test_tricks`` runs kernels, errors and threads on it. Host functions and exports
  have none.
- *Tried with*: wasmtime 50.0.
- *Delete it* when ``Func.__call__`` takes less than 5 us, or if
  ``benchmarks/tricks.py`` shows less than a factor of 1.3.

Map: ``engine`` (the compiler); ``HostFunction``; ``on_large_stack``; ``Instance``
(``prepare`` a call, or ``invoke`` one that is rare); ``Library`` and ``Program``, our
own modules; errors; memories.
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

# A slot has 16 bytes. "q" takes i32 of either sign, as only the lower half counts.
_SLOTS = {"i32": "q8x", "i64": "q8x", "f32": "f12x", "f64": "d8x"}
_POINTER = ctypes.c_void_p
# Without types of arguments: to convert what has the right ones takes 0.1 us.
_call = ctypes.CFUNCTYPE(_POINTER)(
    ctypes.cast(ffi.dll.wasmtime_func_call_unchecked, _POINTER).value or 0
)
_delete_trap = ctypes.CFUNCTYPE(None, _POINTER)(
    ctypes.cast(ffi.dll.wasm_trap_delete, _POINTER).value or 0
)
_new_host_function = ctypes.CFUNCTYPE(None, *[_POINTER] * 6)(
    ctypes.cast(ffi.dll.wasmtime_func_new, _POINTER).value or 0
)
# What wasmtime calls for a host function: it returns a trap or nothing, and leaves the
# arguments where they are.
_host = ctypes.CFUNCTYPE(_POINTER)


@functools.cache
def engine(shared: bool, reservation: int | None) -> wasmtime.Engine:
    """Return the compiler of our own modules."""

    def configure(config: wasmtime.Config) -> None:
        # Its threads would be missing in a forked child, which would wait for them.
        config.parallel_compilation = False
        config.wasm_threads = config.shared_memory = shared
        if reservation is not None:
            config.memory_reservation = reservation
            config.memory_may_move = False

    return new_engine(configure)


def new_engine(configure: Callable[[wasmtime.Config], None]) -> wasmtime.Engine:
    """Return a compiler; compiled modules are kept in wasmtime's cache on disk."""
    for cache in (True, False):
        config = wasmtime.Config()
        configure(config)
        try:
            if cache:
                config.cache = True
            return wasmtime.Engine(config)
        except wasmtime.WasmtimeError as error:  # there may be no folder to write to
            refused = error
    raise refused


class HostFunction:
    """What a module imports as a function without arguments and results.

    Args:
        address: Of a function of C. It may return a trap, which wasmtime then owns.
        first: Its first argument, as a number.
        keep: What has to live as long.

    """

    def __init__(self, address: int, first: int = 0, keep: object = None) -> None:
        self._address = address
        self._first = first
        self._keep = keep

    @classmethod
    def calling(cls, function: Callable[[], object]) -> HostFunction:
        """Return a host function that calls a Python function.

        If it raises, the inner callback says so and goes on; it has no result. The
        outer one would leave none either, and wasmtime would take what lies in its
        place for a trap: so that one runs no code of Python, which could raise.
        """
        outer = _host(ctypes.PYFUNCTYPE(None)(function))
        return cls(ctypes.cast(outer, _POINTER).value or 0, keep=outer)

    @classmethod
    def failing(cls) -> HostFunction:
        """Return one that ends in a trap, without a signal of the processor."""
        address = ctypes.cast(ffi.dll.wasmtime_trap_new_code, _POINTER).value or 0
        return cls(address, wasmtime.TrapCode.INTERRUPT.value)

    def within(self, store: wasmtime.Store) -> wasmtime.Func:
        """Return the host function for a store."""
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


STACK_MIN_BYTES = 1 << 23  # of a Python thread, as large as that of a main thread
_sizes = threading.Lock()
T = TypeVar("T")


def on_large_stack(function: Callable[[], T]) -> T:
    """Call a function on a large stack, and return its result.

    The compiler needs 100 KiB and more, and a module may use 512 KiB before its stack
    counts as exhausted; a thread of Python may have 32. What does not fit ends the
    process. The first thread has enough; others wait for one of known size.
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
    with _sizes:  # another thread that begins meanwhile has a large one, too
        given = threading.stack_size()
        if 0 < given < STACK_MIN_BYTES:  # 0: what the system gives
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
    """Call a function through wasmtime's package; return the error that ended it."""
    try:
        found = function(store, *layout.unpack_from(slots, 0))
    except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
        return error
    for kind in function.type(store).results:
        struct.pack_into(f"<{_SLOTS[str(kind)]}", slots, 0, found)
    return None


class _Trap(_POINTER):
    """The place for the trap of a call; keeps alive what the call needs."""

    keep: tuple[Any, ...]


class Instance:
    """A module in a store, for one thread at a time."""

    def __init__(
        self, store: wasmtime.Store, module: wasmtime.Module, externs: list[Any]
    ) -> None:
        self.store = store
        self._instance = wasmtime.Instance(store, module, externs)

    def export(self, name: str) -> Any:
        """Return an export, or None; listing all exports would cost 8 ms."""
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
        """Return everything that a call of an exported function needs.

        That is: what takes its arguments, what starts it and returns an error, the
        slots, in which the result is, and where a trap is left. All are good as long as
        the last one lives.
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
        """Call an exported function that is not called often, and return its result.

        Raises:
            wasmtime.Trap: It ended early.

        """
        pack, start, slots, trap = self.prepare(name)
        pack(*args)
        error = start()
        if error or trap.value:
            raise taken(error, trap)
        return slots[0] & 0xFFFFFFFF


# --- our own modules -------------------------------------------------------------

PAGES = 65535  # of 64 KiB: the most that the linker lets a memory have
STACK_TOP = 1 << 20  # of the first thread; as in hatch_build.py and runtime.c
TLS = 64  # bytes of a thread's own data, at most


MODULES = Path(__file__).parent / "modules"


@functools.cache
def exported() -> frozenset[str]:
    """Return the names of all kernels, which all builds of our modules export."""
    return frozenset(
        json.loads((MODULES / "plain" / "index.json").read_text())["owners"]
    )


class Library:
    """Our modules, each compiled when it is first needed.

    Attributes:
        heap: Where the data of all of them ends.
        owners: The module that exports a function, by the function's name.
        names: The module by the address that it goes by in C.

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
        """Return a module in machine code."""
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


class Program:
    """Our modules on one memory, for one thread; each an instance when it is needed.

    Args:
        library: Where they are.
        shared: The memory; None makes one for this thread alone.
        block: Of a worker, where its own data begins and its stack ends.

    """

    def __init__(
        self,
        library: Library,
        shared: wasmtime.SharedMemory | None,
        block: tuple[int, int] | None = None,
    ) -> None:
        self._library, self._block = library, block
        # With shared memory each has a store of its own: of two instances in one store,
        # wasmtime could not say whose memory a wild pointer missed, and would panic.
        self.store = None if shared else wasmtime.Store(library.engine)
        self.memory: Any = shared
        if self.store:
            self.memory = wasmtime.Memory(self.store, library.memory_type(False))
        self.instances: dict[str, Instance] = {}

    def instance(self, name: str) -> Instance:
        """Return a module that is ready to run."""
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
        self.instances[name] = found  # only now: a signal may have ended it before
        return found

    def reset(self, name: str) -> None:
        """Reset the stack pointer of a module, after a trap."""
        self._reset(self.instances[name])

    def _reset(self, found: Instance) -> None:
        top = self._block[1] if self._block else STACK_TOP
        found.export("__stack_pointer").set_value(found.store, top)


# --- errors ----------------------------------------------------------------------


def taken(error: int | Exception | None, trap: Any) -> Exception:
    """Return an error or trap of wasmtime as an exception."""
    if isinstance(error, Exception):
        return error
    if error:
        failed = ctypes.cast(error, ctypes.POINTER(ffi.wasmtime_error_t))
        return wasmtime.WasmtimeError._from_ptr(failed)
    trapped = ctypes.cast(trap, ctypes.POINTER(ffi.wasm_trap_t))
    trap.value = None
    return wasmtime.Trap._from_ptr(trapped)


def drop(trap: int | None) -> None:
    """Free a trap, if there is one, without creating a Python object for it.

    Such an object has a finalizer in Python, at which signals strike, too.
    """
    if trap:
        _delete_trap(_POINTER(trap))


# --- memories --------------------------------------------------------------------


class OwnMemory:
    """A memory that is not shared, with the methods of one that is."""

    def __init__(self, memory: wasmtime.Memory, store: wasmtime.Store) -> None:
        self.grow = functools.partial(memory.grow, store)
        self.data_len = functools.partial(memory.data_len, store)
        self.data_ptr = functools.partial(memory.data_ptr, store)


class SharedMemory(wasmtime.SharedMemory):
    """One that can be imported: wasmtime 50 wraps the pointer once too often."""

    def _as_extern(self) -> ffi.wasmtime_extern_t:
        union = ffi.wasmtime_extern_union(sharedmemory=self.ptr())
        return ffi.wasmtime_extern_t(ffi.WASMTIME_EXTERN_SHAREDMEMORY, union)
