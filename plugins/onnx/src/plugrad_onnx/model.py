"""``load``, and the ``Model`` that it returns."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import plugrad as pg
from google.protobuf.message import DecodeError
from plugrad.plugin import runtime

from . import registry
from .graph import Graph
from .passes import Report, optimized
from .program import Program, Session, apart
from .proto import ModelError, ValueInfo
from .reader import Reader

__all__ = ["Explanation", "Model", "load"]

SMALL = 1024  # integers of an input, at most this many, stay on the host
Source = str | Path | bytes | onnx.ModelProto


def load(source: Source, *, backend: str | None = None, optimize: bool = True) -> Model:
    """Return a model that is called with tensors.

    Args:
        source: The path of a file, what stands in it, or a ``ModelProto``. Data in
            other files is found by path only, in the folder of the model.
        backend: Where it runs; by default on the backend that is active in each call.
        optimize: Whether batch norms are folded into convolutions, activations are run
            by the kernels before them, constants are folded, and images are kept with
            channels last from one convolution to the next.

    Raises:
        ModelError: The model is malformed, or has ops or dtypes that are not supported;
            the message names all of them.

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
    proto, folder = _read(source)
    graph, report = Reader(proto, folder).read(), Report()
    if backend is not None:
        _check_dtypes(graph, backend)
    if optimize:
        optimized(graph, report)
    return Model(graph, report, backend)


def _read(source: Source) -> tuple[onnx.ModelProto, Path | None]:
    if isinstance(source, onnx.ModelProto):
        return source, None
    if isinstance(source, bytes):
        data, folder = source, None
    else:
        path = Path(source)
        data, folder = path.read_bytes(), path.parent
    try:
        return onnx.ModelProto.FromString(data), folder
    except DecodeError as error:
        raise ModelError([f"it is no ONNX file: {error}"]) from None


def _check_dtypes(graph: Graph, backend: str) -> None:
    """Raise if a backend lacks the dtype of an input or a parameter."""
    found = {info.name: info.dtype for info in graph.inputs if info.dtype is not None}
    for one in [graph, *graph.inner()]:
        found |= {name: x.dtype for name, x in one.params.items()}
    has = {*runtime(backend).dtypes, "object"}
    lacking = [(name, dtype) for name, dtype in found.items() if str(dtype) not in has]
    if lacking:
        raise ModelError(
            f"value {name!r}: backend {backend!r} has no {dtype}; use another backend, "
            "or convert the model"
            for name, dtype in lacking
        )


class Explanation:
    """What became of a model; ``print`` shows it.

    Attributes:
        nodes: The number of nodes that run for each input.
        folded: The number of nodes that are computed once.
        transposes: The number of transposes that run for each input.
        changes: What the passes did, and how often.
        ops: The ops that run for each input, and how many there are of each.

    """

    def __init__(self, program: Program, report: Report) -> None:
        self.nodes, self.folded = len(program.after), len(program.before)
        names = [step.node.op for step in program.after]
        self.ops = {name: names.count(name) for name in sorted({*names})}
        self.transposes = self.ops.get("Transpose", 0)
        self.changes = dict(report.changes)

    def __str__(self) -> str:
        """Return one line for each of them."""
        rows = [
            f"{self.nodes} nodes run for each input, {self.folded} once",
            f"{self.transposes} transposes are left",
        ]
        rows += [f"{what}: {count}" for what, count in self.changes.items()]
        rows += [f"  {name} {count}" for name, count in self.ops.items()]
        return "\n".join(rows)


