"""Public: the format of region programs, and how NumPy calls machine code.

The format is for backends that run ``native/kernels``. The function ``machine_code`` is
for compilers that generate code for the processor.

A region is a part of a ``plugrad.jit`` graph whose element-wise kernels run in one
pass: all steps on one tile of elements, then all steps on the next tile. Intermediate
results stay in the first-level cache. The program of a region is data, so no machine
code has to be generated. ``region.h`` declares the structures, and ``region.c`` runs
them. A program consists of three tables:

``slots``
    Where each value is stored; a row is a ``SLOT``. ``kind`` is ``ARRAY`` (as many
    elements as the region), ``SCALAR`` (one element, used for all), ``BROADCAST`` (an
    array that is broadcast into a tile) or ``TILE`` (an intermediate result). ``size``
    is the size of an element in bytes. ``place`` is the index of the tile in the
    memory of a thread. For ``BROADCAST``, ``loop`` is the index in the table ``loops``
    at which the description of the broadcast begins.
``steps``
    The C loops that run on each tile, in order; a row is a ``step_dtype``. ``run`` is
    the address of the loop, and ``p`` and ``q`` are numbers that it reads. The first
    ``count`` of the three slots in ``in`` are its inputs, and ``to`` is the slot that
    it writes.
``loops``
    How arrays are broadcast, as int32 numbers: rank, sizes, and strides in elements.

The C function ``run_region`` takes the addresses of the values, in the order of the
slots, and the number of elements. A tile has ``Slots.tile_size`` elements.

Contents: ``machine_code``; ``Loop``, the C loop that replaces a kernel; ``program``,
the steps of a region; ``tables``, the program as bytes; ``Slots``, where its values are
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, cast

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes
from plugrad.plugin import Graph, Spec, Step

from .pool import native

__all__ = [
    "MAX_SLOTS",
    "SHORT_TILE",
    "SLOT",
    "Loop",
    "Run",
    "Share",
    "Slots",
    "Tables",
    "machine_code",
    "program",
    "step_dtype",
    "tables",
]

SLOT = np.dtype([("kind", "i4"), ("size", "i4"), ("place", "i4"), ("loop", "i4")])
ARRAY, SCALAR, BROADCAST, TILE = range(4)
MAX_SLOTS = 128  # REGION_SLOTS of region.h
MAX_OPERANDS = 3  # operands of a step
CACHE_ELEMENTS = 8192  # float32: two thirds of the smallest first-level caches
LONG_TILE = 2048  # elements per tile
# Elements per tile if loop calls are cheap: 4 % faster than LONG_TILE on Zen 3.
SHORT_TILE = 1024
Tables = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]
BOOL = np.dtype(np.bool_)
# Two of these loops become one run if only the second reads the result of the first.
ARITHMETIC = {f"{name}_f32_row": name for name in ("add", "sub", "mul")}


class Share(NamedTuple):
    """How threads share the items of a region, such as its elements or rows.

    Attributes:
        items: The number of items.
        unit: The number of items of a unit, which is never divided. The last unit also
            includes the remaining items.
        units: The number of units; 0 if one thread computes all items.
        grain: The number of units that a thread computes at once.

    """

    items: int
    unit: int = 0
    units: int = 0
    grain: int = 0


def machine_code(
    address: int,
    share: Share,
    inputs: Sequence[Spec],
    constants: Sequence[np.ndarray[Any, Any]],
    outputs: Sequence[Spec],
    owner: object,
) -> Callable[..., Any] | None:
    """Return a function of NumPy arrays that runs machine code.

    The code is a C function ``void code(void *const *arrays, int64_t begin, int64_t
    end)``. It computes the items from ``begin`` to ``end - 1``. ``arrays`` contains the
    addresses of the inputs, the constants and the outputs, in this order. The code must
    not raise, and must be safe to run on several threads if ``share`` has units.

    Args:
        address: The address of the code.
        share: The number of items, and how threads share them. One thread computes all
            if ``PLUGRAD_CPU_NATIVE=0``.
        inputs: The shapes and dtypes of the inputs.
        constants: Arrays that are the same in each call, in row-major order.
        outputs: The shapes and dtypes of the outputs, which a call allocates.
        owner: An object that keeps the code alive.

    Returns:
        A function that returns an array, or a tuple of arrays if there are several
        outputs. It returns ``NotImplemented`` if an input is not as described, or is
        not in row-major order. None, if plugrad-cpu was installed without its C
        extension.

    Raises:
        ValueError: There are more than ``MAX_SLOTS`` arrays.

    Example:
        >>> import ctypes
        >>> from plugrad.plugin import Spec
        >>> @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
        ... def code(arrays, begin, end):  # a compiler generates such a function
        ...     x, y = (ctypes.c_void_p * 2).from_address(arrays)
        ...     ctypes.memmove(y, x, 4 * end)
        >>> address = ctypes.cast(code, ctypes.c_void_p).value
        >>> spec = Spec((3,), np.dtype("float32"))
        >>> copy = machine_code(address, Share(3), [spec], [], [spec], code)
        >>> copy(np.ones(3, "float32")).tolist()
        [1.0, 1.0, 1.0]

    """
    if native is None:
        return None
    first = len(inputs)
    last = first + len(constants)
    given = [(k, x.dtype.num, prod(x.shape)) for k, x in enumerate(inputs)]
    made = [
        (k, y.dtype.num, np.array(y.shape, np.intp).tobytes())
        for k, y in enumerate(outputs, last)
    ]
    kept = dict(enumerate(constants, first))
    return cast(
        "Callable[..., Any]",
        native.machine_code(address, tuple(share), owner, kept, given, made),
    )


class Loop(NamedTuple):
    """The loop that replaces a kernel.

    Attributes:
        name: The name of the C function; empty if no element changes.
        order: Indices of the inputs that it reads, in the order of its operands.
        numbers: The attributes that are passed as numbers.
        then: A second C function, applied to the result of the first.

    """

    name: str
    order: tuple[int, ...] = (0,)
    numbers: tuple[str, ...] = ()
    then: str = ""


class Run(NamedTuple):
    """One run of a loop: its name, numbers, input slots and output slot."""

    name: str
    p: float
    q: float
    given: list[int]
    to: int


def program(
    graph: Graph, loop_of: Callable[[Step], Loop | None]
) -> tuple[Slots, list[Run]] | None:
    """Return the slots and the runs of a region.

    Args:
        graph: The region; all its steps are element-wise.
        loop_of: Returns the loop of a step.

    Returns:
        The slots of the values, and the runs. None if the kernels must run instead: the
        region returns a broadcast input, or has more than ``MAX_SLOTS`` values.

    Example:
        >>> from plugrad.plugin import Graph, Spec, Step, contracts
        >>> step = Step(contracts()["Neg"], "cpu", (0,), {}, (1,))
        >>> spec = Spec((4,), np.dtype("float32"))
        >>> graph = Graph((0,), {}, (step,), (1,), {0: spec, 1: spec})
        >>> program(graph, lambda step: Loop("neg_f32_piece"))[1]
        [Run(name='neg_f32_piece', p=0.0, q=0.0, given=[0], to=1)]

    """
    views = {s.outputs[0] for s in graph.steps if s.kernel.name == "BroadcastTo"}
    if views & {*graph.outputs}:
        return None
    slots = Slots(graph, graph.specs[graph.outputs[0]].shape)
    runs: list[Run] = []
    for step in graph.steps:
        loop = loop_of(step)
        assert loop is not None  # all steps are fusable
        given = [slots.of[x] for x in step.inputs if x is not None]
        if not loop.name:  # the slot of its input is broadcast
            slots.of[step.outputs[0]] = given[0]
            continue
        to = slots.of[step.outputs[0]] = slots.new(step.outputs[0])
        first = slots.tile(BOOL) if loop.then else to
        p, q = [*[float(step.attrs[name]) for name in loop.numbers], 0.0, 0.0][:2]
        runs.append(Run(loop.name, p, q, [given[k] for k in loop.order], first))
        if loop.then:
            runs.append(Run(loop.then, 0.0, 0.0, [first], to))
            slots.drop(first)
        slots.drop_after(step)
        if joined := _join_runs(runs[-2:], slots):
            runs[-2:] = [joined]
    return (slots, runs) if len(slots.rows) <= MAX_SLOTS else None


def _join_runs(runs: Sequence[Run], slots: Slots) -> Run | None:
    """Return a single run that replaces two runs; None if they cannot be joined."""
    if len(runs) < 2 or any(run.name not in ARITHMETIC for run in runs):
        return None
    first, second = runs
    if second.given.count(first.to) != 1 or first.to not in slots.free[4]:
        return None
    one, two = (ARITHMETIC[run.name] for run in runs)
    a, b = second.given
    two = "rsub" if two == "sub" and b == first.to else two
    given = [*first.given, a if b == first.to else b]
    return Run(f"{one}_{two}_f32_row", 0.0, 0.0, given, second.to)


def step_dtype(pointer: str) -> np.dtype[Any]:
    """Return the dtype of a step; ``pointer`` is ``"u4"`` or ``"u8"``."""
    numbers = [("p", "f8"), ("q", "f8")]
    slots = [("count", "i4"), ("in", "i4", MAX_OPERANDS), ("to", "i4")]
    return np.dtype([("run", pointer), *numbers, *slots], align=True)


def tables(
    slots: Slots, runs: Sequence[Run], address: Callable[[str], int], *, pointer: str
) -> Tables:
    """Return the tables of a program: its slots, steps and loops.

    Args:
        slots: The slots of the values.
        runs: The runs of the loops.
        address: Returns the address of a loop, given its name.
        pointer: The dtype of addresses on the machine: ``"u4"`` or ``"u8"``.

    """
    steps = [
        (address(r.name), r.p, r.q, len(r.given), [*r.given, 0, 0][:MAX_OPERANDS], r.to)
        for r in runs
    ]
    rows = np.array(slots.rows, SLOT), np.array(steps, step_dtype(pointer))
    return (*rows, np.array(slots.loops, np.int32))


class Slots:
    """The slots of a region's values: see region.h.

    Attributes:
        of: The slot of each value.
        rows: The rows of the table ``slots``.
        loops: The integers of the table ``loops``.
        constants: The slots of constants, which are not passed in a call.
        places: The number of tiles for which a thread needs memory.
        periods: The number of elements after which each broadcast array repeats.
        free: Tile slots that can be reused, by the size of their elements.

    """

    def __init__(self, graph: Graph, shape: tuple[int, ...]) -> None:
        self.graph = graph
        self.shape = shape
        self.places = 0
        self.of: dict[int, int] = {}
        self.rows: list[tuple[int, int, int, int]] = []
        self.loops: list[int] = []
        self.periods: list[int] = []
        self.free: dict[int, list[int]] = {1: [], 4: []}  # keys: element size in bytes
        self._last = {x: s for s in graph.steps for x in s.inputs}
        broadcast = {s.inputs[0] for s in graph.steps if s.kernel.name == "BroadcastTo"}
        for x in (*graph.inputs, *graph.constants):
            self.of[x] = self._input(x, x in broadcast)
        self.constants = {x: self.of[x] for x in graph.constants}

    def _input(self, x: int, broadcast: bool) -> int:
        """Return an input's slot; ``broadcast``: if a BroadcastTo step reads it."""
        spec = self.graph.specs[x]
        size = spec.dtype.itemsize
        count = prod(spec.shape)
        if count == prod(self.shape):
            return self._add(ARRAY, size)
        if count == 1 and not broadcast:
            return self._add(SCALAR, size)
        axes = collapse_axes(self.shape, broadcast_strides(spec.shape, len(self.shape)))
        loop = len(self.loops)
        self.loops = [*self.loops, len(axes)]
        self.loops += [n for n, _ in axes] + [step for _, step in axes]
        if axes[0][1] == 0:
            self.periods.append(prod([n for n, _ in axes[1:]]))
        self.places += 1
        return self._add(BROADCAST, size, self.places - 1, loop)

    def _add(self, kind: int, size: int, place: int = 0, loop: int = 0) -> int:
        self.rows.append((kind, size, place, loop))
        return len(self.rows) - 1

    def new(self, y: int) -> int:
        """Return a slot for the result of a step."""
        dtype = self.graph.specs[y].dtype
        if y in self.graph.outputs:
            return self._add(ARRAY, dtype.itemsize)
        return self.tile(dtype)

    def tile_size(self, preferred: int = LONG_TILE) -> int:
        """Return the number of elements of a tile, such that all tiles fit in cache.

        Arrays often begin at the same offset in a page; their tiles then compete for
        the same cache lines. The size is a multiple of the periods of broadcast arrays
        where possible, because a tile that does not change is broadcast only once.

        Args:
            preferred: The size to use if it fits and no broadcast array repeats.

        """
        arrays = sum(kind == ARRAY for kind, *_ in self.rows)
        best = LONG_TILE if arrays < 4 else 512 if arrays < 6 else 256
        most = min(best, CACHE_ELEMENTS // (arrays + self.places) // 64 * 64)
        period = max([p for p in self.periods if p <= most], default=1)
        return max(min(preferred, most) // period, 1) * period

    def tile(self, dtype: np.dtype[Any]) -> int:
        """Return a tile slot; each has room for float32 elements."""
        free = self.free[dtype.itemsize]
        if free:
            return free.pop()
        self.places += 1
        return self._add(TILE, dtype.itemsize, self.places - 1)

    def drop(self, slot: int) -> None:
        """Release the slot of a tile; other slots are not reused."""
        kind, size, *_ = self.rows[slot]
        if kind == TILE:
            self.free[size].append(slot)

    def drop_after(self, step: Step) -> None:
        """Release the values that no later step reads."""
        for x in {*step.inputs, *step.outputs}:
            if x is not None and self._last.get(x, step) is step:
                self.drop(self.of[x])
