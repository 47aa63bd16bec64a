"""Compiles a region of a graph to one kernel, from the expressions of its kernels.

Each step becomes a separate C function. The compiler contracts a product and a sum
within a function, as it does in the kernel of the step, but not across functions.
Therefore the results have the same bits as those of the separate kernels.

Contents: ``fusable``, which steps can be in a region; ``compiled``, the function of a
region; ``Code``, its C code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from plugrad.plugin import Graph, Step

from . import source
from .arrays import ClArray, ClOwner, DType, Shape
from .elementwise import Programs, signed, unsigned, width
from .kernels import KERNELS
from .kernels.creation import converter
from .runtime import Device, Launch
from .walk import FLAT, Form, Input, Output, form, lanes, layout, walk

CODELESS = ("BroadcastTo", "Identity")  # no code is needed: inputs broadcast anyway
LONG_ROW_ELEMENTS = 256  # in longer rows, the scalar remainder is negligible
MAX_ARGUMENTS = 120  # 8 bytes each; every device accepts 1024 bytes


def fusable(step: Step, graph: Graph) -> bool:
    """Return whether the kernel of a step is an expression that works on vectors."""
    dtypes = _dtypes(step, graph)
    if step.kernel.name in CODELESS:
        return dtypes[0] in source.C and dtypes[0].kind != "c"
    programs = _programs(step)
    return programs is not None and programs.is_vector(dtypes)


def compiled(device: Device, graph: Graph) -> Callable[..., Any] | None:
    """Return a function of a region's inputs; None if separate kernels should run."""
    code = Code(graph)
    if len(graph.steps) < 2 or not code.lines or len(code.libraries) > 1:
        return None
    dtypes = [graph.specs[y].dtype for y in graph.outputs]
    shape = graph.specs[graph.outputs[0]].shape
    n = prod(shape)
    advances, rank, sizes = _layout(shape, [graph.specs[x].shape for x in code.inputs])
    if len(advances) + len(code.numbers) + len(dtypes) + len(sizes) >= MAX_ARGUMENTS:
        return None
    gpu = device.style == "gpu"
    indexing = form(n, tuple(advances), rank, sizes, code.lanes()) if gpu else FLAT
    launch = code.launch(device, advances, rank, sizes, indexing)
    items = launch.items(n)
    numbers = code.numbers
    constants = [*graph.constants.values()]

    def run(*xs: ClArray) -> Any:
        ys = [ClOwner(device, shape, dtype, n) for dtype in dtypes]
        buffers = [x.buffer for x in (*xs, *constants)]
        indexing = [y.buffer for y in ys]
        launch(n, items, *buffers, *numbers, *indexing, n, *sizes)
        return tuple(ys) if len(ys) > 1 else ys[0]

    return run


def _layout(
    shape: Shape, shapes: Sequence[Shape]
) -> tuple[list[str], int, tuple[int, ...]]:
    """Return how each input advances, and the rank and sizes of ``layout``."""
    others = [own for own in shapes if own != shape]
    _, pattern, rank, sizes = layout(shape, *others)
    rest = iter(pattern[1:])
    advances = ["=" if own == shape else next(rest) for own in shapes]
    return advances, rank, sizes[:rank] + sizes[2 * rank :]


def _programs(step: Step) -> Programs | None:
    """Return the programs of an element-wise kernel; None for others."""
    name = step.kernel.name
    kernel = KERNELS.get(name)
    if name == "Cast":
        dtype = step.attrs["dtype"]
        kernel = converter(dtype) if dtype in source.C else None
    programs: Programs | None = getattr(kernel, "programs", None)
    return programs


def _dtypes(step: Step, graph: Graph) -> tuple[DType, ...]:
    """Return the dtypes of the inputs; element-wise kernels need all of them."""
    return tuple([graph.specs[x].dtype for x in step.inputs if x is not None])


