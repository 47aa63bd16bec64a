"""The precision of float32 products: for the process, and for blocks.

Contents: ``Precision``, the values; ``precision``, ``set_precision``,
``get_precision``.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

from plugrad._src.tensor import arguments

from . import context

__all__ = ["get_precision", "precision", "set_precision"]

Precision = Literal["float32", "tf32"]


def precision(name: Precision) -> context.UserScope:
    """Set the precision of float32 products in this thread inside the ``with`` block.

    Under ``"float32"``, the default, matrix products and convolutions of float32
    tensors have the accuracy of float32. Under ``"tf32"``, a backend may round their
    inputs to 11 significant bits (TF32, the format of NVIDIA's matrix units), which
    changes each factor by a relative error of up to 2⁻¹⁰; sums stay in float32. Shapes,
    dtypes, NaN, infinities and all other ops stay the same. A backend that would not be
    faster computes as under ``"float32"``.

    A gradient is computed at the precision in force where it runs, which may differ
    from that of the function. ``jit`` records a function anew for each precision.
    ``precision`` is also a decorator.

    Args:
        name: ``"float32"`` or ``"tf32"``.

    Returns:
        A context manager.

    Raises:
        ValueError: ``name`` is neither ``"float32"`` nor ``"tf32"``.

    Example:
        >>> with pg.precision("tf32"):
        ...     pg.get_precision(), pg.matmul([[1.0, 2.0]], [[3.0], [4.0]]).tolist()
        ('tf32', [[11.0]])

    Source:
        ``jax.default_matmul_precision``, ``torch.set_float32_matmul_precision``.

    """
    return context.UserScope("precision", precision=_checked("precision", name))


def set_precision(name: Precision) -> None:
    """Set the precision of float32 products for the process.

    Blocks of ``precision`` take precedence. ``jit`` does not replay a function that
    calls ``set_precision``.

    Args:
        name: ``"float32"`` or ``"tf32"``; see ``precision``.

    Raises:
        ValueError: ``name`` is neither ``"float32"`` nor ``"tf32"``.

    Example:
        >>> pg.set_precision("tf32")
        >>> pg.get_precision()
        'tf32'
        >>> pg.set_precision("float32")

    """
    found = _checked("set_precision", name)
    context.notify_outer("refuse", "set_precision changes a setting of the process")
    context.PROCESS.precision = found


def get_precision() -> Precision:
    """Return the precision of float32 products in force: ``"float32"`` or ``"tf32"``.

    Backends that are faster under ``"tf32"`` call it in their kernel functions.

    Example:
        >>> pg.get_precision()
        'float32'

    """
    return cast("Precision", context.current().precision or context.PROCESS.precision)


def _checked(op: str, name: object) -> str:
    return arguments.choice(op, "name", name, *get_args(Precision))
