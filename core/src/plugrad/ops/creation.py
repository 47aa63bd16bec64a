"""Ops that make tensors, and ``astype``. Kernels: ``Cast Fill Identity``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plugrad._dtypes import DType, canonical, check_range, dtype_of
from plugrad._engine import active, run
from plugrad._kernel import Kernel, Spec, gradients, same
from plugrad._tensor import Tensor, TensorLike

from . import _convert

CAST = Kernel(
    "Cast", "x", attrs="dtype", out=lambda x, dtype: Spec(x.shape, dtype), op="astype"
)


def astype(x: TensorLike, dtype: Any, /) -> Tensor:
    """Return the elements converted to ``dtype``; ``x`` itself where it has it.

    Floating numbers are truncated towards zero on the way to integers, integers wrap,
    NaN and infinities give 0; anything but zero is True; complex numbers lose their
    imaginary part on the way to real ones.
    """
    x = x if type(x) is Tensor else _convert.asarray(x)
    dtype = canonical(dtype)
    if x.dtype is dtype:
        return x
    backend = active()
    if dtype not in backend.dtypes:
        raise TypeError(f"astype: backend {backend.name!r} has no {dtype}")
    return run(CAST, x, dtype=dtype)


gradients(CAST, x=lambda dy, x_spec: astype(dy, x_spec.dtype))


IDENTITY = Kernel("Identity", "x", out=same, op="identity")


def identity(x: TensorLike, /) -> Tensor:
    """Return ``x`` as a new tensor; a backend may share the memory."""
    return _convert.unary(IDENTITY, x)


gradients(IDENTITY, x=lambda dy: dy)


FILL = Kernel(
    "Fill",
    attrs="shape value dtype",
    out=lambda shape, value, dtype: Spec(shape, dtype),
    op="full",
)


def full(
    shape: int | Sequence[int], fill_value: complex, /, *, dtype: Any = None
) -> Tensor:
    """Return ``fill_value`` in every place of ``shape``.

    The dtype is float32, int32, bool or complex64, after the value, unless given.
    """
    wanted = dtype_of(fill_value) if dtype is None else canonical(dtype)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"full: shape {sizes} has a negative size")
    check_range("full", fill_value, wanted)
    if wanted not in active().dtypes:
        raise TypeError(f"full: backend {active().name!r} has no {wanted}")
    return run(FILL, shape=sizes, value=fill_value, dtype=wanted)


def zeros(shape: int | Sequence[int], /, *, dtype: DType | str = "float32") -> Tensor:
    """Return zeros."""
    return full(shape, 0, dtype=dtype)


def ones(shape: int | Sequence[int], /, *, dtype: DType | str = "float32") -> Tensor:
    """Return ones."""
    return full(shape, 1, dtype=dtype)
