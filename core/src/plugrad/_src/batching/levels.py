"""The backend on which ``vmap`` runs a function: its arrays are batches of examples.

Inside ``vmap`` the active backend is a ``BatchingBackend``. Each of its native arrays
is a ``Batched``: a tensor of another backend, with the examples on a leading axis that
the function does not see. Its kernel functions call batching rules. A rule runs kernels
on whole batches, outside of the ``vmap``, where outer tapes record them and an outer
``vmap`` batches them again.

Contents: ``Batched``; ``BatchingBackend``; ``Level``, one ``vmap`` that is running.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from plugrad._src.engine.context import Context, Scope, all_tapes, current, switched
from plugrad._src.engine.dispatch import active, run, run_many
from plugrad._src.engine.tape import Tape
from plugrad._src.registry.backend import OpenBackend, vmap_ended
from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry
from plugrad._src.tensor.dtypes import DType, named
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.tensor import Native, Tensor

from .custom import as_one_node


class Batched:
    """A tensor with the examples on axis 0; without a level, all examples share it."""

    __slots__ = ("dtype", "level", "shape", "tensor")

    level: Level | None
    shape: tuple[int, ...]
    tensor: Tensor

    def __init__(self, tensor: Tensor, level: Level | None) -> None:
        self.tensor, self.level = tensor, level
        self.dtype: DType = tensor.dtype
        self.shape = tensor.shape if level is None else tensor.shape[1:]

    def __repr__(self) -> str:
        if self.level is None:
            return repr(self.tensor)
        return (
            f"Tensor(shape={self.shape}, dtype={named(self.dtype)}, of "
            f"{self.level.size} examples in vmap:\n{self.tensor!r})"
        )


class _Arrays:
    """Moves values that are the same for all examples to and from a backend."""

    def __init__(self, base: OpenBackend) -> None:
        self.base = base

    def upload(self, values: np.ndarray[Any, Any]) -> Batched:
        return Batched(Tensor(self.base.upload(values), self.base), None)

    def download(self, native: Batched) -> np.ndarray[Any, Any]:
        if native.level is None:
            return native.tensor._values()
        if not native.level.running:
            raise vmap_ended()
        error = ValueError(
            f"vmap: the values of a tensor of shape {native.shape} differ between the "
            f"{native.level.size} examples, so the function cannot read them (numpy, "
            "item, bool, if, shapes that depend on values); use ops such as where, or "
            "return the tensor and read it outside"
        )
        raise explained(error, "values-differ-between-examples")

    def nbytes(self, native: Batched) -> int:
        x = native.tensor
        return x._home.runtime.arrays.nbytes(x._data)


class BatchingBackend(OpenBackend):
    """The backend inside ``vmap``: batches of tensors of ``base``.

    It carries the name of ``base``, so that gradients for that backend apply.
    """

    base: OpenBackend

    def __init__(self, base: OpenBackend) -> None:
        from plugrad._src.registry.hooks import Runtime

        runtime = Runtime(arrays=_Arrays(base), kernels={}, dtypes=[])
        super().__init__(base.name, base.owner, runtime)
        self.base = base
        self.depth = base.depth + 1
        self.dtypes = base.dtypes
        self.contracts: dict[str, Kernel] = {}  # the contracts in the table

    def upload(self, values: np.ndarray[Any, Any]) -> Native:
        """Return a native array of values that are the same for all examples."""
        return self.runtime.arrays.upload(values)

    def download(self, native: Native) -> np.ndarray[Any, DType]:
        """Return the values, if they are the same for all examples."""
        return self.runtime.arrays.download(native)

    def refresh(self) -> None:
        """Fill the table: one function for each kernel declared so far."""
        contracts = registry.contracts  # a new dict once a kernel is declared
        if self.contracts is not contracts:
            self.table = {n: _function(self, kernel) for n, kernel in contracts.items()}
            self.contracts = contracts

    def lift(self, x: Tensor) -> Batched:
        """Return a tensor from outside as a native array of this backend."""
        home: Any = x._home
        if home.depth == self.depth:  # after use_backend inside vmap
            batch = x._data
            with current().level.outside():
                return Batched(batch.tensor.to(self.base.name), batch.level)
        if home.depth > self.depth:
            raise vmap_ended()
        return Batched(x, None)


def batching(base: OpenBackend) -> BatchingBackend:
    """Return the one batching backend over ``base``, with all declared kernels."""
    found: Any = base.batches
    if found is None:
        found = base.batches = BatchingBackend(base)
    found.refresh()
    return found


class Level:
    """One running ``vmap``: the number of its examples, and the context around it."""

    __slots__ = ("backend", "context", "depth", "first", "running", "size")

    context: Context
    depth: int
    running: bool
    size: int

    def __init__(self, size: int, first: Level | None = None) -> None:
        self.size, self.running = size, True
        base = active()
        outer = current()
        if outer.backend is not base:  # the default backend may change later
            outer = Context(outer, {"backend": base})
        self.context, self.backend = outer, batching(base)
        self.depth = self.backend.depth
        self.first: Level = first or self  # all copies of ``first`` are one vmap

    def copy(self) -> Level:
        """Return the same ``vmap`` in the current context."""
        return Level(self.size, self.first)

    def lifted(self, backend: OpenBackend) -> OpenBackend:
        """Return the batching backend over ``backend`` at the depth of this level."""
        if backend.depth > self.depth:
            raise vmap_ended()
        while backend.depth < self.depth:
            backend = batching(backend)
        return backend

    def inside(self, tapes: tuple[Tape, ...] = ()) -> Scope:
        """Return the scope in which the function runs, hidden from outer tapes."""
        return Scope(backend=self.backend, level=self, tapes=tapes, observers=())

    def custom(
        self, f: Callable[..., Any], name: str, guarded: bool
    ) -> Callable[..., Any]:
        """Return a ``custom_grad`` function in the form that outer tapes record."""
        return functools.partial(as_one_node, f, name, guarded) if self.taped else f

    @property
    def taped(self) -> bool:
        """Whether an outer tape is recording."""
        return bool(all_tapes(self.context))

    def outside(self, base: OpenBackend | None = None) -> switched:
        """Return the scope around the ``vmap``, with ``base`` as its backend.

        The gradient overrides, the precision and the ``scope`` of the function remain.
        """
        outer = self.context
        now = current()
        overrides, precision, scope = now.overrides, now.precision, now.scope
        if overrides is not None and now.tapes:  # so no outer tape is the innermost one
            overrides = overrides.for_others()
        base = base or outer.backend
        if (
            base is not outer.backend
            or overrides is not outer.overrides
            or precision is not outer.precision
            or scope is not outer.scope
        ):
            changes = {"backend": base, "precision": precision, "scope": scope}
            outer = Context(outer, changes)
            outer.overrides = overrides
        return switched(outer)

    def wrap(self, x: Tensor, batched: bool) -> Tensor:
        """Return a tensor from outside as the function sees it."""
        return Tensor(Batched(x, self.first if batched else None), self.backend)

    def unwrap(self, x: Tensor) -> tuple[Tensor, bool]:
        """Return a tensor as it is outside, and whether it has an axis of examples."""
        home: Any = x._home
        if home.depth < self.depth:
            return x, False
        native = x._data
        if home.depth > self.depth or native.level not in (None, self.first):
            raise vmap_ended()
        return native.tensor, native.level is not None


def _function(backend: BatchingBackend, kernel: Kernel) -> Callable[..., Any]:
    """Return the function of a kernel on a batching backend."""
    call: Any = run if kernel.single else run_many

    def function(*natives: Any, **attrs: Any) -> Any:
        level = current().level
        if level is None or level.depth != backend.depth:
            raise vmap_ended()
        inputs: list[Tensor | None] = []
        batched: list[bool] = []
        for x in natives:
            if type(x) is Batched:
                inputs.append(x.tensor)
                batched.append(x.level is not None)
                if x.level is not None and x.level is not level.first:
                    raise vmap_ended()
            elif x is None:  # else x is the Arrays: there are no inputs
                inputs.append(None)
                batched.append(False)
        inner = level.first if True in batched else None
        with level.outside(backend.base):
            if inner is None:
                outputs = call(kernel, *inputs, **attrs)
            elif kernel.batching is not None:
                outputs = kernel.batching(tuple(batched), *inputs, **attrs)
            elif kernel.decomposition is not None:
                return NotImplemented
            else:
                raise NotImplementedError(
                    f"vmap: {kernel} has neither a batching rule nor a decomposition; "
                    "give it one with plugrad.plugin.batching"
                )
        if outputs is NotImplemented:
            return NotImplemented
        if kernel.single:
            return Batched(_checked(kernel, level, outputs, inner), inner)
        return [Batched(_checked(kernel, level, y, inner), inner) for y in outputs]

    return function


def _checked(kernel: Kernel, level: Level, y: Tensor, inner: Level | None) -> Tensor:
    """Return an output of a batching rule; raise unless axis 0 has all examples."""
    if inner is not None and (not y.shape or y.shape[0] != level.size):
        raise ValueError(
            f"vmap: the batching rule of {kernel.name} returned shape {y.shape}, but "
            f"axis 0 must hold the {level.size} examples"
        )
    return y
