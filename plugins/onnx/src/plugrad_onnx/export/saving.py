"""``save`` exports a function of plugrad ops as an ONNX model.

The kernels that ``jit`` records become nodes.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnx
import plugrad as pg

from .parts import expanded
from .table import EXPORTS
from .writer import Writer

__all__ = ["save"]


def save(
    f: Callable[..., Any],
    example_inputs: Sequence[Any],
    path: str | Path | None = None,
    *,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
) -> onnx.ModelProto:
    """Return a function as an ONNX model, and write it to a file.

    The inputs of the model have fixed shapes, those of the examples. Tensors that the
    function captures become initializers. If the function assigns items of an input,
    such as a cache, and does not return it, the model returns the new value as well.

    Args:
        f: A function of tensors that returns a tensor or a tree of tensors. Which
            kernels it calls must not depend on the values of its inputs.
        example_inputs: A list with one example tensor per input.
        path: The file to write; None: no file.
        input_names: The names of the inputs; by default ``x0``, ``x1`` and so on.
        output_names: The names of the outputs; by default ``y0``, ``y1`` and so on.

    Raises:
        TypeError: ``example_inputs`` is not a list or a tuple.
        ValueError: ``jit`` cannot record the function, the function reads Variables, or
            ONNX has no equivalent of some kernels; the message names all of them.

    Example:
        >>> import plugrad as pg
        >>> from plugrad_onnx import load, save
        >>> proto = save(lambda x: pg.tanh(x) + 1.0, [pg.ones(2)])
        >>> [node.op_type for node in proto.graph.node]
        ['Tanh', 'Add']
        >>> load(proto, backend="cpu")([0.0, 0.0])
        Tensor([1., 1.], dtype=float32, backend='cpu')

    """
    if not isinstance(example_inputs, list | tuple):
        raise TypeError(
            "save: example_inputs must be a list with an example of each input, got "
            f"{type(example_inputs).__name__}; for one input, pass [x]"
        )
    with pg.use_backend("cpu"):  # its native arrays are NumPy arrays
        values = [copy.copy(pg.asarray(x).to("cpu")) for x in example_inputs]
        explanation = pg.jit(f, frozen=_packages()).explain(*values)
    graph = explanation.graph
    if graph is None:
        raise ValueError(f"save: the function cannot be recorded: {explanation.reason}")
    if len(graph.inputs) != len(values):
        raise ValueError(
            f"save: the function uses {len(graph.inputs)} inputs, but there are "
            f"{len(values)} examples; use every input in the function, and pass the "
            "values of Variables as inputs"
        )
    returned = graph.outputs[: explanation.results]
    changed = [y for y in graph.outputs[len(returned) :] if y not in returned]
    graph = graph._replace(outputs=(*returned, *changed))
    with pg.use_backend("cpu"):
        graph = expanded(graph, EXPORTS)
    model = Writer(graph, EXPORTS, input_names, output_names).model()
    onnx.checker.check_model(model)
    if path is not None:
        onnx.save(model, str(path))
    return model


def _packages() -> list[str]:
    """Return the packages that are imported.

    The recording is used once, so nothing that the function reads can change before.
    To examine it would only reject what ``jit`` cannot watch, such as Keras' state.
    """
    packages = {name.partition(".")[0] for name in list(sys.modules)}
    return sorted(name for name in packages if name.isidentifier())
