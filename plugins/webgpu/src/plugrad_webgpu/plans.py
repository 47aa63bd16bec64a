"""Plans: what a kernel launches for inputs of given shapes and dtypes.

A *planner* computes with slots, which stand for arrays, and records the launches in a
``Plan``. ``planned`` turns it into a kernel function: the planner runs once for each
signature, and later calls only allocate memory and record the launches. Planners call
each other to combine kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import source
from .arrays import KINDS, Array, DType, Shape, itemsize, signature
from .device import Device, device
from .launching import Groups, Launch
from .memory import rounded
from .source import Number

MAX_CACHED_PLANS = 8192  # of each kernel
UINT32 = np.dtype("uint32")
FLAG = -1  # the place of the buffer for index errors


class Slot(NamedTuple):
    """An array of a plan, by its place among the buffers of a call."""

    place: int
    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def kind(self) -> str:
        """The letter of the dtype: b, f, h, i or u."""
        return KINDS[self.dtype]

    def view(self, shape: Shape, dtype: DType | None = None) -> Slot:
        """Return the same memory with another shape, or as another dtype."""
        return Slot(self.place, shape, dtype or self.dtype)


class Use(NamedTuple):
    """How a kernel uses a slot: numbers per element, the access, the stored type."""

    slot: Slot
    lanes: int = 1
    write: bool = False
    type: str = ""  # by default that of the dtype

    @property
    def buffer(self) -> source.Buffer:
        """The declaration."""
        found = self.type or source.STORAGE[self.slot.kind]
        found = f"vec{self.lanes}<{found}>" if self.lanes > 1 else found
        return source.Buffer(found, self.write)


class Plan:
    """The launches and allocations of a kernel for one signature."""

    def __init__(self, device: Device, inputs: Sequence[tuple[Shape, DType] | None]):
        self.device = device
        self.steps: list[tuple[Launch, tuple[int, ...]]] = []
        self.allocations: list[int] = []
        self.checks = False
        self._count = sum(spec is not None for spec in inputs)
        places = iter(range(self._count))
        self.inputs = [spec and Slot(next(places), *spec) for spec in inputs]
        self.outputs: list[tuple[int, Shape, DType, int, int]] = []
        self.single = True

    def new(self, shape: Shape, dtype: DType) -> Slot:
        """Return a slot for a new array, with any contents."""
        self.allocations.append(rounded(math.prod(shape) * itemsize(dtype)))
        return Slot(self._count + len(self.allocations) - 1, tuple(shape), dtype)

    def flag(self) -> Use:
        """Return the buffer in which a kernel reports an index error."""
        self.checks = True
        return Use(Slot(FLAG, (4,), UINT32), write=True)

    def run(
        self,
        name: str,
        uses: Mapping[str, Use],
        params: Mapping[str, Number],
        body: str,
        items: int,
        *,
        threads: int = source.GROUP_THREADS,
        grouped: bool = False,
        more: str = "",
        grid: Groups | None = None,
        head: str = "",
    ) -> None:
        """Record a launch, unless there is nothing to do.

        Args:
            name: The name of the kernel, for messages.
            uses: The buffers by their names in the body.
            params: The parameters; the body reads ``p.name``.
            body: The statements; ``id`` is the number of the item.
            items: The number of items: threads, or workgroups if ``grouped``.
            threads: The threads of a workgroup.
            grouped: Whether an item is a workgroup, whose threads are ``lid``.
            more: Declarations: functions and workgroup memory.
            grid: The workgroups, for an entry point of its own.
            head: That entry point.

        """
        if not items:
            return
        whole = {"count": items, "zero": 0, **params}
        buffers = {key: use.buffer for key, use in uses.items()}
        own = source.per_group if grouped else source.per_item
        text = source.kernel(whole, buffers, body, head or own(threads), more)
        writes = [use.write for use in uses.values()]
        groups = grid or source.grid(items, 1 if grouped else threads)
        launch = self.device.launch(name, text, writes, source.packed(whole), groups)
        self.steps.append((launch, tuple([use.slot.place for use in uses.values()])))

    def finish(self, result: Slot | Sequence[Slot]) -> None:
        """Set the outputs."""
        self.single = isinstance(result, Slot)
        slots = [result] if isinstance(result, Slot) else [*result]
        self.outputs = [
            (y.place, y.shape, y.dtype, y.size, signature(y.shape, y.dtype))
            for y in slots
        ]

    def __call__(self, *xs: Array) -> Any:
        """Run the plan on arrays; return an array, or a tuple of several."""
        device = self.device
        device.check_process()
        with device.lock:
            leases = [x.lease for x in xs]
            leases += [device.lend(size) for size in self.allocations]
            if self.checks:
                device.expect_flag()
                leases.append(device.flag)  # at the place -1
            for launch, places in self.steps:
                device.run(launch, [leases[place] for place in places])
        found = []
        for place, shape, dtype, size, number in self.outputs:
            x = xs[place] if place < len(xs) else None
            base = None if x is None else x.base or x
            found.append(Array(shape, dtype, leases[place], base, size, number))
        return found[0] if self.single else tuple(found)


Planner = Callable[..., Slot | Sequence[Slot] | None]
MISSING: Any = object()


def _exact(value: Any) -> Any:
    """Return a key for an attribute, which distinguishes 0.0 from -0.0."""
    return value.hex() if type(value) is float else value


def planned(planner: Planner, *, every_dtype: bool = False) -> Callable[..., Any]:
    """Return the kernel function of a planner.

    Args:
        planner: A function of a plan, the slots of the inputs (None for an omitted one)
            and the attributes. It returns None for what the host should compute.
        every_dtype: Whether it also takes dtypes that the device only stores.

    """
    plans: dict[Any, Any] = {}  # None: the host computes it

    def kernel(*xs: Any, **attrs: Any) -> Any:
        key: Any = tuple([x.signature if type(x) is Array else None for x in xs])
        if attrs:
            key = (key, *[(k, _exact(v)) for k, v in attrs.items()])
        plan = plans.get(key, MISSING)
        if plan is MISSING:
            if len(plans) >= MAX_CACHED_PLANS:
                plans.clear()
            plan = plans[key] = _plan(planner, every_dtype, xs, attrs)
        if plan is None:
            return NotImplemented
        return plan(*[x for x in xs if type(x) is Array])

    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(kernel, name, getattr(planner, name))
    return kernel


def _plan(
    planner: Planner, every_dtype: bool, xs: Sequence[Any], attrs: Mapping[str, Any]
) -> Plan | None:
    """Return the plan of a signature; None if the host should run it."""
    specs = [(x.shape, x.dtype) if type(x) is Array else None for x in xs]
    used = [spec[1] for spec in specs if spec]
    if "dtype" in attrs:
        used.append(attrs["dtype"])
    if not every_dtype and any(dtype not in KINDS for dtype in used):
        return None
    plan = Plan(device(), specs)
    given = zip(plan.inputs, xs, strict=True)  # the Arrays of ``Fill`` have no slot
    inputs = [slot for slot, x in given if slot is not None or x is None]
    result = planner(plan, *inputs, **attrs)
    if result is None:
        return None
    plan.finish(result)
    return plan
