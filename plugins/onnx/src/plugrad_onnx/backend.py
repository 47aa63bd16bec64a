"""``plugrad_onnx.backend``: the ONNX backend interface.

``prepare(model, "CPU").run(inputs)`` takes arrays and returns arrays. A device is
"CPU", which means the active plugrad backend, or the name of a backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import plugrad as pg
from onnx.backend.base import Backend, BackendRep
from plugrad.importing import on_backend

from .model import Model, load
from .reader import to_array

__all__ = ["PlugradBackend", "PreparedModel", "prepare", "run_model", "supports_device"]


class PreparedModel(BackendRep):
    """A model that maps arrays to arrays."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the outputs; inputs are a sequence, or a dict by input name."""
        with on_backend(self.model.backend):
            return self._run(inputs)

    def _run(self, inputs: Any) -> tuple[Any, ...]:
        arguments = [inputs] if isinstance(inputs, np.ndarray) else inputs
        if isinstance(arguments, dict):
            result = self.model(**{name: _as_input(x) for name, x in arguments.items()})
        else:
            result = self.model(*map(_as_input, arguments))
        outputs = result if len(self.model.outputs) > 1 else (result,)
        return tuple(map(_as_array, outputs))


def _as_input(value: Any) -> Any:
    """Return an input as a tensor: a model would keep a small array on the host."""
    if isinstance(value, list):
        return [_as_input(one) for one in value]
    if isinstance(value, onnx.TensorProto):
        value = to_array(value)
    if value is None or np.asarray(value).dtype.kind in "OU":
        return value
    if value.dtype.name in ("int4", "uint4", "int2", "uint2"):
        value = to_array(onnx.numpy_helper.from_array(value))
    return pg.asarray(value)


def _as_array(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_array(one) for one in value]
    if value is None:
        return None
    if value.dtype.kind == "O":
        texts = [text.decode("utf-8") for text in value.numpy().reshape(-1)]
        return np.array(texts, object).reshape(value.shape)
    return value.numpy()


class PlugradBackend(Backend):
    """plugrad as an ONNX backend."""

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any
    ) -> PreparedModel:
        """Load a model for a device."""
        backend = None if device.upper() == "CPU" else device
        return PreparedModel(load(model, backend=backend, **kwargs))

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Load a model and return its outputs."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Any = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run a single node and return its outputs."""
        make_info = onnx.helper.make_tensor_value_info
        elem_types = [
            onnx.helper.np_dtype_to_tensor_dtype(np.asarray(x).dtype) for x in inputs
        ]
        rows = zip(filter(None, node.input), elem_types, inputs, strict=True)
        input_infos = [
            make_info(name, elem_type, np.shape(x)) for name, elem_type, x in rows
        ]
        outputs = [
            onnx.helper.make_empty_tensor_value_info(name) for name in node.output
        ]
        graph = onnx.helper.make_graph([node], "node", input_infos, outputs)
        model = onnx.helper.make_model(graph)
        return cls.run_model(model, list(inputs), device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device names an available backend."""
        return device.upper() == "CPU" or device in pg.backends()


prepare = PlugradBackend.prepare
run_model = PlugradBackend.run_model
run_node = PlugradBackend.run_node
supports_device = PlugradBackend.supports_device
