"""The collectives as functions of tensors, on the active backend.

All ranks must call the collectives in the same order, with tensors of the same shape
and dtype. ``jit`` keeps this order. ``contracts`` documents the convention for
gradients.
"""

from __future__ import annotations

from typing import Any

import plugrad as pg
from plugrad import Tensor
from plugrad.plugin import Kernel, Runtime, TensorLike, run, run_many, runtime

from . import contracts
from .plugin import BACKENDS

FLOATING = ("real floating", "complex floating")  # kinds of dtypes with derivatives

# The runtime for which kernels were registered, by backend name. plugrad may replace
# the runtime of a backend.
_prepared: dict[str, Runtime] = {}


def prepare() -> None:
    """Register the kernels for the active backend if the plugin does not list it."""
    backend = pg.get_backend()
    if backend in BACKENDS:
        return
    if _prepared.get(backend) is not runtime(backend):
        from .kernels import kernels_for

        for kernel in contracts.CONTRACTS:
            function = kernels_for(backend)[kernel.name]
            pg.register_kernel(kernel, backend, function)
        _prepared[backend] = runtime(backend)


def _run(kernel: Kernel, x: TensorLike, **attrs: Any) -> Tensor:
    prepare()
    return run(kernel, pg.asarray(x), **attrs)


def all_reduce(x: TensorLike, /, op: str = "sum") -> Tensor:
    """Return the sum, mean or maximum of ``x`` over all ranks, on each rank.

    The gradient of a sum is the sum of the cotangents of all ranks; the gradient of a
    mean is their mean. Ranks that hold the maximum share its gradient equally.

    Args:
        x: A tensor of the same shape and dtype on all ranks.
        op: ``"sum"``, ``"mean"`` or ``"max"``.

    Raises:
        ValueError: ``op`` is unknown.
        TypeError: ``op`` is ``"mean"`` and ``x`` contains integers.

    Example:
        >>> mpi.all_reduce([1.0, 2.0])  # with one rank
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    if op == "max":
        return _run(contracts.ALL_REDUCE_MAX, x)
    if op not in ("sum", "mean"):
        raise ValueError(f"all_reduce: op {op!r} must be 'sum', 'mean' or 'max'")
    return _run(contracts.ALL_REDUCE, x, op=op)


def all_gather(x: TensorLike, /) -> Tensor:
    """Return the ``x`` of all ranks, concatenated along axis 0, on each rank.

    The gradient is ``reduce_scatter`` of the cotangents.

    Args:
        x: A tensor of the same shape and dtype on all ranks, with at least one axis.

    Raises:
        ValueError: ``x`` is a scalar.

    Example:
        >>> mpi.all_gather([1.0, 2.0]).shape == (2 * mpi.size(),)
        True

    """
    return _run(contracts.ALL_GATHER, x)


def reduce_scatter(x: TensorLike, /, op: str = "sum") -> Tensor:
    """Return this rank's part, along axis 0, of the sum or mean over all ranks.

    The gradient is ``all_gather`` of the cotangents, divided by ``size()`` for the
    mean.

    Args:
        x: A tensor of the same shape and dtype on all ranks, whose axis 0 is a multiple
            of ``size()``.
        op: ``"sum"`` or ``"mean"``.

    Raises:
        ValueError: ``size()`` does not divide axis 0, or ``op`` is unknown.
        TypeError: ``op`` is ``"mean"`` and ``x`` contains integers.

    Example:
        >>> mpi.reduce_scatter([1.0, 2.0]).shape == (2 // mpi.size(),)
        True

    """
    return _run(contracts.REDUCE_SCATTER, x, op=op)


def broadcast(x: TensorLike, /, root: int = 0) -> Tensor:
    """Return the ``x`` of the rank ``root`` on all ranks.

    On ``root``, the gradient is the sum of the cotangents of all ranks; on the other
    ranks, it is zero.

    Args:
        x: A tensor of the same shape and dtype on all ranks.
        root: The rank whose values are sent.

    Raises:
        ValueError: There is no rank ``root``.

    Example:
        >>> mpi.broadcast([1.0, 2.0], root=0)
        Tensor([1., 2.], dtype=float32, backend='cpu')

    """
    return _run(contracts.BROADCAST, x, root=root)


def send(x: TensorLike, /, dest: int, tag: int = 0) -> Tensor:
    """Send ``x`` to the rank ``dest``, and return ``x``.

    The backward pass receives the cotangent of the message only if the result depends
    on the returned tensor, as in ``loss + 0 * sum(sent)``. ChainerMN calls this tensor
    a delegate variable.

    Args:
        x: A tensor.
        dest: The rank that calls ``receive``.
        tag: A number that tells messages apart.

    Raises:
        ValueError: There is no rank ``dest``.

    Example:
        >>> if mpi.size() == 2:
        ...     if mpi.rank() == 0:
        ...         mpi.send([1.0, 2.0], dest=1)
        ...     else:
        ...         mpi.receive(pg.zeros(2), source=0)

    """
    return _run(contracts.SEND, x, dest=dest, tag=tag)


def receive(like: TensorLike, /, source: int, tag: int = 0) -> Tensor:
    """Return the tensor that the rank ``source`` sends.

    The backward pass sends the cotangent back only if ``like`` depends on a
    differentiated tensor. The values of ``like`` are not used; its gradient is zero.

    Args:
        like: A tensor of the shape and dtype of the message.
        source: The rank that calls ``send``.
        tag: The number that was passed to ``send``.

    Raises:
        ValueError: There is no rank ``source``.

    Example:
        See ``send``.

    """
    return _run(contracts.RECEIVE, like, source=source, tag=tag)


def start_mean(xs: list[Tensor]) -> Tensor:
    """Start computing the means of tensors; return a ticket for ``wait_for_mean``."""
    prepare()
    return run(contracts.START, *xs)


def wait_for_mean(ticket: Tensor, xs: list[Tensor]) -> tuple[Tensor, ...]:
    """Return the means that ``start_mean`` started for ``xs``."""
    return run_many(contracts.WAIT, ticket, *xs)
