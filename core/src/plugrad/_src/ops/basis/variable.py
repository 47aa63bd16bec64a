"""``Variable``: a mutable holder of a tensor, for training loops. No kernels."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from plugrad._src.engine.context import (
    Context,
    all_tapes,
    current,
    made_outside,
    notify_kept,
    notify_outer,
)
from plugrad._src.engine.dispatch import tracked_alias
from plugrad._src.engine.tape import Tape, alias
from plugrad._src.tensor.dtypes import DType, differentiable
from plugrad._src.tensor.methods import Methods
from plugrad._src.tensor.tensor import TapeId, Tensor, TensorLike

from . import _convert

__all__ = ["Variable"]


class Variable(Methods):
    """A mutable holder of a tensor; an op uses the tensor held when the op is called.

    ``variable_grads`` differentiates with respect to the variables that a function
    reads. The shape and dtype of a variable never change.

    Args:
        value: The initial value.
        trainable: Whether ``variable_grads`` includes the variable by default.
        name: A name for messages.

    Example:
        >>> v = pg.Variable([1.0, 2.0])
        >>> v.assign(v * 3.0)
        >>> v.value
        Tensor([3., 6.], dtype=float32, backend='cpu')

    """

    __slots__ = ("__weakref__", "_value", "name", "trainable")

    def __init__(
        self, value: TensorLike, /, *, trainable: bool = True, name: str = ""
    ) -> None:
        self._value = notify_kept(tracked_alias(_convert.asarray(value)))
        self.trainable: bool = trainable
        self.name: str = name

    @property
    def value(self) -> Tensor:
        """The current tensor; tapes that record variables watch it."""
        context = current()
        held = self._value  # read once: another thread may assign to it
        if not context.quiet or context.level is not None:
            held = self._watched_value(context)
        # An alias: x[...] = value on the returned tensor does not change the variable.
        return alias(held, held._tape_id)

    def _watched_value(self, context: Context) -> Tensor:
        """Make the tapes that record variables watch the tensor; notify observers.

        Returns:
            The current tensor, which the tapes watch.

        """
        if context.tape is None or context.level is not None:
            notify_outer("variable", self)  # an observer may replace its array
        held = self._value
        if self.trainable and differentiable(held.dtype):
            for tape in all_tapes(context):
                if tape.variables is not None and self not in tape.variables:
                    tape.variables[self] = tape.watch(held)
        return held

    def watched_by(self, tape: Tape) -> TapeId:
        """Make a tape watch the current tensor; return the tensor's identity."""
        return tape.watch(self._watched_value(current()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self._value.shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self._value.dtype

    def assign(self, value: TensorLike, /) -> None:
        """Replace the value of the variable with ``value``.

        Raises:
            ValueError: The shape of ``value`` is not that of the variable.
            TypeError: The dtype of ``value`` is not that of the variable.

        """
        new = value if type(value) is Tensor else _convert.asarray(value)
        if new.shape != self._value.shape:
            raise ValueError(f"assign: {self!r} cannot hold shape {new.shape}")
        if new.dtype != self._value.dtype:
            raise TypeError(f"assign: {self!r} cannot hold {new.dtype}; cast it")
        context = current()
        if context.quiet and context.level is None:
            self._value = alias(new)
            return
        if made_outside(self._value):
            raise ValueError(
                f"assign: {self!r} was made outside of vmap, and cannot hold a value "
                "for each example; return the values, and assign outside"
            )
        notify_outer("variable", self)
        self._value = notify_kept(tracked_alias(new))

    def assign_add(self, value: TensorLike, /) -> None:
        """Add ``value`` to the variable; ``v += value`` does the same.

        Raises:
            ValueError: The sum has a different shape.
            TypeError: The sum has a different dtype.

        """
        self.assign(self + value)

    def assign_sub(self, value: TensorLike, /) -> None:
        """Subtract ``value`` from the variable; ``v -= value`` does the same.

        Raises:
            ValueError: The difference has a different shape.
            TypeError: The difference has a different dtype.

        """
        self.assign(self - value)

    def __iadd__(self, value: TensorLike) -> Self:  # type: ignore[override]
        self.assign(self + value)
        return self

    def __isub__(self, value: TensorLike) -> Self:  # type: ignore[override]
        self.assign(self - value)
        return self

    def __imul__(self, value: TensorLike) -> Self:  # type: ignore[override]
        self.assign(self * value)
        return self

    def __itruediv__(self, value: TensorLike) -> Self:  # type: ignore[override]
        self.assign(self / value)
        return self

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._value.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._value.size

    def item(self) -> Any:
        """Return the one element as a Python number; see ``Tensor.item``."""
        return self._value.item()

    def _item(self) -> Any:
        return self._value._item()

    def tolist(self) -> Any:
        """Return the values as nested lists; see ``Tensor.tolist``."""
        return self._value.tolist()

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __complex__(self) -> complex:
        return complex(self._value)

    def __format__(self, form: str) -> str:
        return format(self._value, form) if form else repr(self)

    def numpy(self) -> np.ndarray[Any, DType]:
        """Return the values as a NumPy array; see ``Tensor.numpy``."""
        return self._value.numpy()

    def _repr_html_(self) -> str:
        return self._value._repr_html_(
            f"Variable {self.name!r}" if self.name else "Variable"
        )

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name else ""
        return f"Variable({name}shape={self.shape}, dtype={self.dtype})"
