"""A device at work: queues, kernels, what they left to be checked, and the end.

Map: ``Device`` (launching, moving, waiting, timing); ``Launch``, a compiled kernel;
programs and their cache; forks.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import sys
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plugrad as pg
import pyopencl as cl

from . import environment, pool
from ._devices import DeviceInfo
from .source import BLOCK
from .timing import Timed, Timer

SMALL = 1 << 16  # elements of work, as ``size`` of a launch, for the thread that calls
SLOW = 0.5  # seconds of compiling at first use after which a line says so
CHECKS = 4096  # unchecked index inputs before the device is waited for
READ_WRITE = cl.mem_flags.READ_WRITE
BackendError = pg.BackendError


class Device:
    """One device, or PoCL's two that are the same processor.

    Kernels wait in one queue in their order, so that memory may be reused at once. PoCL
    has a second device that runs them in the calling thread, in 1 us instead of 25:
    small ones go there while the other one is idle.

    Attributes:
        info: What it is.
        style: "cpu" (vectors, a block an item) or "gpu" (an element an item).
        units: How many items run at once.
        double: Whether it has float64.
        pool: Its memory.

    """

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        style = os.environ.get("PLUGRAD_OPENCL_STYLE") or info.kind
        self.style = "cpu" if style == "cpu" else "gpu"
        handle = info.handles[0]
        self.context = cl.Context(list(info.handles))
        self._open_queues(timed=False)
        self.units = handle.max_compute_units
        self.double = bool(handle.double_fp_config)
        self.pool = pool.Pool(
            self._allocate,
            self._finish,
            limit=pool.limit(handle.global_mem_size),
            largest=handle.max_mem_alloc_size,
            shared=bool(handle.host_unified_memory),
        )
        self.lock: Any = threading.RLock()  # around setting arguments and enqueueing
        self.pending: Any = None  # the last event of the wide queue, if it may be busy
        self.recent: deque[str] = deque(maxlen=4)  # names of the last kernels
        self._programs: dict[tuple[str, int], Any] = {}
        self._launches: dict[tuple[str, str], Launch] = {}
        self._checks: list[str] = []
        self.flag = cl.Buffer(
            self.context,
            READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
            hostbuf=np.zeros(4, np.int64),
        )
        self._announced = False
        self._fill: Callable[..., Any] = cl.enqueue_fill_buffer
        self._timer: Timer | None = None
        _DEVICES.add(self)

    # --- launching ---------------------------------------------------------------

    def kernel(
        self, source: str, name: str, scalars: Sequence[Any], *, group: int = 1
    ) -> Launch:
        """Return the kernel ``name`` of ``source``, compiled at its first launch.

        Args:
            source: OpenCL C.
            name: Of the function.
            scalars: An argument each: None for a buffer, else a NumPy type.
            group: The size of a work group, which is ``reqd_work_group_size`` too.

        """
        found = self._launches.get((source, name))
        if found is None:
            found = Launch(self, source, name, scalars, group)
            self._launches[source, name] = found
        return found

    def _busy(self) -> bool:
        """Tell whether the wide queue has work; with the lock."""
        if self.pending is None:
            return False
        if self.pending.command_execution_status == 0:  # complete
            self.pending = None
            return False
        return True

    def program(self, source: str, which: int) -> Any:
        """Return a compiled program; with the lock."""
        found = self._programs.get((source, which))
        if found is None:
            start = time.perf_counter()
            found = self._programs[source, which] = _program(self, source, which)
            if not self._announced and time.perf_counter() - start > SLOW:
                self._announced = True
                print(
                    f"plugrad-opencl: compiles kernels for {self.info.name}, "
                    "which are kept for next time",
                    file=sys.stderr,
                )
        return found

    # --- moving ------------------------------------------------------------------

    def write(self, buffer: Any, values: np.ndarray[Any, Any]) -> None:
        """Copy to the device; ``values`` may change as soon as this returns."""
        with self.lock:
            queue = self.wide if self._busy() else self.quick
            self._do(cl.enqueue_copy, queue, buffer, values)

    def fill(self, buffer: Any, value: np.ndarray[Any, Any], nbytes: int) -> None:
        """Put ``value``, of 1 to 16 bytes, everywhere."""
        with self.lock:
            quick = nbytes <= SMALL * 4 and not self._busy()
            queue = self.quick if quick else self.wide
            event = self._do(self._fill, queue, buffer, value, 0, nbytes)
            if queue is not self.quick:
                self.pending = event

    def read(self, values: np.ndarray[Any, Any], buffer: Any) -> None:
        """Wait for the device, and copy from it; raises what went wrong meanwhile."""
        with self.lock:
            queue = self.wide if self._busy() else self.quick
            if values.size:
                self._do(cl.enqueue_copy, queue, values, buffer)
            else:
                self._do(queue.finish)
            self.pending = None
            if self._checks:
                self._check()

    @property
    def gone(self) -> bool:
        """Whether it stayed behind in the process that this one was forked from."""
        return isinstance(self.lock, _Gone)

    def synchronize(self) -> None:
        """Wait for the device, and raise what went wrong meanwhile."""
        with self.lock:
            self._do(self._finish)
            if self._checks:
                self._check()

    def _finish(self) -> None:
        for queue in self.queues:
            queue.finish()
        self.pending = None

    def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)``; failures name the last kernels."""
        try:
            return work(*args)
        except cl.Error as error:
            names = ", ".join(self.recent) or "none"
            raise BackendError(
                f"opencl: {self.info.name} failed: {error}; its last kernels: {names}"
            ) from error

    def _allocate(self, size: int) -> Any:
        try:
            return cl.Buffer(self.context, READ_WRITE, size)
        except cl.MemoryError as error:
            raise MemoryError(str(error)) from None

    # --- checking indices ----------------------------------------------------------

    def check(self, what: str) -> tuple[Any, int]:
        """Return a flag and a number for a kernel to put there with a bad index.

        It is looked at when the device is next waited for, and IndexError raised:
        ``what`` says of what, as in "gather: {} is out of range for axis 0 with size 3"
        """
        with self.lock:
            if len(self._checks) >= CHECKS:
                self.synchronize()
            self._checks.append(what)
            return self.flag, len(self._checks)

    def _check(self) -> None:
        found = np.zeros(4, np.int64)
        self._do(cl.enqueue_copy, self.quick, found, self.flag)
        checks, self._checks = self._checks, []
        if found[0]:
            self._do(cl.enqueue_copy, self.quick, self.flag, np.zeros(4, np.int64))
            raise IndexError(checks[found[0] - 1].format(f"index {found[1]}"))

    # --- timing --------------------------------------------------------------------

    def time(self, on: bool) -> None:
        """Measure how long kernels and fills run from now on, or no more.

        Other queues do so, and other launches, so that nothing is paid while it is off.
        """
        with self.lock:
            try:
                self._do(self._finish)
            finally:
                self._open_queues(on)
                self._timer = Timer() if on else None
                self._fill = self.timed(self._fill)
                for launch in [*self._launches.values()]:
                    launch.renew()

    def seconds(self) -> float:
        """Return how long what this thread has launched since ``time(True)`` ran."""
        with self.lock:
            self._do(self._finish)
            return self._do(self._timer.seconds) if self._timer else 0.0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``work``, which enqueues, so that it is timed, or is not; as now."""
        work = work.work if isinstance(work, Timed) else work
        return Timed(work, self._timer) if self._timer else work

    def _open_queues(self, timed: bool) -> None:
        how = (cl.command_queue_properties.PROFILING_ENABLE,) if timed else ()
        handles = self.info.handles
        self.queues = [cl.CommandQueue(self.context, h, *how) for h in handles]
        self.wide, self.quick = self.queues[0], self.queues[-1]

    # --- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Wait for the device, and give its memory back."""
        with self.lock:
            self._finish()
        self.pool.empty()