class Code:
    """The C code of a region: a function per kind of step, and a line per step.

    Attributes:
        inputs: The inputs of the graph, and then its constants.
        numbers: The attributes of all steps, which are arguments of the kernel.
        lines: C statements that compute one variable each.
        libraries: The elementary functions that steps call, by dtype.

    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.inputs = [*graph.inputs, *graph.constants]
        self.variables = {x: f"v{i}" for i, x in enumerate(self.inputs)}
        self.numbers: list[float] = []
        self.types: list[str] = []  # the C types of the numbers
        self.lines: list[str] = []
        self.libraries: dict[DType, str] = {}
        self.functions: dict[Any, tuple[str, str]] = {}  # names and texts
        for step in graph.steps:
            self._add(step)

    def _add(self, step: Step) -> None:
        (y,) = step.outputs
        dtypes = _dtypes(step, self.graph)
        given = [self.variables[x] for x in step.inputs if x is not None]
        programs = _programs(step)
        if programs is None:  # one of ``CODELESS``
            self.variables[y] = given[0]
            return
        numbers = programs.numbers(dtypes, step.attrs)
        given += [f"a{len(self.numbers) + i}" for i in range(len(numbers))]
        out = self.graph.specs[y].dtype
        if (programs, dtypes) not in self.functions:
            name = f"op{len(self.functions)}"
            text = self._function(name, programs, dtypes, out)
            self.functions[programs, dtypes] = name, text
        name, _ = self.functions[programs, dtypes]
        self.numbers += numbers
        self.types += [programs.parts(dtypes).number] * len(numbers)
        self.variables[y] = variable = f"v{len(self.inputs) + len(self.lines)}"
        self.lines.append(
            f"const {_vector(out)} {variable} = {name}({', '.join(given)});"
        )

    def _function(
        self, name: str, programs: Programs, dtypes: tuple[DType, ...], out: DType
    ) -> str:
        """Return the C function of a kernel, which defines the types that it uses."""
        work, number, _, code = programs.parts(dtypes)
        if library := source.functions(code, work):
            self.libraries[work] = library
        inputs = [*zip(map(_vector, dtypes), programs.inputs, strict=True)]
        types = {f"X{i}": vector for i, (vector, _) in enumerate(inputs)}
        types |= {"T": _vector(work), "S": source.C[work], "I": f"V_{signed(work)}"}
        types |= {"U": unsigned(work), "Y": _vector(out), "SY": source.C[out]}
        typedefs = " ".join([f"typedef {c} {name};" for name, c in types.items()])
        parameters = [f"{vector} {parameter}" for vector, parameter in inputs]
        parameters += [f"{number} {parameter}_" for parameter in programs.attrs]
        head = f"static inline {_vector(out)} {name}({', '.join(parameters)})"
        return f"{head} {{ {typedefs} {code} }}"

    def definitions(self, known: DType | None = None) -> list[str]:
        """Return the types and functions for the lines.

        For the dtype ``known``, the types ``T`` and ``S`` are already defined.
        """
        specs = self.graph.specs
        types = {f"X{i}": source.C[specs[x].dtype] for i, x in enumerate(self.inputs)}
        dtypes = {spec.dtype for spec in specs.values()}
        for c in {source.C[d] for d in dtypes} | {signed(d) for d in dtypes}:
            types[f"V_{c}"] = c
        found = [f"VECTOR({name}, {c});" for name, c in sorted(types.items())]
        for t, library in self.libraries.items():
            typedefs = f"typedef {_vector(t)} T; typedef {source.C[t]} S;"
            found += [typedefs * (t is not known), f"typedef V_{signed(t)} I;", library]
        return found + [text for _, text in self.functions.values()]

    def lanes(self) -> int:
        """Return how many neighboring elements a work item of a GPU computes."""
        return lanes([spec.dtype for spec in self.graph.specs.values()])

    def launch(
        self,
        device: Device,
        advances: Sequence[str],
        rank: int,
        sizes: Sequence[int],
        form: Form,
    ) -> Launch:
        """Return the kernel for inputs that advance as ``advances`` describes."""
        specs = self.graph.specs
        row = sizes[0] if rank else LONG_ROW_ELEMENTS
        cs = [source.C[specs[x].dtype] for x in self.inputs]
        outputs = [(specs[y].dtype, self.variables[y]) for y in self.graph.outputs]
        return walk(
            device,
            "region",
            _width(device, [spec.dtype for spec in specs.values()], row),
            self.definitions(),
            [Input(*pair) for pair in zip(cs, advances, strict=True)],
            self.types,
            " ".join(self.lines),
            [Output(_vector(d), source.C[d], v) for d, v in outputs],
            rank,
            form,
            self.lanes(),
        )


def _width(device: Device, dtypes: Sequence[DType], row: int) -> int:
    """Return the vector width on a CPU: 16 if that is one register or two.

    Regions compute more per element than most kernels, whose width is 8. With two
    registers, the processor computes with one while the other waits. The rest of a row
    is computed element by element, so short rows also have a width of 8.
    """
    wide = 16 if device.lanes >= 8 else 8
    narrow = max(d.itemsize for d in dtypes) == 4
    whole = row % wide == 0 or row >= LONG_ROW_ELEMENTS
    return wide if narrow and whole else width(*dtypes)


def _vector(dtype: DType) -> str:
    """Return the name of the C vector type for a dtype."""
    return f"V_{source.C[dtype]}"
