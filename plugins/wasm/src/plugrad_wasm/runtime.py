"""The machine: the modules that run kernels, their memory, and the workers.

Contents: ``Machine``: opening; memory and calls (``kernel`` returns a caller); handling
of kernels that end early; workers and forks. ``Callers`` and ``Cached`` are its tables.
Each array refers to the machine whose memory contains it. Importing this module starts
nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import wasmtime
from plugrad import BackendError

from . import guard
from .heap import Heap
from .instance import (
    MODULES,
    PAGES,
    HostFunction,
    Instance,
    Library,
    OwnMemory,
    SharedMemory,
    WasmProgram,
    as_exception,
    engine,
    free_trap,
)

Caller = Callable[..., None]
P = ParamSpec("P")
T = TypeVar("T")
VARIABLE = "PLUGRAD_WASM_THREADS"
MAX_THREADS = 64  # the same as in plugrad.h
STACK = 1 << 18  # bytes, per worker
POOL = 64  # the address of until_poll, failure and interrupted: see runtime.c
POLL_INTERVAL_S = 0.05  # time between two checks for signals


def requested_threads() -> int:
    """Return the number of threads from the environment, or one per processor."""
    text = os.environ.get(VARIABLE)
    if text is None:
        affinity = getattr(os, "sched_getaffinity", None)
        count = len(affinity(0)) if affinity else os.cpu_count() or 1
        return min(count, MAX_THREADS)
    if not text.strip().isdecimal() or not 1 <= int(text) <= MAX_THREADS:
        raise ValueError(f"{VARIABLE}={text}: use a number from 1 to {MAX_THREADS}")
    return int(text)


class _Poll:
    """A callable without a Python frame, which could exceed the recursion limit."""

    __slots__ = ("__call__",)
    __call__: Callable[[], None]


class Callers(dict[str, Caller]):
    """The callers of a machine's kernels, by the names of the kernels in C."""

    def __init__(self, kernel: Callable[[str], Caller]) -> None:
        self._kernel = kernel

    def __missing__(self, name: str) -> Caller:
        self[name] = caller = self._kernel(name)
        return caller


