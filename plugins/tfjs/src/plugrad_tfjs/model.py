"""``load``, and the ``Model`` that it returns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import (
    ValueInfo,
    bind_inputs,
    loading,
    on_backend,
    open_backend,
)

from . import layers, ops  # noqa: F401 - they fill the tables
from .files import read, write
from .graph_reader import read_graph
from .layers_reader import read_layers
from .program import TfjsProgram

__all__ = ["Model", "TfjsExplanation", "load"]


def load(
    path: str | Path,
    *,
    backend: str | None = None,
    budget: pg.Budget | None = None,
) -> Model:
    """Load a TensorFlow.js model, and return it as a function of tensors.

    Args:
        path: The path of a ``model.json`` or of its folder. The weights are read only
            from that folder.
        backend: The backend to run on; None: the backend that is active in each call.
        budget: Limits on the memory and time of loading; by default
            ``plugrad.Budget()``.

    Raises:
        OSError: The file cannot be opened.
        ModelError: The model is malformed, contains unsupported layers, ops or settings
            (the message names all of them), or exceeds the budget.
        BackendUnavailable: There is no such backend.

    Example:
        >>> import json, pathlib, tempfile
        >>> config = {"name": "flat", "batch_input_shape": [None, 2, 2]}
        >>> layers = [{"class_name": "Flatten", "config": config}]
        >>> topology = {"class_name": "Sequential", "config": {"layers": layers}}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.json")
        ...     model = {"modelTopology": topology, "weightsManifest": []}
        ...     _ = path.write_text(json.dumps(model))
        ...     model = load(path)
        >>> print(model)
        <Model (flat_input: float32[?, 2, 2])>
        >>> print(model([[[1.0, 2.0], [3.0, 4.0]]]).tolist())
        [[1.0, 2.0, 3.0, 4.0]]

    """
    if backend is not None:
        open_backend("load", backend)
    budget = pg.Budget.started(budget, "load")
    path = Path(path)
    path = path / "model.json" if path.is_dir() else path
    with loading():
        model, weights = read(path, budget)
        topology = model.get("modelTopology")
        is_graph = isinstance(topology, Mapping) and "node" in topology
        make = read_graph if is_graph else read_layers
        return Model(make(model, weights, budget), model, backend)


class TfjsExplanation:
    """A summary of a model; ``print`` shows it.

    Attributes:
        ops: The number of layers or ops that run, by name.
        parameters: The total number of elements in the parameters.

    """

    def __init__(self, program: TfjsProgram) -> None:
        names = [step.op for step in program.steps]
        self.ops = {name: names.count(name) for name in sorted({*names})}
        self.parameters = sum(x.size for x in program.params.values())

    def __str__(self) -> str:
        """Return the totals and a line for each op."""
        rows = [f"{sum(self.ops.values())} steps, {self.parameters} parameters"]
        return "\n".join([*rows, *(f"  {op} {n}" for op, n in self.ops.items())])


class Model:
    """A TensorFlow.js model: a function of tensors and of parameters.

    ``model(x)`` and ``model(name=x)`` return a tensor, or a tuple if the model has more
    than one output. ``apply(params, x)`` does the same with other parameters, so that
    you can differentiate with respect to them. Dropout does nothing, and batch norms
    use the moving averages.

    Attributes:
        inputs: Name, dtype and shape of each input.
        trainable: The names of the parameters that training changes.

    """

    def __init__(
        self, program: TfjsProgram, source: Mapping[str, Any], backend: str | None
    ) -> None:
        self.backend = backend
        self.inputs: tuple[ValueInfo, ...] = tuple(info for info, _ in program.inputs)
        self.trainable = tuple(n for n in program.params if n not in program.frozen)
        self._program, self._source = program, source
        self._tensors: dict[str, dict[str, pg.Tensor]] = {}  # by backend

    def __jit_state__(self) -> tuple[Any, ...]:
        """Return the state that calls read and that may change between calls."""
        return self.backend, self._tensors

    @property
    def params(self) -> dict[str, pg.Tensor]:
        """The floating-point weights by name, as tensors."""
        with on_backend(self.backend):
            return dict(self._params())

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the output, or a tuple of the outputs."""
        return self.apply({}, *args, **named)

    def apply(self, params: Mapping[str, Any], /, *args: Any, **named: Any) -> Any:
        """Return the outputs with the given parameters replaced."""
        program: TfjsProgram = self._program
        with on_backend(self.backend):
            all_params = {**self._params(), **self._check_params("apply", params)}
            values = bind_inputs(self.inputs, args, named)
            rows = zip(self.inputs, values, strict=True)
            results = program.run(all_params, [_as_input(*row) for row in rows])
            outputs = tuple(pg.asarray(x) for x in results)
        return outputs[0] if len(outputs) == 1 else outputs

    def to(self, backend: str | None) -> Model:
        """Return the same model on another backend; None: the active one."""
        if backend is not None:
            open_backend("to", backend)
        return Model(self._program, self._source, backend)

    def explain(self) -> TfjsExplanation:
        """Return a summary of the model."""
        return TfjsExplanation(self._program)

    def save(self, path: str | Path, params: Mapping[str, Any] | None = None) -> None:
        """Write the model in the TensorFlow.js format.

        Args:
            path: The file of the topology, ``model.json``. The weights are written in
                one file next to it, ``model.weights.bin``. Quantized weights are
                written as float32.
            params: Trained parameters by name. Parameters that are left out keep the
                values of the file.

        Raises:
            OSError: A file cannot be written.
            ValueError: A parameter is unknown or has the wrong shape.

        """
        program: TfjsProgram = self._program
        new_params = self._check_params("save", params or {})
        arrays = {**program.params, **program.constants}
        new = {
            k: pg.asarray(x).numpy().astype(arrays[k].dtype)
            for k, x in new_params.items()
        }
        write(Path(path), self._source, {**arrays, **new})

    def _params(self) -> dict[str, pg.Tensor]:
        """Return the parameters on the active backend."""
        backend = pg.get_backend()
        if backend not in self._tensors:
            arrays = self._program.params
            with pg.outside(), pg.use_backend(backend):  # tensors outlive the call
                self._tensors[backend] = {k: pg.asarray(x) for k, x in arrays.items()}
        return self._tensors[backend]

    def _check_params(
        self, function: str, params: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        known = self._program.params
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{function}: the model has no parameter {name!r}; model.params "
                    "lists the names"
                )
            shape = value.shape if hasattr(value, "shape") else np.shape(value)
            if tuple(shape) != known[name].shape:
                raise ValueError(
                    f"{function}: the parameter {name!r} has the shape "
                    f"{known[name].shape}, not {tuple(shape)}"
                )
        return params

    def __repr__(self) -> str:
        """Return the inputs."""
        return f"<Model ({', '.join(map(str, self.inputs))})>"


def _as_input(info: ValueInfo, value: Any) -> pg.Tensor:
    """Convert an input to the dtype of the model if no value is truncated."""
    x = value if isinstance(value, pg.Tensor | pg.Variable) else np.asarray(value)
    kinds = {"bool": "b", "int32": "biu", "float32": "biuf"}.get(
        str(info.dtype), "biufc"
    )
    message = f"model: the input must be {info}, not {x.dtype}{[*x.shape]}"
    if x.dtype.kind not in kinds:
        raise TypeError(message)
    if not info.fits(x.shape):
        raise ValueError(message)
    if x.dtype == info.dtype:
        return pg.asarray(x)
    if isinstance(x, np.ndarray):
        return pg.asarray(x.astype(info.dtype))
    return pg.astype(x, info.dtype)
