"""Kernels without their Python: what they launch is noted, and launched again.

A kernel selects programs, sizes and arguments by the shapes of its inputs. Python takes
10 to 50 us for that, and on a GPU longer than what it launches runs. ``Recorded`` notes
which arrays a kernel makes and what it launches. If a second call does the same, later
ones are ``Launches``: the same arrays and arguments, with other buffers.

A kernel is not recorded if it reads or writes values on the host, or checks indices.

Map: ``by_shape``, a kernel that is recorded for each shape; ``Recorded``; ``Notes``, of
one call; ``Launches``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import get_precision

from .arrays import ClArray, ClOwner, DType, Shape
from .launching import Again, Launch, Slot
from .runtime import Device

MAX_SHAPES = 512  # of one kernel, for which launches are kept
MAX_CALLS = 4  # that are compared, before a kernel is given up


def by_shape(
    kernel: Callable[..., Any], *, by_precision: bool = False
) -> Callable[..., Any]:
    """Return a kernel that is recorded for all shapes, dtypes and attributes.

    Args:
        kernel: What it does.
        by_precision: Whether that depends on ``plugrad.precision``.

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

    vars(call).update(kernel=kernel, known=known)
    return call


class Recorded:
    """A function of native arrays, called with the same shapes and dtypes each time."""

    __slots__ = ("_calls_left", "_device", "_function", "_last", "_launches")

    def __init__(self, device: Device, function: Callable[..., Any]) -> None:
        self._device, self._function = device, function
        self._calls_left = MAX_CALLS
        self._last: Trace | None = None
        self._launches: Launches | None = None

    def __call__(self, *xs: Any) -> Any:
        """Return what the function returns."""
        if self._device.notes is not None:  # within another call, or of another thread
            return self._function(*xs)
        if self._launches is not None:
            return self._launches(xs)
        return self._noted(xs) if self._calls_left else self._function(*xs)

    def _noted(self, xs: tuple[Any, ...]) -> Any:
        given = [x for x in xs if x is not None]
        if not all(isinstance(x, ClArray) for x in given):
            self._calls_left = 0  # strings
            return self._function(*xs)
        if len({id(x.buffer) for x in given}) < len(given):
            return self._function(*xs)  # it could not be told which one is meant
        device = self._device
        notes = Notes(xs)
        with device.lock:
            if device.notes is not None:  # another thread was faster
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
    """An array that a function makes: ``size`` elements."""

    shape: Shape
    dtype: DType
    size: int


class Filled(NamedTuple):
    """A buffer that is filled with the bytes of a value."""

    slot: Slot
    value: bytes
    nbytes: int


class Launched(NamedTuple):
    """A launch, with a ``Slot`` in place of each buffer."""

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
    """What a function did.

    Attributes:
        steps: ``Made``, ``Filled`` and ``Launched``.
        constants: The arrays of ``constants`` in slots, by number.
        results: What it returned.
        several: Whether that was a tuple.

    """

    steps: tuple[Any, ...]
    constants: dict[int, Any]
    results: tuple[Result, ...]
    several: bool


class Notes:
    """What happens on a device during one call, in this thread.

    Buffers have numbers: those of inputs, and then those that the call makes. Others
    are constants, whose numbers are negative.
    """

    def __init__(self, xs: tuple[Any, ...]) -> None:
        self.thread = threading.get_ident()
        self._slots = {id(x.buffer): Slot(i) for i, x in enumerate(xs) if x is not None}
        self._held = [x and x.buffer for x in xs]  # so that no identity is used again
        self._constants: dict[int, Any] = {}
        self._steps: list[Any] = []
        self._fails = False

    def made(self, y: ClOwner) -> None:
        """Note a new array; its buffer may have been that of an earlier one."""
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
        """Return what happened; None if it cannot be done again."""
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
    """What a function did, done again with other buffers."""

    __slots__ = ("_constants", "_device", "_results", "_several", "_steps")

    def __init__(self, device: Device, trace: Trace) -> None:
        self._device = device
        self._constants = [*trace.constants.values()]  # kernels do not keep them
        self._steps = [_again(device, step, trace.constants) for step in trace.steps]
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


def _again(device: Device, step: Any, constants: dict[int, Any]) -> Any:
    """Return a step as a function of the buffers; arrays are made by ``Launches``."""
    if isinstance(step, Made):
        return step
    if isinstance(step, Filled):
        value = np.frombuffer(step.value, np.uint8)
        return lambda buffers: device.fill(buffers[step.slot], value, step.nbytes)
    args = [constants[x] if type(x) is Slot and x < 0 else x for x in step.args]
    return Again(step.launch, step.size, step.items, args)


def _result(y: ClArray, shape: Shape, dtype: DType) -> ClArray:
    return y if y.shape == shape and y.dtype == dtype else y.view(shape, dtype)
