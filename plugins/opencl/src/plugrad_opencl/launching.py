"""Launches compiled kernels with their arguments in the queues of a device.

Contents: ``Launch``; ``Relaunch``, a launch with constant numbers; the number of work
items.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from .source import BLOCK_ELEMENTS

if TYPE_CHECKING:
    from .runtime import Device

INLINE_MAX_ELEMENTS = 1 << 16  # ``size`` of a launch that may run in the calling thread


class Compiled:
    """A pyopencl kernel, and the numbers among the arguments of its last launch."""

    __slots__ = ("kernel", "numbers")

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.numbers: Any = None


class Launch:
    """A kernel of a device; ``launch(size, items, *args)`` enqueues it.

    ``size`` is the work in elements, by which small kernels are recognized. ``items``
    is the global size. Buffers are set at each launch, because PoCL crashes if a buffer
    of an earlier launch has been released. Numbers are set only if they differ from
    those of the last launch. Threads share a ``Launch`` under the device's lock.
    """

    __slots__ = (
        "__weakref__",
        "_kernels",
        "_name",
        "_numbers",
        "_programs",
        "_scalars",
        "_source",
        "buffers",
        "device",
        "group",
        "items",
    )

    def __init__(
        self, device: Device, source: str, name: str, scalars: Any, group: int
    ) -> None:
        self.device = device
        self._source = source
        self._name = name
        self.items = blocks if group == 1 else _grouped(group, source)
        self._scalars = scalars
        self.group = (group,)
        self.buffers = [i for i, kind in enumerate(scalars) if kind is None]
        self._numbers = _integer_getter(scalars)
        self._kernels: list[Compiled | None] = [None] * len(device.queues)
        self._programs: dict[int, Any] = {}

    def __call__(self, size: int, items: int, *args: Any) -> None:
        """Enqueue the kernel."""
        if items < 1:
            raise ValueError(
                f"opencl: {self._name}: {items} work items; there must be at least one"
            )
        device = self.device
        if (notes := device.current_notes()) is not None:
            notes.launched(self, size, items, args)
        self.send(size, items, self._kernels, self._enqueue, args)

    def send(
        self,
        size: int,
        items: int,
        kernels: list[Compiled | None],
        enqueue: Callable[..., Any],
        args: Any,
    ) -> None:
        """Enqueue one of the ``kernels``: ``enqueue(compiled, queue, items, args)``.

        The kernel is removed from ``kernels`` until it is enqueued. Between setting its
        arguments and enqueueing it, a finalizer may launch the same kernel; that launch
        compiles another one.
        """
        device = self.device
        with device.lock:
            queue_index = 0
            queue = device.wide
            before = device.pending
            if (
                device.has_quick
                and size <= INLINE_MAX_ELEMENTS
                and (before is None or not device._busy())
            ):
                queue_index = 1
                queue = device.quick
                before = None
            compiled, kernels[queue_index] = kernels[queue_index], None
            if compiled is None:
                compiled = self._compiled(queue_index)
            device.recent.append(self._name)
            try:
                event = enqueue(compiled, queue, items, args)
            except cl.Error as error:
                event = device.recover(error, enqueue, compiled, queue, items, args)
            kernels[queue_index] = compiled
            if device.has_quick and not queue_index:
                device.record_event(event, before)

    def _enqueue(
        self, compiled: Compiled, queue: Any, items: int, args: tuple[Any, ...]
    ) -> Any:
        """Set the arguments that may have changed, enqueue, and return the event.

        If this raises an error, the kernel is not used again.
        """
        kernel = compiled.kernel
        numbers = None if self._numbers is None else self._numbers(args)
        if numbers is not None and numbers == compiled.numbers:
            for index in self.buffers:
                kernel.set_arg(index, args[index])
        else:
            kernel.set_args(*args)
            compiled.numbers = numbers
        return self.device.enqueue(queue, kernel, (items,), self.group)

    def _compiled(self, index: int) -> Compiled:
        program = self._programs[index] = self.device.program(self._source, index)
        kernel = self.device._do(cl.Kernel, program, self._name)
        kernel.set_scalar_arg_dtypes(self._scalars)
        return Compiled(kernel)


class Slot(int):
    """The index of a buffer, with a type that distinguishes it from other numbers."""


class Relaunch:
    """A launch with constant numbers: a call only sets the buffers in its slots."""

    __slots__ = ("_args", "_items", "_kernels", "_launch", "_places", "_size")

    def __init__(self, launch: Launch, size: int, items: int, args: list[Any]) -> None:
        self._launch = launch
        self._size = size
        self._items = items
        self._args = args
        self._places = [(i, x) for i, x in enumerate(args) if type(x) is Slot]
        self._kernels: list[Compiled | None] = [None] * len(launch.device.queues)

    def __call__(self, buffers: list[Any]) -> None:
        """Enqueue the kernel."""
        send = self._launch.send
        send(self._size, self._items, self._kernels, self._enqueue, buffers)

    def _enqueue(
        self, compiled: Compiled, queue: Any, items: int, buffers: list[Any]
    ) -> Any:
        kernel = compiled.kernel
        if compiled.numbers is None:
            args = [buffers[x] if type(x) is Slot else x for x in self._args]
            kernel.set_args(*args)
            compiled.numbers = ()
        else:
            for index, slot in self._places:
                kernel.set_arg(index, buffers[slot])
        launch = self._launch
        return launch.device.enqueue(queue, kernel, (items,), launch.group)


def _integer_getter(scalars: Sequence[Any]) -> Callable[[Any], Any] | None:
    """Return a function that selects the numbers to compare among arguments.

    None if there are no numbers, or if some are floating-point: 0.0 equals -0.0.
    """
    kinds = {i: np.dtype(kind).kind for i, kind in enumerate(scalars) if kind}
    if not kinds or not {*kinds.values()} <= {*"biu"}:
        return None
    return operator.itemgetter(*kinds)


def blocks(n: int) -> int:
    """Return the number of work items for ``n`` elements: one for each block."""
    return 1 if n <= BLOCK_ELEMENTS else -(-n // BLOCK_ELEMENTS)


def _grouped(group: int, source: str) -> Callable[[int], int]:
    """Return a function that computes the items for ``n`` elements, in whole groups.

    ``PER_ITEM`` in the source is the number of elements per item, if not 1.
    """
    per_item = re.search(r"^#define PER_ITEM (\d+)$", source, re.M)
    elements = group * int(per_item[1] if per_item else 1)
    return lambda n: -(-n // elements) * group
