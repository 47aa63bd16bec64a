"""Records the launches of a kernel, and replays them without the kernel's Python.

A kernel selects programs, sizes and arguments by the shapes of its inputs. This Python
code takes 10 to 50 us, which is longer than the programs run on a GPU. ``Recorded``
notes which arrays a kernel creates and what it launches. If a second call does the
same, later calls only replay these launches with other buffers (``Launches``).

A kernel is not recorded if it reads or writes values on the host, or checks indices.

Contents: ``by_shape``, a kernel that is recorded for each shape; ``Recorded``;
``Notes``, the record of one call; ``Launches``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import get_precision

from .arrays import ClArray, ClOwner, DType, Shape
from .launching import Launch, Relaunch, Slot
from .runtime import Device

MAX_SHAPES = 512  # sets of shapes for which a kernel keeps its launches
MAX_CALLS = 4  # recorded calls; recording ends if no two in a row are equal


def by_shape(
    kernel: Callable[..., Any], *, by_precision: bool = False
) -> Callable[..., Any]:
    """Return ``kernel``, recorded once for each set of shapes, dtypes and attributes.

    Args:
        kernel: A function of native arrays.
        by_precision: Whether it depends on ``plugrad.precision``.

    """
    known: dict[Any, Recorded] = {}

    def call(*xs: Any, **attrs: Any) -> Any:
        specs = [x if x is None else (x.shape, x.dtype) for x in xs]
        values = [v.hex() if type(v) is float else v for v in attrs.values()]
        key: tuple[Any, ...] = (xs[0].device, *specs, *values)
        if by_precision:
            key = (get_precision(), *key)
        found = known.get(key)
        if found is None:
            if len(known) >= MAX_SHAPES:
                known.clear()
            found = known[key] = Recorded(xs[0].device, partial(kernel, **attrs))
        return found(*xs)

    marks = vars(kernel)  # such as that of plugin.takes_bfloat16
    vars(call).update(marks, kernel=kernel, known=known)
    return call


class Recorded:
    """A function of native arrays that is always called with the same specs."""

    __slots__ = ("_calls_left", "_device", "_function", "_last", "_launches")

    def __init__(self, device: Device, function: Callable[..., Any]) -> None:
        self._device, self._function = device, function
        self._calls_left = MAX_CALLS
        self._last: Trace | None = None
        self._launches: Launches | None = None

    def __call__(self, *xs: Any) -> Any:
        """Replay the launches if possible; otherwise call the function."""
        if self._device.notes is not None:  # another call is being recorded
            return self._function(*xs)
        if self._launches is not None:
            return self._launches(xs)
        return self._record(xs) if self._calls_left else self._function(*xs)

    def _record(self, xs: tuple[Any, ...]) -> Any:
        given = [x for x in xs if x is not None]
        if not all(isinstance(x, ClArray) for x in given):
            self._calls_left = 0  # an input of strings, which stay on the host
            return self._function(*xs)
        if len({id(x.buffer) for x in given}) < len(given):
            return self._function(*xs)  # two inputs share a buffer: slots are ambiguous
        device = self._device
        notes = Notes(xs)
        with device.lock:
            if device.notes is not None:  # another thread has begun to record
                return self._function(*xs)
            device.notes = notes
        try:
            y = self._function(*xs)
        finally:
            device.notes = None
        trace = notes.trace(y)
        if trace is not None and trace == self._last:
            self._launches = Launches(device, trace)
        self._calls_left -= 1
        self._last = trace
        return y


class Made(NamedTuple):
    """A step that creates an array of ``size`` elements."""

    shape: Shape
    dtype: DType
    size: int


class Filled(NamedTuple):
    """A step that fills a buffer with the bytes of a value."""

    slot: Slot
    value: bytes
    nbytes: int


class Launched(NamedTuple):
    """A step that launches a kernel, with a ``Slot`` in place of each buffer."""

    launch: Launch
    size: int
    items: int
    args: tuple[Any, ...]


class Result(NamedTuple):
    """An array that a function returns."""

    slot: Slot
    shape: Shape
    dtype: DType


class Trace(NamedTuple):
    """The record of one call of a function.

    Attributes:
        steps: ``Made``, ``Filled`` and ``Launched``.
        constants: The buffers that are neither inputs nor created, by slot.
        results: The arrays that it returned.
        several: Whether it returned a tuple.

    """

    steps: tuple[Any, ...]
    constants: dict[int, Any]
    results: tuple[Result, ...]
    several: bool


class Notes:
    """Notes the steps of one call on a device, in this thread.

    Buffers are numbered: first those of the inputs, then those that the call creates.
    Other buffers are constants and have negative numbers.
    """

    def __init__(self, xs: tuple[Any, ...]) -> None:
        self.thread = threading.get_ident()
        self._slots = {id(x.buffer): Slot(i) for i, x in enumerate(xs) if x is not None}
        self._held = [x and x.buffer for x in xs]  # kept alive, so that no id is reused
        self._constants: dict[int, Any] = {}
        self._steps: list[Any] = []
        self._fails = False

    def made(self, y: ClOwner) -> None:
        """Note a new array; its buffer may have belonged to an earlier array."""
        self._slots[id(y.buffer)] = Slot(len(self._held))
        self._held.append(y.buffer)
        self._steps.append(Made(y.shape, y.dtype, y.size))

    def filled(self, buffer: Any, value: np.ndarray[Any, Any], nbytes: int) -> None:
        """Note that a buffer is filled."""
        self._steps.append(Filled(self._slot(buffer), value.tobytes(), nbytes))

    def launched(self, launch: Launch, size: int, items: int, args: Any) -> None:
        """Note a launch."""
        places = {*launch.buffers}
        found = [self._slot(x) if i in places else x for i, x in enumerate(args)]
        self._steps.append(Launched(launch, size, items, tuple(found)))

    def fail(self) -> None:
        """Note that the call depends on more than shapes and dtypes."""
        self._fails = True

    def trace(self, y: Any) -> Trace | None:
        """Return the trace; None if it cannot be replayed."""
        ys = y if isinstance(y, tuple) else (y,)
        if self._fails or not all(isinstance(t, ClArray) for t in ys):
            return None
        results = [Result(self._slot(t.buffer), t.shape, t.dtype) for t in ys]
        if any(result.slot < 0 for result in results):
            return None
        several = isinstance(y, tuple)
        return Trace(tuple(self._steps), self._constants, tuple(results), several)

    def _slot(self, buffer: Any) -> Slot:
        found = self._slots.get(id(buffer))
        if found is None:
            found = self._slots[id(buffer)] = Slot(-1 - len(self._constants))
            self._constants[found] = buffer
        return found


class Launches:
    """The trace of a function, to be replayed with other buffers."""

    __slots__ = ("__del__", "_constants", "_device", "_results", "_several", "_steps")
    __del__: MethodType

    def __init__(self, device: Device, trace: Trace) -> None:
        self._device = device
        # A cache may drop the array that owns a constant. Kernels do not keep the
        # constant alive, and do not keep the pool from lending it again. So it is
        # pinned.
        self._constants = [*trace.constants.values()]
        if self._constants:
            unpin = device.pool.pin(self._constants)
            self.__del__ = MethodType(unpin, self._constants)
        self._steps = [_replay(device, step, trace.constants) for step in trace.steps]
        self._results, self._several = trace.results, trace.several

    def __call__(self, xs: tuple[Any, ...]) -> Any:
        """Return the results for these inputs."""
        arrays = [*xs]
        buffers = [x and x.buffer for x in xs]
        for step in self._steps:
            if type(step) is Made:
                y = ClOwner(self._device, *step)
                arrays.append(y)
                buffers.append(y.buffer)
            else:
                step(buffers)
        ys = [
            _result(arrays[slot], shape, dtype) for slot, shape, dtype in self._results
        ]
        return tuple(ys) if self._several else ys[0]


def _replay(device: Device, step: Any, constants: dict[int, Any]) -> Any:
    """Return a step as a function of the buffers; ``Launches`` creates the arrays."""
    if isinstance(step, Made):
        return step
    if isinstance(step, Filled):
        value = np.frombuffer(step.value, np.uint8)
        return lambda buffers: device.fill(buffers[step.slot], value, step.nbytes)
    args = [constants[x] if type(x) is Slot and x < 0 else x for x in step.args]
    return Relaunch(step.launch, step.size, step.items, args)


def _result(y: ClArray, shape: Shape, dtype: DType) -> ClArray:
    return y if y.shape == shape and y.dtype == dtype else y.view(shape, dtype)
