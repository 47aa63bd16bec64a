"""``load``, and the ``Model`` that it returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import onnx
import plugrad as pg
from google.protobuf.message import DecodeError
from plugrad.importing import ModelError, ValueInfo, loading, open_backend

from . import ops, registry  # noqa: F401 - ops fill the table
from .graph import Graph
from .passes import Report, optimize_graph
from .program import OnnxProgram
from .reader import Reader, charge
from .runner import Runner

__all__ = ["Model", "OnnxExplanation", "load"]

Source = str | Path | bytes | onnx.ModelProto


def load(
    source: Source,
    *,
    backend: str | None = None,
    optimize: bool = True,
    budget: pg.Budget | None = None,
) -> Model:
    """Load an ONNX model, and return it as a function of tensors.

    Args:
        source: The path of a file, its content, or a ``ModelProto``. External data is
            read from the folder of the file, so it requires a path.
        backend: The backend to run on; None: the one that is active in each call.
        optimize: Whether to fold batch norms into convolutions, fuse activations into
            the kernels before them, fold constants, and keep images channels-last
            from one convolution to the next.
        budget: Limits on the memory and time of loading; by default
            ``plugrad.Budget()``.

    Raises:
        OSError: The file cannot be opened.
        ModelError: The model is malformed, contains unsupported ops or dtypes (the
            message names all of them), or exceeds the budget.
        BackendUnavailable: There is no such backend.

    Example:
        >>> import onnx
        >>> from onnx.parser import parse_model
        >>> proto = parse_model('''
        ...     <ir_version: 8, opset_import: ["": 17]>
        ...     twice (float[N] x) => (float[N] y) { y = Add(x, x) }
        ... ''')
        >>> model = load(proto)
        >>> print(model([1.0, 2.0]).tolist())
        [2.0, 4.0]

    """
    registry.load_plugins()
    dtypes = None if backend is None else open_backend("load", backend).dtypes
    budget = pg.Budget.started(budget, "load")
    with loading():
        proto, folder = _read(source, budget)
        try:
            graph = Reader(proto, folder, budget).read()
            report = Report(budget)
        except UnicodeDecodeError as error:
            raise ModelError([f"a name in the model is not UTF-8: {error}"]) from None
        if dtypes is not None:
            _check_dtypes(graph, str(backend), dtypes)
        if optimize:
            optimize_graph(graph, report)
        return Model(graph, report, backend)


def _read(source: Source, budget: pg.Budget) -> tuple[onnx.ModelProto, Path | None]:
    if isinstance(source, onnx.ModelProto):
        budget.measure(source.ByteSize())
        return source, None
    if isinstance(source, bytes):
        budget.measure(len(source))
        data, folder = source, None
    else:
        path = Path(source)
        try:
            data = budget.read(path)
            folder = path.parent
        except pg.BudgetError:
            raise
        except ValueError as error:  # a pipe
            raise ModelError([str(error)]) from None
    charge(data, budget)
    try:
        return onnx.ModelProto.FromString(data), folder
    except DecodeError as error:
        raise ModelError([f"it is not an ONNX file: {error}"]) from None


def _check_dtypes(graph: Graph, backend: str, dtypes: Collection[str]) -> None:
    """Raise if the dtype of an input or a parameter is not in ``dtypes``."""
    found = {info.name: info.dtype for info in graph.inputs if info.dtype is not None}
    for one in [graph, *graph.inner()]:
        found |= {name: x.dtype for name, x in one.params.items()}
    dtypes = {*dtypes, "object"}
    missing = [
        (name, dtype) for name, dtype in found.items() if str(dtype) not in dtypes
    ]
    if missing:
        raise ModelError(
            f"value {name!r}: backend {backend!r} has no {dtype}; use another backend, "
            "or convert the model"
            for name, dtype in missing
        )


class OnnxExplanation:
    """A summary of the optimized graph; ``print`` shows it.

    Attributes:
        nodes: The number of nodes that run in each call.
        folded: The number of nodes that run only once.
        transposes: The number of transposes that run in each call.
        changes: For each kind of change, how often the passes made it.
        ops: For each op, the number of its nodes that run in each call.

    """

    def __init__(self, program: OnnxProgram, report: Report) -> None:
        self.nodes, self.folded = len(program.after), len(program.before)
        names = [step.node.op for step in program.after]
        self.ops = {name: names.count(name) for name in sorted({*names})}
        self.transposes = self.ops.get("Transpose", 0)
        self.changes = dict(report.changes)

    def __str__(self) -> str:
        """Return one line for each attribute."""
        rows = [
            f"{self.nodes} nodes run for each input, {self.folded} once",
            f"{self.transposes} transposes are left",
        ]
        rows += [f"{what}: {count}" for what, count in self.changes.items()]
        rows += [f"  {name} {count}" for name, count in self.ops.items()]
        return "\n".join(rows)


class Model:
    """An ONNX model: a function of tensors and of parameters.

    ``model(x)`` and ``model(name=x)`` return a tensor, or a tuple if the model has more
    than one output. ``apply(params, x)`` does the same with other parameters, so that
    you can differentiate with respect to them.

    Attributes:
        graph: The nodes, inputs, outputs, constants and parameters; ``print`` shows it.
        inputs: Name, dtype and shape of each input.
        outputs: Name, dtype and shape of each output.

    """

    def __init__(self, graph: Graph, report: Report, backend: str | None) -> None:
        self.graph = graph
        self.backend = backend
        self._report = report
        self.inputs: tuple[ValueInfo, ...] = tuple(graph.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(graph.outputs)
        self._runner = Runner(graph, backend)

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return the state that calls read and that may change between calls."""
        return self.backend, self._runner.tensors

    @property
    def params(self) -> dict[str, pg.Tensor]:
        """The floating-point weights by name, as tensors."""
        return self._runner.params()

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the output, or a tuple of the outputs."""
        return self._runner.run({}, args, named)

    def apply(self, params: Mapping[str, Any], /, *args: Any, **named: Any) -> Any:
        """Return the outputs with the given parameters replaced."""
        return self._runner.run(params, args, named)

    def to(self, backend: str | None) -> Model:
        """Return the same model on another backend; None: the active one."""
        if backend is not None:
            dtypes = open_backend("to", backend).dtypes
            _check_dtypes(self.graph, backend, dtypes)
        return Model(self.graph, self._report, backend)

    def explain(self) -> OnnxExplanation:
        """Return the node counts and the changes that the passes made."""
        return OnnxExplanation(self._runner.program, self._report)

    def __repr__(self) -> str:
        """Return the name, the inputs and the outputs."""
        inputs, outputs = (", ".join(map(str, x)) for x in (self.inputs, self.outputs))
        return f"<Model {self.graph.name!r} ({inputs}) -> ({outputs})>"