class Model:
    """A model of ONNX: a function of tensors, and of parameters.

    ``model(x)`` and ``model(name=x)`` return a tensor, or a tuple if the model has more
    than one output. ``apply(params, x)`` does so with other parameters, by which it can
    be differentiated.

    Attributes:
        graph: The nodes, inputs, outputs, constants and parameters; ``print`` shows it.
        inputs: Name, dtype and shape of each input.
        outputs: The same of the outputs.

    """

    def __init__(self, graph: Graph, report: Report, backend: str | None) -> None:
        self.graph, self.backend, self._report = graph, backend, report
        self.inputs: tuple[ValueInfo, ...] = tuple(graph.inputs)
        self.outputs: tuple[ValueInfo, ...] = tuple(graph.outputs)
        self._program = Program(graph)
        self._sessions: dict[str, Session] = {}

    @property
    def params(self) -> dict[str, pg.Tensor]:
        """The floating-point initializers by name, as tensors."""
        with self.scope():
            return dict(self._session().params)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the output, or a tuple of the outputs."""
        with self.scope():
            return self._run(self._session(), args, named)

    def apply(self, params: Mapping[str, Any], /, *args: Any, **named: Any) -> Any:
        """Return the outputs with other parameters; those left out stay as they are."""
        with self.scope():
            known = self._session().params
            unknown = sorted(params.keys() - known.keys())
            if unknown:
                raise ValueError(
                    f"apply: the model has no parameters {unknown}; those are in "
                    "model.params"
                )
            given = {name: pg.asarray(value) for name, value in params.items()}
            session = Session({**known, **given})
            return self._run(session, args, named)

    def to(self, backend: str | None) -> Model:
        """Return the same model on another backend; None: on the active one."""
        with pg.use_backend(backend) if backend else contextlib.nullcontext():
            return Model(self.graph, self._report, backend)

    def explain(self) -> Explanation:
        """Return how many nodes run, and what the passes did."""
        return Explanation(self._program, self._report)

    def __repr__(self) -> str:
        """Return the name, the inputs and the outputs."""
        inputs, outputs = (", ".join(map(str, x)) for x in (self.inputs, self.outputs))
        return f"<Model {self.graph.name!r} ({inputs}) -> ({outputs})>"

    def scope(self) -> Any:
        """Return a block in which the backend of the model is active."""
        return (
            pg.use_backend(self.backend) if self.backend else contextlib.nullcontext()
        )

    def _session(self) -> Session:
        backend = pg.get_backend()
        if backend not in self._sessions:
            arrays = self._params()
            move = lambda: {name: pg.asarray(x) for name, x in arrays.items()}
            self._sessions[backend] = Session(apart(move, backend), backend)
        return self._sessions[backend]

    def _params(self) -> dict[str, Any]:
        return {
            name: values
            for graph in [self.graph, *self.graph.inner()]
            for name, values in graph.params.items()
        }

    def _run(
        self, session: Session, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Any:
        values = self._values(args, named)
        with np.errstate(all="ignore"):
            found = self._program.run(session, values)
        outputs = [_as_output(value) for value in found]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _values(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the inputs in their order, each of the dtype that the file says."""
        names = [info.name for info in self.inputs]
        if len(args) > len(names):
            raise TypeError(f"model: {len(args)} inputs, of {len(names)}: {names}")
        given = dict(zip(names, args, strict=False))
        twice, unknown = given.keys() & named.keys(), named.keys() - {*names}
        given |= named
        missing = [name for name in names if name not in given]
        if twice or unknown or missing:
            said = {"given twice": twice, "unknown": unknown, "missing": missing}
            reasons = [f"{what}: {sorted(x)}" for what, x in said.items() if x]
            raise TypeError(f"model: the inputs are {names}; {', '.join(reasons)}")
        return [_as_input(info, given[info.name]) for info in self.inputs]


def _as_input(info: ValueInfo, value: Any) -> Any:
    if value is None or (info.dtype is None and isinstance(value, list | tuple)):
        return None if value is None else [_as_input(info, one) for one in value]
    if not isinstance(value, pg.Tensor | np.ndarray | pg.Variable):
        value = np.asarray(value, info.dtype)
    if value.dtype.kind == "O" or info.dtype == object:
        return _strings(value)
    wrong = info.dtype is not None and value.dtype != info.dtype
    if wrong or not _fits(tuple(value.shape), info.shape):
        raise TypeError(
            f"model: the input must be {info}, not {value.dtype}{[*value.shape]}"
        )
    small = value.dtype.kind in "iub" and value.size <= SMALL
    if isinstance(value, np.ndarray) and small:
        return value
    return pg.asarray(value)


def _fits(shape: tuple[int, ...], wanted: tuple[int | str | None, ...] | None) -> bool:
    return wanted is None or (
        len(shape) == len(wanted)
        and all(
            type(n) is not int or n == m for m, n in zip(shape, wanted, strict=True)
        )
    )


def _strings(value: Any) -> Any:
    """Return an array of str: text stays on the host."""
    values = value.numpy() if isinstance(value, pg.Tensor) else np.asarray(value)
    rows = [
        x.decode("utf-8") if isinstance(x, bytes) else str(x)
        for x in values.reshape(-1)
    ]
    found = np.empty(len(rows), object)
    found[:] = rows
    return found.reshape(values.shape)


def _as_output(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_output(one) for one in value]
    return value if value is None else pg.asarray(value)
