"""A running device: queues, kernels, pending index checks, and shutdown.

Contents: ``Device`` (launching, copying, memory, checking indices, timing); forks and
the end of the process. Launches are in ``launching``.
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
from plugrad.plugin import explained

from . import _pocl, memory, pool, programs
from ._devices import DeviceInfo
from .launching import INLINE_MAX_ELEMENTS
from .launching import Launch as Launch
from .timing import Timed, Timer

SLOW_COMPILE_S = 0.5  # longer compilations at first use are reported
MAX_PENDING_CHECKS = 4096  # index checks; if there are more, wait for the device
MAX_STAGED_BYTES = 1 << 20  # the largest upload that does not block
MAX_STAGED_UPLOADS = 64  # number of uploads that do not block; the next one blocks
READ_WRITE = cl.mem_flags.READ_WRITE
BackendError = pg.BackendError
Check = tuple[str, Callable[[], None] | None]


class Device:
    """One device, or the two PoCL devices that share a processor.

    Kernels run one after the other in one queue, the wide queue, so memory can be
    reused at once. PoCL has a second device that runs kernels in the calling thread: a
    launch takes 1 us instead of 25 us. Small kernels go to its queue, the quick queue,
    while the wide queue is idle.

    Attributes:
        info: The description of the device.
        style: "cpu" (one block per work item, in vectors) or "gpu" (one element per
            work item).
        units: The number of compute units.
        lanes: The number of float32 elements in a vector register.
        double: Whether the device supports float64.
        has_quick: Whether there is a quick queue. Only then are events kept, to find
            out whether the wide queue is busy.
        pool: The memory pool.

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
        self.lock: Any = threading.RLock()  # held while a kernel is enqueued
        self.pool = self._pool(handle)
        self.pending: Any = None  # the last event of the wide queue, if it may be busy
        self._staged: list[Any] = []  # events of uploads that may not be complete
        self.recent: deque[str] = deque(maxlen=4)  # names of the last kernels
        # Kernels and the functions of regions keep their programs and launches alive.
        # ``_latest`` also keeps recent ones, for a function that is recorded again.
        self._programs: weakref.WeakValueDictionary[tuple[str, int], Any]
        self._programs = weakref.WeakValueDictionary()
        self._launches: weakref.WeakValueDictionary[tuple[str, str], Launch]
        self._launches = weakref.WeakValueDictionary()
        self._latest: deque[Launch] = deque(maxlen=512)
        # For each check, by its number: the error message, and a callback that runs if
        # there is no error.
        self._checks: dict[int, Check] = {}
        self._numbers = itertools.count()
        flags = READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.flag = cl.Buffer(self.context, flags, hostbuf=np.zeros(4, np.int64))
        self._announced = False
        self._fill: Callable[..., Any] = cl.enqueue_fill_buffer
        self.enqueue: Callable[..., Any] = cl.enqueue_nd_range_kernel
        self._timer: Timer | None = None
        self.notes: Any = None  # ``recorded.Notes`` of the kernel being recorded
        _DEVICES.add(self)

    def current_notes(self) -> Any:
        """Return the notes of the kernel that this thread is recording, or None."""
        notes = self.notes
        return notes if notes and notes.thread == threading.get_ident() else None

    # --- launching ---------------------------------------------------------------

    def kernel(
        self, source: str, name: str, scalars: Sequence[Any], *, group: int = 1
    ) -> Launch:
        """Return the kernel ``name`` of ``source``, compiled at its first launch.

        Args:
            source: OpenCL C.
            name: The name of the kernel function.
            scalars: For each argument: None for a buffer, else a NumPy type.
            group: The work-group size, equal to the kernel's ``reqd_work_group_size``.

        """
        launch = self._launches.get((source, name))
        launch = launch or Launch(self, source, name, scalars, group)
        self._launches[source, name] = launch
        self._latest.append(launch)
        return launch

    def _busy(self) -> bool:
        """Return whether the wide queue has work. The caller holds the lock."""
        event = self.pending
        complete = event is None or event.command_execution_status == 0
        if complete and self.pending is event:
            self.pending = None
        return self.pending is not None

    def record_event(self, event: Any, before: Any) -> None:
        """Record the last event of the wide queue. The caller holds the lock.

        In the meantime a finalizer in this thread may have launched a kernel. Then
        ``pending`` differs from ``before``, and the order of the two events is unknown,
        so this waits for the queue.
        """
        if self.pending is before:
            self.pending = event
        else:
            self.wide.finish()

    def program(self, source: str, queue_index: int) -> Any:
        """Return a compiled program. The caller holds the lock."""
        program = self._programs.get((source, queue_index))
        if program is None:
            start = time.perf_counter()
            program = programs.load(self.context, self.info, source, queue_index)
            self._programs[source, queue_index] = program
            if not self._announced and time.perf_counter() - start > SLOW_COMPILE_S:
                self._announced = True
                print(
                    f"plugrad-opencl: compiling kernels for {self.info.name}; "
                    "they are cached for later processes",
                    file=sys.stderr,
                )
        return program

    # --- copying -----------------------------------------------------------------

    def write(self, buffer: Any, values: np.ndarray[Any, Any]) -> None:
        """Copy to the device; ``values`` may change as soon as this returns.

        A blocking copy would wait for all kernels in the queue. Therefore a small array
        is first copied on the host, and that copy is kept until the next wait.
        """
        if (notes := self.current_notes()) is not None:
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
                    self.record_event(event, before)

    def _stage(self, buffer: Any, values: np.ndarray[Any, Any]) -> Any:
        """Enqueue a copy; the event that this returns keeps ``values`` alive."""
        return cl.enqueue_copy(self.wide, buffer, values, is_blocking=False)

    def fill(self, buffer: Any, value: np.ndarray[Any, Any], nbytes: int) -> None:
        """Fill ``nbytes`` of a buffer with ``value``, which has 1 to 16 bytes."""
        if (notes := self.current_notes()) is not None:
            notes.filled(buffer, value, nbytes)
        with self.lock:
            quick = nbytes <= INLINE_MAX_ELEMENTS * 4 and not self._busy()
            queue = self.quick if quick else self.wide
            before = self.pending
            event = self._do(self._fill, queue, buffer, value, 0, nbytes)
            if queue is not self.quick:
                self.record_event(event, before)

    def read(self, values: np.ndarray[Any, Any], buffer: Any) -> None:
        """Wait for the device and copy from it; raise errors of earlier kernels."""
        if (notes := self.current_notes()) is not None:
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
        return isinstance(self.lock, _ForkedLock)

    def synchronize(self) -> None:
        """Wait for the device; raise errors of earlier kernels."""
        if (notes := self.current_notes()) is not None:
            notes.fail()
        with self.lock:
            # With one queue, reading the flag of bad indices waits for all kernels.
            waits = bool(self._checks) and not self.has_quick
            self._wait(_nothing if waits else self._finish)

    def _finish(self) -> None:
        for queue in self.queues:
            queue.finish()

    def _do(self, work: Callable[..., Any], *args: Any) -> Any:
        """Return ``work(*args)``, an OpenCL call; ``recover`` from an error."""
        try:
            return work(*args)
        except cl.Error as error:
            return self.recover(error, work, *args)

    def recover(self, error: Exception, work: Callable[..., Any], *args: Any) -> Any:
        """Free memory and retry if memory was short; else raise a BackendError."""
        names = ", ".join(self.recent) or "none"
        if isinstance(error, cl.MemoryError):
            self._finish()
            self.pool.empty()
            try:
                return work(*args)
            except cl.MemoryError as again:
                raise MemoryError(
                    f"opencl: not enough memory to run kernels ({again}; last kernels: "
                    f"{names}); drop tensors, or use smaller ones"
                ) from None
        raise BackendError(
            f"opencl: {self.info.name} failed: {error}; last kernels: {names}"
        ) from error

    # --- memory --------------------------------------------------------------------

    def _pool(self, handle: Any) -> pool.Pool:
        """Return a pool of the host's memory, or of the device's own."""
        shared = bool(handle.host_unified_memory)
        device_bytes = handle.global_mem_size
        return pool.Pool(
            self._allocate,
            self._finish,
            limit=pool.limit(device_bytes),
            largest=handle.max_mem_alloc_size,
            total=memory.total() if shared else device_bytes,
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
        """Yield a flag and a number. A kernel that finds a bad index writes both there.

        Launch the kernel inside the ``with`` block. The next wait for the device reads
        the flag. If the number is there, IndexError is raised with the message
        ``what``, such as "gather: {} is out of range for axis 0 with size 3". Otherwise
        ``good`` is called, if given.
        """
        if (notes := self.current_notes()) is not None:
            notes.fail()
        if len(self._checks) >= MAX_PENDING_CHECKS:
            self.synchronize()
        number = 1 + next(self._numbers) % (2**31 - 1)  # an int in C, and not 0
        yield self.flag, number
        self._checks[number] = (
            what,
            good,
        )  # not earlier: another thread may wait before the launch

    def _wait(self, work: Callable[..., Any], *args: Any) -> None:
        """Call ``work``, which waits; check indices. The caller holds the lock."""
        checks, self._checks = self._checks, {}
        try:
            self._do(work, *args)
        except BaseException:
            self._checks = checks | self._checks
            raise
        self._staged.clear()
        if checks:
            self._finish_checks(checks)

    def _finish_checks(self, checks: dict[int, Check]) -> None:
        """Raise if one of the ``checks`` failed; otherwise run the callbacks."""
        found = np.zeros(4, np.int64)
        self._do(cl.enqueue_copy, self.quick, found, self.flag)
        bad = checks.get(int(found[0]))
        if bad is not None:
            self._do(cl.enqueue_copy, self.quick, self.flag, np.zeros(4, np.int64))
            error = IndexError(bad[0].format(f"index {found[1]}"))
            raise explained(error, "index-out-of-range")
        for _, good in checks.values():
            if good is not None:
                good()

    # --- timing --------------------------------------------------------------------

    def time(self, on: bool) -> None:
        """Start or stop measuring how long kernels and fills run.

        Timing uses other queues and functions. It costs nothing while it is off.
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
        """Return how many seconds this thread's kernels ran since ``time(True)``."""
        with self.lock:
            self._do(self._finish)
            return self._do(self._timer.seconds) if self._timer else 0.0

    def _timed(self, enqueue: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``enqueue``, wrapped to record events if there is a timer."""
        enqueue = enqueue.enqueue if isinstance(enqueue, Timed) else enqueue
        return Timed(enqueue, self._timer) if self._timer else enqueue

    def _open_queues(self, timed: bool) -> None:
        options = (cl.command_queue_properties.PROFILING_ENABLE,) if timed else ()
        handles = self.info.handles
        self.queues = [cl.CommandQueue(self.context, h, *options) for h in handles]
        self.wide, self.quick = self.queues[0], self.queues[-1]
        self.has_quick = len(self.queues) > 1

    # --- closing -------------------------------------------------------------------

    def close(self) -> None:
        """Wait for the device, and release its memory."""
        with self.lock:
            self._finish()
        self.pool.empty()


def _nothing() -> None: ...


def _style(info: DeviceInfo) -> str:
    """Return the style of the kernels: "cpu" or "gpu"."""
    given = os.environ.get("PLUGRAD_OPENCL_STYLE", "")
    if given not in ("", "cpu", "gpu"):
        raise ValueError(
            f"PLUGRAD_OPENCL_STYLE={given}: give cpu or gpu, or unset it for the style "
            "that fits the device"
        )
    has_vectors = info.kind == "cpu" and not _pocl.is_plain()
    return given or ("cpu" if has_vectors else "gpu")


# --- forks and the end of the process ----------------------------------------------

_DEVICES: weakref.WeakSet[Device] = weakref.WeakSet()


class _ForkedLock:
    """The lock of a device in a forked child, where the device cannot be used."""

    def acquire(self, blocking: bool = True) -> bool:
        """Return False: finalizers do not wait for the lock and go on without it."""
        return False

    def __enter__(self) -> None:
        raise BackendError(
            "opencl: this process was forked from one that uses OpenCL, and a fork "
            'does not copy the threads of OpenCL; start it with "spawn" '
            '(multiprocessing.set_start_method), or use_backend("cpu") in it'
        )

    def __exit__(self, *_: object) -> None: ...


_NEVER_RELEASED: list[Any] = []  # devices that a forked child must not release


def _after_fork() -> None:
    for device in _DEVICES:
        device.lock = device.pool.lock = _ForkedLock()
        _NEVER_RELEASED.append(device)


def _at_exit() -> None:
    """Wait for the devices, and keep other threads from launching kernels.

    If Python ends a thread in the middle of an OpenCL call, the process crashes.
    """
    for device in [*_DEVICES]:
        if not device.gone:
            device.lock.acquire()  # never released; this thread can still enter
            device._finish()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