class Cached(dict[Any, Any]):
    """Functions whose results are in the memory of a machine, each with a cache.

    Their first parameter is the machine, which ``machine.cached[function]`` fills in.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __missing__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        size = getattr(function, "cache_size", 4096)
        bound = functools.partial(function, self._machine)
        self[function] = found = functools.lru_cache(size)(bound)
        return found

    if TYPE_CHECKING:

        def __getitem__(
            self, function: Callable[Concatenate[Machine, P], T]
        ) -> Callable[P, T]: ...


def cache_size(size: int) -> Callable[[T], T]:
    """Limit the number of results that ``Cached`` keeps for a function."""

    def limit(function: T) -> T:
        vars(function)["cache_size"] = size
        return function

    return limit


class Machine:
    """Runs kernels, and owns their memory and workers.

    Args:
        threads: The number of threads, including the calling thread; by default, the
            number from the environment.

    Attributes:
        threads: The number of threads, including the calling thread.
        heap: The blocks of linear memory.
        callers: The functions that call kernels, by kernel name.
        cached: Functions of this machine, with a cache of their results.
        guards: The guard zones around blocks; None without PLUGRAD_WASM_GUARD=1.
        lock: Held while a kernel runs or memory is cut.

    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads = threads or requested_threads()
        self.lock = threading.RLock()
        self._running = False  # True from before a kernel gets arguments until it ends
        self._interrupt: BaseException | None = None
        self._poll = _Poll()
        self._watch: Any = self._restart_watch()
        self._hosts = {
            "poll": HostFunction.calling(self._poll),
            "fail": HostFunction.failing(),
        }
        self._workers: list[threading.Thread] = []
        self._numbers: dict[int, int] = {}  # thread ids by worker number
        self._closed = False  # if True, no workers may be started
        self._worker_errors: list[Exception] = []  # exceptions of workers
        self._open()
        self._until_poll, self._failure, self._interrupted = (
            ctypes.c_uint32.from_address(self.address + POOL + at) for at in (0, 4, 8)
        )
        self._until_poll.value = 256
        self._tail = self._library.heap  # the stacks of workers begin here
        stacks = STACK * (threads - 1)
        self._grow(self._tail + stacks)
        self.heap: Heap = Heap(self._tail + stacks, self._grow)
        self.callers = Callers(self.kernel)
        self.cached = Cached(self)
        self.guards: guard.Guards | None = None
        if guard.IS_ENABLED:
            self.guards = guard.Guards(self.whole)
        _register(self)

    # --- opening -----------------------------------------------------------------

    def _open(self) -> None:
        """Instantiate, with less address space if the system refuses 4 GiB."""
        for reservation in (None, 1 << 31, 1 << 30, 1 << 28):
            try:
                self._instantiate(reservation)
                return
            except wasmtime.WasmtimeError as error:
                if "reserve" not in str(error) and "mmap" not in str(error):
                    raise
                refused = error
        raise MemoryError(f"wasm: no address space for linear memory: {refused}")

    def _instantiate(self, reservation: int | None) -> None:
        shared = self.threads > 1
        self._engine = engine(shared, reservation)
        folder = MODULES / ("threaded" if shared else "plain")
        self._library = Library(self._engine, folder, self._hosts)
        self._shared: Any = None
        if shared:
            self._shared = SharedMemory(self._engine, self._library.memory_type(True))
        self._main = WasmProgram(self._library, self._shared)
        store = self._main.store
        memory = OwnMemory(self._main.memory, store) if store else self._shared
        self._memory = memory
        self._limit = min(PAGES << 16, reservation or 1 << 32)
        address = ctypes.addressof(memory.data_ptr().contents)
        # Address space is reserved at once, and the memory never moves. Addresses after
        # its end are not accessed before it has grown.
        self.address = address
        self.whole: Any = (ctypes.c_uint8 * self._limit).from_address(address)

    def _grow(self, end: int) -> None:
        """Grow linear memory up to the address ``end``."""
        have = self._memory.data_len()
        if end <= have:
            return
        if end > self._limit:
            raise MemoryError(f"wasm: linear memory ends at {self._limit:,} bytes")
        need = (end - have + 0xFFFF) >> 16
        preferred = min(max(need, 256), (self._limit - have) >> 16)
        for pages in (preferred, need):
            try:
                self._memory.grow(pages)
                return
            except wasmtime.WasmtimeError as error:
                refused = error
        raise MemoryError(f"wasm: linear memory does not grow to {end:,}: {refused}")

    # --- calls and memory ----------------------------------------------------------

    def kernel(self, name: str) -> Caller:
        """Return a function that calls the kernel that C exports as ``name``.

        The function takes integers and floats, and returns nothing. One kernel runs at
        a time; other calls wait.

        Raises:
            KeyError: There is no such kernel.

        """
        if not self.has(name):
            raise KeyError(f"wasm: no kernel is exported as {name!r}")
        lock, raise_error = self.lock, self._raise_error
        unknown: Any = None  # prepared by the first call: 70 us for each of 300 kernels
        pack = start = trap = unknown

        def run(*args: float) -> None:
            nonlocal pack, start, trap
            with lock:
                if self._running or self._watch.gi_frame is None:
                    self._check_state()
                self._running = True
                try:
                    if pack is None:
                        pack, start, _, trap = self._prepare(name)
                    pack(*args)
                    error = start()
                    if error or trap.value:
                        raise_error(name, error, trap)
                except BaseException as late:  # a signal may raise it after `start`
                    left = None
                    if trap is not None:  # must come first, and must not call anything
                        left, trap.value = trap.value, None
                    if self._interrupt is not late:
                        late.__context__ = self._interrupt or late.__context__
                    free_trap(left)
                    raise
                finally:
                    self._interrupt = None
                    self._running = False

        return self.guards.around(name, run) if self.guards else run

    def _prepare(self, name: str) -> Any:
        """Prepare a call: instantiate its module and start the workers."""
        instance = self._main.instance(self._library.owners[name])
        if self.threads > 1 and not self._workers and not self._closed:
            self._start_workers(instance)
        return instance.prepare(name)

    def has(self, name: str) -> bool:
        """Return whether C exports a kernel as ``name``."""
        return name in self._library.owners

    def ask(self, name: str) -> int:
        """Return the result of a rarely called function without arguments."""
        with self.lock:
            return self._main.instance(self._library.owners[name]).invoke(name)

    def fill(self, nbytes: int) -> None:
        """Put blocks of memory into the bin for ``nbytes`` if it is empty."""
        with self.lock:
            self.heap.fill(nbytes)

    def view(self, shape: tuple[int, ...], dtype: Any, address: int) -> Any:
        """Return the memory at an address as an array that does not keep it alive."""
        return np.ndarray(shape, dtype, self.whole, address)

    # --- a kernel that ends early --------------------------------------------------

    def _watching(self) -> Generator[None]:
        """Let signal handlers run in the middle of a kernel, every ``POLL_INTERVAL_S``.

        This is a generator, because it is resumed inside of its ``try``. A function
        would receive the signal at its first instruction, where it cannot catch an
        exception of the handler.

        A handler may run at each call and at each backward jump. Therefore the handling
        of an exception calls nothing. It ends in a backward jump, where the handler of
        a second signal may raise, so it is nested in another ``try``. Python 3.11
        attributes such a jump to the line before its target, which must also be inside
        of that ``try``.
        """
        polls = 256
        while True:
            try:
                then = 0.0
                while True:
                    try:
                        then = 0.0
                        while True:
                            yield
                            now = perf_counter()
                            factor = POLL_INTERVAL_S / max(now - then, 1e-6)
                            polls = int(polls * min(max(factor, 0.5), 2))
                            polls = min(max(polls, 16), 1 << 16)
                            self._until_poll.value = polls
                            then = now
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        self._interrupt, self._interrupted.value = error, 1
            except GeneratorExit:
                return
            except BaseException as error:
                self._interrupt, self._interrupted.value = error, 1

    def _restart_watch(self) -> Generator[None]:
        watch = self._watching()
        next(watch)
        self._poll.__call__ = functools.partial(next, watch, None)
        return watch

    def _check_state(self) -> None:
        """Check for a kernel that is running or has ended abnormally.

        Raises:
            BackendError: Another kernel is running.

        """
        if self._running:
            raise BackendError(_REENTERED)
        # The generator has ended, for example by a RecursionError when it was resumed.
        self._watch = self._restart_watch()

    def _raise_error(self, name: str, error: int | None, trap: Any) -> None:
        """Clean up and raise the error that ended the kernel ``name``."""
        if self._interrupt is not None:  # C has already cleaned up
            del self._worker_errors[:]
            raise self._interrupt
        cause = as_exception(error, trap)
        module = self._library.owners[name]
        self._main.reset(module)
        where = ""
        if self._workers:
            self._main.instance(module).invoke("settle")
        if self._worker_errors:
            where, cause = " in a worker", self._worker_errors[-1]
            self._worker_errors.clear()
        reason = self._message() or str(cause).strip().splitlines()[-1].strip()
        raise BackendError(
            f"wasm: the kernel {name} failed{where}: {reason}"
        ) from cause

    def _message(self) -> str:
        address, self._failure.value = self._failure.value, 0
        return ctypes.string_at(self.address + address).decode() if address else ""

    # --- workers -----------------------------------------------------------------

    def _start_workers(self, instance: Instance) -> None:
        """Start the workers; a signal may have interrupted an earlier start."""
        epoch = instance.invoke("start", self.threads)
        address = instance.value("this_module")
        workers = [
            threading.Thread(
                target=self._work,
                args=(i, epoch, address),
                name=f"plugrad-wasm-{i}",
                daemon=True,
            )
            for i in range(1, self.threads)
        ]
        for thread in workers:
            thread.start()
        self._workers = workers

    def _work(self, number: int, epoch: int, address: int) -> None:
        """Run a worker; the calling thread reports kernels that fail here."""
        me = threading.get_ident()
        if self._numbers.setdefault(number, me) != me:
            return  # another thread already has this number and its stack
        end = self._tail + STACK * number
        program = WasmProgram(self._library, self._shared, (end - STACK, end))
        calls: dict[int, Any] = {}
        while address:  # identifies the module to continue in
            name = self._library.names[address]
            if address not in calls:
                calls[address] = program.instance(name).prepare("work")
            pack, start, slots, trap = calls[address]
            pack(number, epoch)
            error = start()
            if error or trap.value:
                self._worker_errors.append(as_exception(error, trap))
                program.reset(name)
                epoch = program.instance(name).invoke("worker_failed")
            else:
                address = slots[0] & 0xFFFFFFFF
        del self._numbers[number]

    def close(self) -> None:
        """Stop the workers; kernels then run on one thread."""
        with self.lock:
            self._closed = True
            if self._workers:
                self._any_instance().invoke("quit")
                for thread in self._workers:
                    thread.join(1)
                self._workers = []

    def _any_instance(self) -> Instance:
        return next(iter(self._main.instances.values()))

    def _forked(self) -> None:
        """Continue on one thread in a forked child, which has no other threads."""
        self._closed = True
        if self._workers:
            self._workers, self._numbers = [], {}
            self._any_instance().invoke("start", 1)
        self.lock.release()


_REENTERED = (
    "wasm: a signal handler or a finalizer has called a kernel while another one was "
    "running; such code should only record what happened"
)


def _register(machine: Machine) -> None:
    """Register handlers for forks and for the end of the process."""
    reference = weakref.ref(machine)

    def each(step: Callable[[Machine], Any]) -> Callable[[], None]:
        def run() -> None:
            found = reference()
            if found is not None:
                step(found)

        return run

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=each(lambda m: m.lock.acquire()),
            after_in_parent=each(lambda m: m.lock.release()),
            after_in_child=each(Machine._forked),
        )
    atexit.register(each(Machine.close))