class Launch:
    """A kernel of a device; ``launch(size, items, *args)`` enqueues it.

    ``size`` is the work in elements, by which small kernels are told; ``items`` the
    global size in each dimension. All arguments are set at each launch: PoCL crashes if
    a buffer of an earlier one is gone. Threads share one, under the device's lock.
    """

    __slots__ = (
        "_group",
        "_kernels",
        "_name",
        "_scalars",
        "_source",
        "device",
        "items",
    )

    def __init__(
        self, device: Device, source: str, name: str, scalars: Any, group: int
    ) -> None:
        self.device, self._source, self._name = device, source, name
        self.items = blocks if group == 1 else _grouped(group)
        self._scalars, self._group = scalars, (group,)
        self._kernels: list[Any] = [None, None]

    def __call__(self, size: int, items: int, *args: Any) -> None:
        """Enqueue it."""
        device = self.device
        with device.lock:
            if size <= SMALL and (device.pending is None or not device._busy()):
                which, queue = -1, device.quick
            else:
                which, queue = 0, device.wide
            kernel = self._kernels[which] or self._compiled(which)
            device.recent.append(self._name)
            try:
                event = kernel(queue, (items,), self._group, *args)
            except cl.Error as error:
                event = self._again(error, kernel, queue, items, args)
            if queue is not device.quick:
                device.pending = event

    def _again(
        self, error: Exception, kernel: Any, queue: Any, items: int, args: Any
    ) -> Any:
        """Launch once more if it was for want of memory."""
        if not isinstance(error, cl.MemoryError):
            return self.device._do(_raise, error)
        self.device._finish()
        self.device.pool.empty()
        try:
            return kernel(queue, (items,), self._group, *args)
        except cl.MemoryError as again:
            raise MemoryError(
                f"opencl: no memory to run {self._name} ({again}); drop tensors, or "
                "use smaller ones"
            ) from None

    def _compiled(self, which: int) -> Any:
        program = self.device.program(self._source, which)
        compiled = cl.Kernel(program, self._name)
        compiled.set_scalar_arg_dtypes(self._scalars)
        self._kernels[which] = kernel = self.device.timed(compiled)
        if len(self.device.queues) == 1:
            self._kernels = [kernel, kernel]
        return kernel

    def renew(self) -> None:
        """Launch with or without a timer, as the device does now; with its lock."""
        self._kernels = [k and self.device.timed(k) for k in self._kernels]


