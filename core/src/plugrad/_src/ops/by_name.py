"""Run a kernel by name, and inspect the engine.

Contents: ``run_kernel``; ``engine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plugrad._src.engine import checks, context, dispatch
from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry
from plugrad._src.tensor import arguments
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import TensorLike

from .basis import _convert

if TYPE_CHECKING:
    from plugrad._src.tools.state import EngineState

__all__ = ["engine", "run_kernel"]


def run_kernel(
    name: str,
    inputs: Sequence[TensorLike | None] | Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Run a kernel by name on the active backend; tapes record it like any op.

    Dtypes must fit the contract of the kernel: nothing is promoted.

    Args:
        name: The name of the kernel.
        inputs: The inputs in the order of the contract, or a dict from their names to
            their values. Numbers and NumPy arrays become tensors. An optional input may
            be None, or be missing from the dict. In a dict, a variadic input is a list.
        attrs: The attributes as the contract names them, or as the op does (for
            example ``strides`` and ``pad`` in place of ``geometry``). Axes may be
            negative.

    Returns:
        A tensor, or a tuple of tensors if the contract declares several outputs.

    Raises:
        ValueError: The kernel is unknown, an attribute is out of range, or the shapes
            do not fit.
        TypeError: Inputs or attributes are missing or unknown, or their type or dtype
            is not the one in the contract.

    Example:
        >>> pg.run_kernel("Softmax", {"logits": [1.0, 1.0]}, {"axis": -1})
        Tensor([0.5, 0.5], dtype=float32, backend='cpu')
        >>> pg.run_kernel("Add", [[1.0, 2.0], [0.5, 0.5]])
        Tensor([1.5, 2.5], dtype=float32, backend='cpu')

    """
    kernel = registry.contract(name, "run_kernel")
    given = attrs if attrs is not None else {}
    if not isinstance(inputs, list | tuple | Mapping) or not isinstance(given, Mapping):
        raise TypeError(
            f"run_kernel: {kernel.name} takes a list or a dict of inputs and a dict of "
            f"attributes, got {inputs!r} and {attrs!r}"
        )
    values = (
        _in_contract_order(kernel, inputs) if isinstance(inputs, Mapping) else inputs
    )
    tensors = [None if x is None else _convert.asarray(x) for x in values]
    run = dispatch.run if kernel.single else dispatch.run_many
    return run(kernel, *tensors, **checks.checked(kernel, tuple(tensors), dict(given)))


def _in_contract_order(kernel: Kernel, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the values of a dict of inputs in the order of the contract."""
    unknown = [str(name) for name in inputs if name not in kernel.inputs]
    needed = [name for name in kernel.inputs if name not in kernel.optional]
    lacking = [name for name in needed if name not in inputs]
    if unknown or lacking:
        wrong = []
        if lacking:
            wrong.append(f"lacks the input {', '.join(lacking)}")
        if unknown:
            wrong.append(f"has no input {', '.join(unknown)}")
        error = TypeError(f"run_kernel: {kernel.name} {' and '.join(wrong)}: {kernel}")
        raise explained(error, "inputs-do-not-fit-the-contract")
    found: list[Any] = []
    for name in kernel.inputs:
        if name != kernel.variadic:
            found.append(inputs.get(name))
        else:
            found += arguments.several("run_kernel", name, inputs[name])
    return found


# --- the engine ------------------------------------------------------------------


def engine() -> EngineState:
    """Return the state of the engine: its backends, plugins and fallback counts.

    The call opens no backend.

    Returns:
        A dataclass with the attributes ``backend``, ``opened``, ``plugins`` and
        ``fallback_counts``. It is a snapshot and does not change.

    Example:
        >>> x = pg.asarray([1.0, 2.0])
        >>> pg.engine().backend == x.backend
        True

    """
    active = context.current().backend or context.PROCESS.backend
    kind: type[EngineState] = import_module("plugrad").EngineState
    return kind(
        None if active is None else active.name,
        tuple(registry.opened),
        tuple(registry.plugins),
        dict(dispatch.fallback_counts),
    )
