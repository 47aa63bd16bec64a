"""Runs a model: checks and converts inputs, and keeps a session for each backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import ValueInfo, bind_inputs, on_backend

from .graph import Graph
from .program import OnnxProgram, Session, run_outside_scopes

__all__ = ["Runner"]

# Integer and bool inputs with at most this many elements stay on the host, because they
# may be shapes.
HOST_MAX_ELEMENTS = 1024


class Runner:
    """Runs a graph for a ``Model``, with one session per backend."""

    def __init__(self, graph: Graph, backend: str | None) -> None:
        self.graph, self.backend = graph, backend
        self.program = OnnxProgram(graph)
        self.sessions: dict[str, Session] = {}
        self.tensors: list[list[pg.Tensor]] = []  # one list per session

    def session(self) -> Session:
        """Return the session of the active backend."""
        backend = pg.get_backend()
        if backend not in self.sessions:
            graphs = [self.graph, *self.graph.inner()]
            arrays = {k: v for graph in graphs for k, v in graph.params.items()}
            make_tensors = lambda: {name: pg.asarray(x) for name, x in arrays.items()}
            self.sessions[backend] = Session(
                run_outside_scopes(make_tensors, backend), backend
            )
            self.tensors.append(self.sessions[backend].tensors)
        return self.sessions[backend]

    def params(self) -> dict[str, pg.Tensor]:
        """Return the parameters on the backend of the model."""
        with on_backend(self.backend):
            return dict(self.session().params)

    def run(
        self,
        params: Mapping[str, Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Any:
        """Return the outputs with some parameters replaced."""
        with on_backend(self.backend), np.errstate(all="ignore"):
            session = self.session()
            if params:
                session = self.with_params(session, params)
            infos = self.graph.inputs
            rows = zip(infos, bind_inputs(infos, args, named), strict=True)
            found = self.program.run(session, [_as_input(*row) for row in rows])
        outputs = [_as_output(value) for value in found]
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def with_params(self, session: Session, params: Mapping[str, Any]) -> Session:
        """Return a session for one call with some parameters replaced."""
        unknown = sorted(params.keys() - session.params.keys())
        if unknown:
            raise ValueError(
                f"apply: the model has no parameters {unknown}; model.params lists the "
                "names"
            )
        given = {name: pg.asarray(value) for name, value in params.items()}
        return Session({**session.params, **given})


def _as_input(info: ValueInfo, value: Any) -> Any:
    if value is None or (info.dtype is None and isinstance(value, list | tuple)):
        return None if value is None else [_as_input(info, one) for one in value]
    if not isinstance(value, pg.Tensor | np.ndarray | pg.Variable):
        value = np.asarray(value, info.dtype)
    if value.dtype.kind == "O" or info.dtype == object:
        return _strings(value)
    message = f"model: the input must be {info}, not {value.dtype}{[*value.shape]}"
    if info.dtype is not None and value.dtype != info.dtype:
        raise TypeError(message)
    if not info.fits(value.shape):
        raise ValueError(message)
    small = value.dtype.kind in "iub" and value.size <= HOST_MAX_ELEMENTS
    if isinstance(value, np.ndarray) and small:
        return value
    return pg.asarray(value)


def _strings(value: Any) -> Any:
    """Return text as a host array of str."""
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