def _raise(error: Exception) -> None:
    raise error


def blocks(n: int) -> int:
    """Return the items for ``n`` elements, a block each."""
    return 1 if n <= BLOCK else -(-n // BLOCK)


def _grouped(group: int) -> Callable[[int], int]:
    """Return a function: the items for ``n`` elements, one each, in whole groups."""
    return lambda n: -(-n // group) * group


# --- programs --------------------------------------------------------------------


def _program(device: Device, source: str, which: int) -> Any:
    """Return a program from the cache, or compiled and put there.

    From its binary it is ready in 2 ms; from source PoCL needs 30 even for what it has
    in its own cache.
    """
    handle = device.info.handles[which]
    parts = (source, handle.name, device.info.key, cl.VERSION_TEXT)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
    file = environment.folder() / "programs" / f"{key}.bin"
    try:
        return _built(cl.Program(device.context, [handle], [file.read_bytes()]))
    except (OSError, cl.Error):
        pass  # it is new, or the driver does not know its own binary
    try:
        built = _built(cl.Program(device.context, source), handle)
    except cl.Error as error:
        raise BackendError(
            f"opencl: {handle.name} does not compile {_name(source)}:\n{_log(error)}"
        ) from error
    (binary,) = [b for b in built.binaries if b]
    try:
        file.parent.mkdir(exist_ok=True)
        made = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        made.write_bytes(binary)
        made.replace(file)
        return _built(cl.Program(device.context, [handle], [binary]))
    except (OSError, cl.Error):
        return built  # it works without the cache


def _name(source: str) -> str:
    """Return what it is: the file that ``#line`` names, or its kernels."""
    found = re.findall(r'^#line 1 "(.*)"', source, re.MULTILINE)
    found = found or re.findall(r"void (\w+)\(__global", source)
    return ", ".join(dict.fromkeys(found))


def _log(error: Exception) -> str:
    """Return what the compiler says, without what pyopencl puts around it."""
    around = ("Build on ", "====", "(options:", "(source saved")
    said = str(error).partition("Build on ")[2].splitlines()[1:]
    lines = [line for line in said if line and not line.startswith(around)]
    return "\n".join(lines) or str(error)


def _built(program: Any, *handles: Any) -> Any:
    """Return the program, compiled; what compilers have to say is for our tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        return program.build(["-w"], devices=list(handles) or None)


# --- forks and the end -------------------------------------------------------------

_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


class _Gone:
    """The lock of a device after a fork: whoever wants it learns why not."""

    def __enter__(self) -> None:
        raise BackendError(
            "opencl: this process was forked from one that uses OpenCL, whose threads "
            'did not come along; start it with "spawn" '
            '(multiprocessing.set_start_method), or use_backend("cpu") in it'
        )

    def __exit__(self, *_: object) -> None: ...


_KEPT: list[Any] = []  # what a forked child must not release


def _forked() -> None:
    for device in _DEVICES:
        device.lock = device.pool._lock = _Gone()
        _KEPT.append(device)


def _ended() -> None:
    """Wait for the devices, and keep other threads from starting anything.

    A thread that Python ends in the middle of a call of OpenCL takes the process along.
    """
    for device in [*_DEVICES]:
        if not device.gone:
            device.lock.acquire()  # for good; this thread may enter again
            device._finish()


os.register_at_fork(after_in_child=_forked)
atexit.register(_ended)
