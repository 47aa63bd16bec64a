"""A running device: queues, kernels, pending index checks, and shutdown.

Map: ``Device`` (launching, moving, waiting, memory, timing); forks. ``launching`` has
the launches.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import plugrad as pg
import pyopencl as cl

from . import _pocl, memory, pool, programs
from ._devices import DeviceInfo
from .launching import INLINE_MAX_ELEMENTS
from .launching import Launch as Launch
from .timing import Timed, Timer

SLOW_COMPILE_S = 0.5  # longer compilations at first use are reported
MAX_PENDING_CHECKS = 4096  # of index inputs, before the device is waited for
MAX_STAGED_BYTES = 1 << 20  # of an upload that is copied instead of waited for
MAX_STAGED_UPLOADS = 64  # copies that are held, before one is waited for
READ_WRITE = cl.mem_flags.READ_WRITE
BackendError = pg.BackendError
Check = tuple[str, Callable[[], None] | None]


class Device:
    """One device, or PoCL's two that are the same processor.

    Kernels wait in one queue in their order, so that memory may be reused at once. PoCL
    has a second device that runs them in the calling thread, in 1 us instead of 25:
    small ones go there while the other one is idle.

    Attributes:
        info: What it is.
        style: "cpu" (vectors, a block an item) or "gpu" (an element an item).
        units: How many items run at once.
        lanes: How many float32 one of its registers holds.
        double: Whether it has float64.
        has_quick: Whether it has a second queue, for small kernels. Only then are
            events kept, which tell whether the wide queue is busy.
        pool: Its memory.

    """

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self.style = _style(info)
        handle = info.handles[0]
        self.context = cl.Context(list(info.handles))
        self._open_queues(timed=False)
        self.units = handle.max_compute_units
        self.lanes = handle.native_vector_width_float or 1
        self.double = bool(handle.double_fp_config)
        self.lock: Any = threading.RLock()  # around setting arguments and enqueueing
        self.pool = self._pool(handle)
        self.pending: Any = None  # the last event of the wide queue, if it may be busy
        self._staged: list[Any] = []  # events of uploads that may not be complete
        self.recent: deque[str] = deque(maxlen=4)  # names of the last kernels
        # Those of regions go with their functions, but for the latest, which a function
        # that is recorded again finds; kernels hold theirs.
        self._programs: weakref.WeakValueDictionary[tuple[str, int], Any]
        self._programs = weakref.WeakValueDictionary()
        self._launches: weakref.WeakValueDictionary[tuple[str, str], Launch]
        self._launches = weakref.WeakValueDictionary()
        self._latest: deque[Launch] = deque(maxlen=512)
        # Of kernels that have been launched: the message, and what to do without error.
        self._checks: dict[int, Check] = {}
        self._numbers = itertools.count()
        how = READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.flag = cl.Buffer(self.context, how, hostbuf=np.zeros(4, np.int64))
        self._announced = False
        self._fill: Callable[..., Any] = cl.enqueue_fill_buffer
        self.enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel
        self._timer: Timer | None = None
        self.notes: Any = None  # of the kernel that is recorded; see ``recorded``
        _DEVICES.add(self)

    def noting(self) -> Any:
        """Return the notes of the kernel that this thread records; None without."""
        notes = self.notes
        return notes if notes and notes.thread == threading.get_ident() else None

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
        found = found or Launch(self, source, name, scalars, group)
        self._launches[source, name] = found
        self._latest.append(found)
        return found

    def _busy(self) -> bool:
        """Return whether the wide queue has work; call it with the lock."""
        event = self.pending
        complete = event is None or event.command_execution_status == 0
        if complete and self.pending is event:
            self.pending = None
        return self.pending is not None

    def sent(self, event: Any, before: Any) -> None:
        """Record the last event of the wide queue; call it with the lock.

        A finalizer that runs ops may have launched meanwhile, in this thread: then
        ``pending`` is not what it was ``before``, and it is unknown which came last.
        """
        if self.pending is before:
            self.pending = event
        else:
            self.wide.finish()

    def program(self, source: str, which: int) -> Any:
        """Return a compiled program; call it with the lock."""
        found = self._programs.get((source, which))
        if found is None:
            start = time.perf_counter()
            found = programs.load(self.context, self.info, source, which)
            self._programs[source, which] = found
            if not self._announced and time.perf_counter() - start > SLOW_COMPILE_S:
                self._announced = True
                print(
                    f"plugrad-opencl: compiles kernels for {self.info.name}, "
                    "which are kept for next time",
                    file=sys.stderr,
                )
        return found

    # --- moving ------------------------------------------------------------------

    def write(self, buffer: Any, values: np.ndarray[Any, Any]) -> None:
        """Copy to the device; ``values`` may change as soon as this returns.

        A blocking copy would wait for all kernels in the queue. So what is not large is
        copied on the host, and that copy is held until the device is waited for.
        """
        if (notes := self.noting()) is not None:
            notes.fail()
        with self.lock:
            if self.has_quick and not self._busy():
                self._do(cl.enqueue_copy, self.quick, buffer, values)
            elif (
                values.nbytes > MAX_STAGED_BYTES
                or len(self._staged) >= MAX_STAGED_UPLOADS
            ):
                self._do(cl.enqueue_copy, self.wide, buffer, values)
                self._staged.clear()
            else:
                before = self.pending
                event = self._do(self._stage, buffer, values.copy())
                self._staged.append(event)
                if self.has_quick:
                    self.sent(event, before)

    def _stage(self, buffer: Any, values: np.ndarray[Any, Any]) -> Any:
        """Enqueue a copy of ``values``, and return its event, which holds them."""
        return cl.enqueue_copy(self.wide, buffer, values, is_blocking=False)

    def fill(self, buffer: Any, value: np.ndarray[Any, Any], nbytes: int) -> None:
        """Fill a buffer with ``value``, of 1 to 16 bytes."""
        if (notes := self.noting()) is not None:
            notes.filled(buffer, value, nbytes)
        with self.lock:
            quick = nbytes <= INLINE_MAX_ELEMENTS * 4 and not self._busy()
            queue = self.quick if quick else self.wide
            before = self.pending
            event = self._do(self._fill, queue, buffer, value, 0, nbytes)
            if queue is not self.quick:
                self.sent(event, before)

    def read(self, values: np.ndarray[Any, Any], buffer: Any) -> None:
        """Wait for the device, and copy from it; raises what went wrong meanwhile."""
        if (notes := self.noting()) is not None:
            notes.fail()
        with self.lock:
            queue = self.wide if self._busy() else self.quick
            if values.size:
                self._wait(cl.enqueue_copy, queue, values, buffer)
            else:
                self._wait(queue.finish)

    @property
    def gone(self) -> bool:
        """Whether the device belongs to the process from which this one was forked."""
        return isinstance(self.lock, _Gone)

    def synchronize(self) -> None:
        """Wait for the device, and raise what went wrong meanwhile."""
        if (notes := self.noting()) is not None:
            notes.fail()
        with self.lock:
            # With one queue, to read the flag of bad indices is to wait for all.
            waits = bool(self._checks) and not self.has_quick
            self._wait(_nothing if waits else self._finish)

    def _finish(self) -> None:
        for queue in self.queues:
            queue.finish()

    def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)``, which enqueues or waits; recover from errors."""
        try:
            return work(*args)
        except cl.Error as error:
            return self.recover(error, work, *args)

    def recover(self, error: Exception, work: Callable[..., Any], *args: Any) -> Any:
        """Retry if memory was short; else raise an error with the last kernels."""
        names = ", ".join(self.recent) or "none"
        if isinstance(error, cl.MemoryError):
            self._finish()
            self.pool.empty()
            try:
                return work(*args)
            except cl.MemoryError as again:
                raise MemoryError(
                    f"opencl: no memory for kernels to run ({again}; the last ones: "
                    f"{names}); drop tensors, or use smaller ones"
                ) from None
        raise BackendError(
            f"opencl: {self.info.name} failed: {error}; its last kernels: {names}"
        ) from error

    # --- memory --------------------------------------------------------------------

    def _pool(self, handle: Any) -> pool.Pool:
        """Return the pool of memory: that of the host, or that of a device apart."""
        shared = bool(handle.host_unified_memory)
        own = handle.global_mem_size
        return pool.Pool(
            self._allocate,
            self._finish,
            limit=pool.limit(own),
            largest=handle.max_mem_alloc_size,
            total=memory.total() if shared else own,
            left=memory.left if shared else lambda: memory.UNLIMITED_BYTES,
            lock=self.lock,
        )

    def _allocate(self, size: int) -> Any:
        try:
            return cl.Buffer(self.context, READ_WRITE, size)
        except cl.MemoryError as error:
            raise MemoryError(str(error)) from None

    # --- checking indices ----------------------------------------------------------

    @contextlib.contextmanager
    def check(
        self, what: str, good: Callable[[], None] | None = None
    ) -> Iterator[tuple[Any, int]]:
        """Give a kernel a flag and a number, which it writes there with a bad index.

        The kernel is launched inside. The flag is looked at when the device is next
        waited for, and IndexError raised: ``what`` says of what, as in "gather: {} is
        out of range for axis 0 with size 3". Otherwise ``good`` is called, if given.
        """
        if (notes := self.noting()) is not None:
            notes.fail()
        if len(self._checks) >= MAX_PENDING_CHECKS:
            self.synchronize()
        number = 1 + next(self._numbers) % (2**31 - 1)  # an int of kernels, not 0
        yield self.flag, number
        self._checks[number] = (
            what,
            good,
        )  # only now: others may wait before it is launched

    def _wait(self, work: Callable[..., Any], *args: Any) -> None:
        """Do ``work``, which waits; check for bad indices; call it with the lock."""
        checks, self._checks = self._checks, {}
        try:
            self._do(work, *args)
        except BaseException:
            self._checks = checks | self._checks
            raise
        self._staged.clear()
        if checks:
            self._look(checks)

    def _look(self, checks: dict[int, Check]) -> None:
        """Raise if there is a bad index of these ``checks``."""
        found = np.zeros(4, np.int64)
        self._do(cl.enqueue_copy, self.quick, found, self.flag)
        bad = checks.get(int(found[0]))
        if bad is not None:
            self._do(cl.enqueue_copy, self.quick, self.flag, np.zeros(4, np.int64))
            raise IndexError(bad[0].format(f"index {found[1]}"))
        for _, good in checks.values():
            if good is not None:
                good()

    # --- timing --------------------------------------------------------------------

    def time(self, on: bool) -> None:
        """Start or stop measuring how long kernels and fills run.

        Other queues and functions do so, so that nothing is paid while it is off.
        """
        with self.lock:
            try:
                self._do(self._finish)
            finally:
                self._open_queues(on)
                self._timer = Timer() if on else None
                self._fill = self._timed(self._fill)
                self.enqueue = self._timed(self.enqueue)

    def seconds(self) -> float:
        """Return the seconds of this thread's kernels since ``time(True)``."""
        with self.lock:
            self._do(self._finish)
            return self._do(self._timer.seconds) if self._timer else 0.0

    def _timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``work``, which enqueues, with a timer if the device has one."""
        work = work.work if isinstance(work, Timed) else work
        return Timed(work, self._timer) if self._timer else work

    def _open_queues(self, timed: bool) -> None:
        how = (cl.command_queue_properties.PROFILING_ENABLE,) if timed else ()
        handles = self.info.handles
        self.queues = [cl.CommandQueue(self.context, h, *how) for h in handles]
        self.wide, self.quick = self.queues[0], self.queues[-1]
        self.has_quick = len(self.queues) > 1

    # --- the end -------------------------------------------------------------------

    def close(self) -> None:
        """Wait for the device, and release its memory."""
        with self.lock:
            self._finish()
        self.pool.empty()


def _nothing() -> None: ...


def _style(info: DeviceInfo) -> str:
    """Return the style of kernels: for CPUs, or for GPUs."""
    given = os.environ.get("PLUGRAD_OPENCL_STYLE", "")
    if given not in ("", "cpu", "gpu"):
        raise ValueError(
            f"PLUGRAD_OPENCL_STYLE={given}: give cpu or gpu, or unset it for the one "
            "that fits the device"
        )
    has_vectors = info.kind == "cpu" and not _pocl.is_plain()
    return given or ("cpu" if has_vectors else "gpu")


# --- forks and the end -------------------------------------------------------------

_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


class _Gone:
    """The lock of a device after a fork: it says why there is nothing behind it."""

    def acquire(self, blocking: bool = True) -> bool:
        """Return False: finalizers, which do not wait for it, go on without."""
        return False

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
        device.lock = device.pool.lock = _Gone()
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
