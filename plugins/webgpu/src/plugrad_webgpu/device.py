"""The device: it records kernels, submits them in batches, and moves memory."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import plugrad as pg
import wgpu

from .discovery import choose, describe
from .launching import Groups, Launch, Launches
from .memory import STEP_BYTES, Lease, Pool, rounded
from .timing import Timer

BATCH_STEPS = 64  # kernels for each submission
FLAG_BYTES = 16  # number of the message, index, axis, size
MAX_BINDINGS = 16  # storage buffers of a kernel, where the adapter allows as many
STAGING_BUFFERS = 4  # buffers for downloads that are kept for each size
LIMITS = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
)

Step = tuple[Launch, Any]  # with its bind group
Words = np.ndarray[Any, np.dtype[np.uint32]]


class Device:
    """A WebGPU device with its queue.

    Kernels are recorded as a list of steps. ``flush`` encodes and submits them. It
    turns the garbage collector off meanwhile, because finalizers may call ops.

    Attributes:
        is_cpu: Whether the adapter is a CPU, which has slow workgroup memory.
        half: Whether the device stores float16.
        max_nbytes: The maximum size of a buffer.
        max_bindings: The maximum number of storage buffers of a kernel.
        timer: Measures kernels; None if the device has no timestamps.
        timing: Whether it is on.

    """

    def __init__(self) -> None:
        self.adapter = choose()
        self.name = describe(self.adapter)
        style = os.environ.get("PLUGRAD_WEBGPU_STYLE", "")
        self.is_cpu = self.adapter.info["adapter_type"] == "CPU"
        self.is_cpu = style == "cpu" if style else self.is_cpu
        self._problems: deque[str] = deque()
        self._listen()
        limits = self.adapter.limits
        features = {"timestamp-query", "shader-f16"} & set(self.adapter.features)
        self._device = self.adapter.request_device_sync(
            required_features=sorted(features),
            required_limits={name: limits[name] for name in LIMITS},
        )
        self._queue = self._device.queue
        self.half = "shader-f16" in features
        size = min(limits["max-storage-buffer-binding-size"], limits["max-buffer-size"])
        self.max_nbytes = size & -STEP_BYTES
        self.max_bindings = min(
            limits["max-storage-buffers-per-shader-stage"], MAX_BINDINGS
        )
        self.lock = threading.RLock()
        self.timer = None
        if "timestamp-query" in features:
            self.timer = Timer(self._device, BATCH_STEPS + 1)
        self.launches = Launches(self._device)
        self.timing = False
        self._pid = os.getpid()
        self._batch = 0
        self._steps: list[Step] = []
        self._threads: list[int] = []
        self._recent: deque[str] = deque(maxlen=4)
        self._staging: dict[int, list[Any]] = {}
        self.pool = Pool(self._create, lambda: self._batch, self.max_nbytes)
        self._messages: list[str] = []
        self._flagged = False
        self.flag, _ = self.pool.lend_idle(FLAG_BYTES, recorded=False)
        self._queue.write_buffer(self.flag.gpu, 0, bytes(FLAG_BYTES))

    def _create(self, size: int) -> Any:
        """Return a new buffer for arrays."""
        usage = wgpu.BufferUsage
        shared = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        return self._device.create_buffer(size=size, usage=shared)

    # --- errors ----------------------------------------------------------------------

    def _listen(self) -> None:
        """Collect what wgpu reports by its logger, such as the loss of a device."""
        handler = logging.Handler(logging.ERROR)
        handler.emit = self._reported  # type: ignore[method-assign]
        logging.getLogger("wgpu").addHandler(handler)

    def _reported(self, record: logging.LogRecord) -> None:
        self._problems.append(record.getMessage())

    def _failure(self, problem: str) -> pg.BackendError:
        """Return the error for a problem of the device."""
        what = (
            "the device was lost" if "lost" in problem.lower() else "the device failed"
        )
        names = ", ".join(self._recent) or "none"
        return pg.BackendError(
            f"webgpu: {what} ({self.name}): {problem.strip()}; "
            f"the last kernels: {names}"
        )

    def check(self) -> None:
        """Raise a BackendError if the device has reported a problem."""
        if self._problems:
            problems = list(dict.fromkeys(self._problems))
            self._problems.clear()
            raise self._failure("; ".join(problems))

    def check_process(self) -> None:
        """Raise a BackendError in a process that was forked from the device's."""
        if os.getpid() != self._pid:
            raise pg.BackendError(
                "webgpu: this process was forked after the device was opened, and "
                "cannot use it; start processes with the method 'spawn'"
            )

    def message(self, text: str) -> int:
        """Return the number by which kernels report an index error of an op."""
        if text not in self._messages:
            self._messages.append(text)
        return self._messages.index(text) + 1

    def expect_flag(self) -> None:
        """Look at the flag of index errors at the next synchronization."""
        self._flagged = True

    def _raise_flagged(self, flag: Words) -> None:
        number, index, axis, size = flag.tolist()
        self._flagged = False
        if number:
            self._queue.write_buffer(self.flag.gpu, 0, bytes(FLAG_BYTES))
            signed = index - ((index >> 31) << 32)
            raise IndexError(
                f"{self._messages[number - 1]}: index {signed} is out of range for "
                f"axis {axis} with size {size}"
            )

    # --- kernels ---------------------------------------------------------------------

    def launch(
        self,
        name: str,
        source: str,
        writes: Sequence[bool],
        params: bytes,
        groups: Groups,
    ) -> Launch:
        """Return a compiled kernel with its parameters; see ``Launches.launch``."""
        with self.lock:
            return self._guarded(
                lambda: self.launches.launch(name, source, writes, params, groups)
            )

    def run(self, launch: Launch, leases: Sequence[Lease]) -> None:
        """Record a kernel on these buffers; the caller holds the lock."""
        key = (launch.number, *[lease.number for lease in leases])
        group = self.launches.bindings.get(key)
        if group is None:
            group = self._guarded(lambda: self.launches.bind(launch, leases, key))
        self._steps.append((launch, group))
        if self.timing:
            self._threads.append(threading.get_ident())
        if len(self._steps) >= BATCH_STEPS:
            self.flush()

    def _guarded(self, function: Callable[[], Any]) -> Any:
        """Return the result of a function; raise errors of wgpu as a BackendError."""
        try:
            return function()
        except wgpu.GPUOutOfMemoryError as error:
            raise MemoryError(f"webgpu: {error}") from error
        except wgpu.GPUError as error:
            raise self._failure(str(error)) from error

    def flush(self, copies: Sequence[tuple[Any, ...]] = ()) -> None:
        """Submit the recorded kernels, and then copies between buffers."""
        with self.lock:
            steps, self._steps = self._steps, []
            threads, self._threads = self._threads, []
            if not steps and not copies:
                return
            self._recent.extend([launch.name for launch, _ in steps[-4:]])
            collects = gc.isenabled()
            gc.disable()
            try:
                self._guarded(lambda: self._submit(steps, threads, copies))
            finally:
                self._batch += 1
                if collects:
                    gc.enable()
        if self.pool.full():
            self.trim()

    def _submit(
        self,
        steps: Sequence[Step],
        threads: Sequence[int],
        copies: Sequence[tuple[Any, ...]],
    ) -> None:
        encoder = self._device.create_command_encoder()
        if self.timer is not None and len(threads) == len(steps) > 0:
            for i, step in enumerate(steps):
                writes = self.timer.writes(i)
                _encode(encoder.begin_compute_pass(timestamp_writes=writes), [step])
            self.timer.resolve(encoder, threads)
        elif steps:
            _encode(encoder.begin_compute_pass(), steps)
        for copy in copies:
            encoder.copy_buffer_to_buffer(*copy)
        self._queue.submit([encoder.finish()])

    def time(self, on: bool) -> None:
        """Start or stop to measure the kernels that are recorded from now on."""
        if self.timer is not None:
            with self.lock:
                self.flush()
                if on:
                    self.timer.start()
                self.timing = on

    def seconds(self) -> float:
        """Wait, and return how long kernels of the calling thread have run."""
        if self.timer is None:
            return 0.0
        with self.lock:
            self.flush()
            timer = self.timer
            return float(self._guarded(timer.seconds))

    # --- memory ----------------------------------------------------------------------

    def lend(self, size: int) -> Lease:
        """Return a buffer of a size that ``rounded`` has returned."""
        try:
            return self.pool.lend(size)
        except wgpu.GPUOutOfMemoryError:
            self.trim()  # the pool may hold what is missing
        except wgpu.GPUError as error:
            raise self._failure(str(error)) from error
        lease: Lease = self._guarded(lambda: self.pool.lend(size))
        return lease

    def trim(self) -> None:
        """Destroy the free buffers of the pool."""
        with self.lock:
            self.flush()
            self.launches.forget_bindings()
            self.pool.trim()

    def upload(self, data: Any, nbytes: int) -> Lease:
        """Return a buffer that contains ``data``, a contiguous array."""
        self.check_process()
        with self.lock:
            recorded = bool(self._steps)
            lease, used = self._guarded(
                lambda: self.pool.lend_idle(nbytes, recorded=recorded)
            )
            if used:  # a write would overtake the kernels that are recorded
                self.flush()
            if nbytes:
                self._guarded(lambda: self._queue.write_buffer(lease.gpu, 0, data))
            return lease

    def download(self, lease: Lease, nbytes: int) -> Words:
        """Wait for the device, and return a copy of the first bytes of a buffer."""
        self.check_process()
        with self.lock:
            self.check()
            flagged = self._flagged
            size = rounded(nbytes + FLAG_BYTES)
            free = self._staging.setdefault(size, [])
            usage = wgpu.BufferUsage.MAP_READ | wgpu.BufferUsage.COPY_DST
            create = self._device.create_buffer
            staging = free.pop() if free else create(size=size, usage=usage)
            copies = [(lease.gpu, 0, staging, 0, nbytes)] if nbytes else []
            if flagged:
                copies.append((self.flag.gpu, 0, staging, nbytes, FLAG_BYTES))
            self.flush(copies)
            words = self._guarded(lambda: _read(staging, nbytes + FLAG_BYTES))
            if len(free) < STAGING_BUFFERS and size <= 1 << 24:
                free.append(staging)
            self.check()
            if flagged:
                self._raise_flagged(words[nbytes // 4 :])
            return words[: nbytes // 4]

    def synchronize(self) -> None:
        """Wait for all kernels; raise the errors that they have reported."""
        self._flagged = True
        self.download(self.flag, FLAG_BYTES)

    def close(self) -> None:
        """Submit what is recorded, and free the memory of the pool."""
        with self.lock:
            self.trim()
            self._staging.clear()


def _encode(encoder: Any, steps: Sequence[Step]) -> None:
    """Write the commands of a pass."""
    last = None
    for launch, group in steps:
        if launch.pipeline is not last:
            last = launch.pipeline
            encoder.set_pipeline(last)
        encoder.set_bind_group(0, group)
        encoder.dispatch_workgroups(*launch.groups)
    encoder.end()


def _read(staging: Any, nbytes: int) -> Words:
    staging.map_sync(wgpu.MapMode.READ, 0, staging.size)
    words = np.frombuffer(staging.read_mapped(0, nbytes, copy=True), np.uint32)
    staging.unmap()
    return words


_device: Device | None = None
_opening = threading.Lock()


def device() -> Device:
    """Return the device, which is opened at the first call."""
    global _device
    if _device is None:
        with _opening:
            if _device is None:
                _device = Device()
    return _device
