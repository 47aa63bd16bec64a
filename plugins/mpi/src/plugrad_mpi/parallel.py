"""Data-parallel training: ranks share the parameters and divide the data.

Gradients are averaged in buckets: tensors of one dtype that are sent as one message.
A bucket is sent as soon as it is full; at the end, ``means`` waits for all buckets.

Contents: ``data_parallel``, ``overlap`` and ``average``; data and parameters;
checkpoints and messages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import Tensor

from .collectives import FLOATING, broadcast, start_mean, wait_for_mean
from .world import world

BUCKET_MIB = 25.0  # MiB; the default of PyTorch's DistributedDataParallel
MIB = 2**20
Tree = Any
DType = np.dtype[Any]


class _Buckets:
    """Collects tensors into buckets and averages them over all ranks."""

    def __init__(self, mib: float) -> None:
        self.limit = mib * MIB
        self.filling: dict[DType, list[Tensor]] = {}
        self.started: list[tuple[Tensor, list[Tensor]]] = []
        self.added_ids: set[int] = set()

    def add(self, x: Tensor) -> None:
        """Add a tensor unless it was added before; send its bucket if that is full."""
        if id(x) in self.added_ids:
            return
        self.added_ids.add(id(x))  # the bucket keeps it alive, so the id stays unique
        xs = self.filling.setdefault(x.dtype, [])
        xs.append(x)
        if sum(y.size * y.dtype.itemsize for y in xs) >= self.limit:
            self._start(x.dtype)

    def _start(self, dtype: DType) -> None:
        xs = self.filling.pop(dtype)
        self.started.append((start_mean(xs), xs))

    def means(self) -> dict[int, Tensor]:
        """Send the remaining buckets, wait for all, and return the means by id."""
        for dtype in [*self.filling]:
            self._start(dtype)
        means: dict[int, Tensor] = {}
        for ticket, xs in self.started:
            ys = wait_for_mean(ticket, xs)
            means |= {id(x): y for x, y in zip(xs, ys, strict=True)}
        return means


_current: ContextVar[_Buckets | None] = ContextVar("plugrad_mpi", default=None)


@contextmanager
def _bucket_scope(mib: float) -> Iterator[_Buckets]:
    """Yield the buckets to which ``overlap`` adds gradients in this block."""
    if not mib > 0:
        raise ValueError(f"data_parallel: bucket_mib {mib} must be above 0")
    buckets = _Buckets(mib)
    token = _current.set(buckets)
    try:
        yield buckets
    finally:
        _current.reset(token)


def _is_averaged(x: Any) -> bool:
    return isinstance(x, Tensor) and pg.isdtype(x.dtype, FLOATING)


def _with_means(buckets: _Buckets, tree: Tree) -> Tree:
    """Replace the floating tensors of a tree with their means."""
    leaves, structure = pg.tree.flatten(tree)
    for x in leaves:
        if _is_averaged(x):
            buckets.add(x)
    means = buckets.means()
    return structure([means.get(id(x), x) for x in leaves])


def data_parallel(
    value_and_grad: Callable[..., tuple[Any, Tree]],
    *,
    bucket_mib: float = BUCKET_MIB,
) -> Callable[..., tuple[Any, Tree]]:
    """Return ``value_and_grad`` with value and gradients averaged over all ranks.

    If each rank passes its part of a batch (``shard``), and the loss is a mean over the
    examples, the result equals that of one process with the whole batch, except for
    rounding.

    Args:
        value_and_grad: A function that ``pg.value_and_grad`` returns, or a function
            that calls ``pg.variable_grads``.
        bucket_mib: The size, in MiB, at which a bucket is full and is sent.

    Returns:
        A function of the same arguments; ``pg.jit`` can compile it. With
        ``has_aux=True`` the value is averaged, but ``aux`` is that of this rank.

    Raises:
        ValueError: ``bucket_mib`` is not above 0.

    Example:
        >>> step = mpi.data_parallel(pg.value_and_grad(lambda w, x: pg.mean(w * x)))
        >>> value, gradient = step(pg.asarray(2.0), mpi.shard(pg.ones(4)))
        >>> value.item(), gradient.item()
        (2.0, 1.0)

    Source:
        ``DistributedDataParallel`` of PyTorch; its ``bucket_cap_mb`` is also 25.

    """

    def g(*args: Any, **named: Any) -> tuple[Any, Tree]:
        with _bucket_scope(bucket_mib) as buckets:
            value, gradients = value_and_grad(*args, **named)
            aux = value[1:] if type(value) is tuple else None  # with has_aux=True
            loss = value if aux is None else value[0]
            loss, gradients = _with_means(buckets, (loss, gradients))
        return loss if aux is None else (loss, *aux), gradients

    return g


def average(tree: Tree, *, bucket_mib: float = BUCKET_MIB) -> Tree:
    """Return a tree with the means of its floating tensors over all ranks.

    Args:
        tree: Gradients, or metrics. Leaves that are not floating tensors are returned
            unchanged.
        bucket_mib: The size, in MiB, at which a bucket is full and is sent.

    Raises:
        ValueError: ``bucket_mib`` is not above 0.

    Example:
        >>> mpi.average({"loss": pg.asarray(0.5)})["loss"].item()
        0.5

    Source:
        ``horovod.torch.grouped_allreduce``.

    """
    with _bucket_scope(bucket_mib) as buckets:
        return _with_means(buckets, tree)


@pg.custom_grad
def _mark(*leaves: Tensor) -> tuple[Any, Callable[..., Any]]:
    def add_gradients(*gradients: Tensor) -> tuple[Tensor, ...]:
        if (buckets := _current.get()) is not None:
            for x in gradients:
                buckets.add(x)
        return gradients

    return leaves, add_gradients


def overlap(parameters: Tree, /) -> Tree:
    """Return parameters whose gradients are sent during the backward pass.

    Call it in the loss function, right before the layer: ``layer =
    mpi.overlap(layer)``. When the backward pass has computed the gradients of the
    layer, they are added to the bucket, which is sent once it is full. Outside
    ``data_parallel``, ``overlap`` does nothing.

    Args:
        parameters: The parameters of a layer: a tree that is part of the differentiated
            parameters. If a tensor is used in several places, its gradient is sent
            after the backward pass.

    Example:
        >>> def loss(layers, x):
        ...     for layer in layers:
        ...         x = pg.tanh(x @ mpi.overlap(layer)["w"])
        ...     return pg.mean(x)
        >>> step = mpi.data_parallel(pg.value_and_grad(loss))
        >>> step([{"w": pg.ones((2, 2))}] * 2, pg.ones((1, 2)))[1][0]["w"].shape
        (2, 2)

    """
    leaves, structure = pg.tree.flatten(parameters)
    numbers = [n for n, x in enumerate(leaves) if _is_averaged(x)]
    marked = _mark(*[leaves[n] for n in numbers]) if numbers else ()
    for n, x in zip(numbers, marked, strict=True):
        leaves[n] = x
    return structure(leaves)


# --- data and parameters -----------------------------------------------------------


def shard(tree: Tree, /) -> Tree:
    """Return this rank's part of a batch, along axis 0.

    Args:
        tree: Tensors or arrays, the same on all ranks. The whole batch therefore does
            not depend on the number of ranks, and training can resume with a different
            number.

    Raises:
        ValueError: A leaf has no axis 0, or ``size()`` does not divide it.

    Example:
        >>> images, labels = mpi.shard((np.ones((8, 3)), np.arange(8)))
        >>> len(images) == 8 // mpi.size()
        True

    """
    here = world()

    def part(x: Any) -> Any:
        if not x.shape or x.shape[0] % here.size:
            raise ValueError(
                f"shard: axis 0 of shape {tuple(x.shape)} must be a multiple of "
                f"{here.size}, the number of ranks; drop or pad rows"
            )
        rows = x.shape[0] // here.size
        return x[rows * here.rank : rows * (here.rank + 1)]

    return pg.tree.map(part, tree)


def broadcast_parameters(tree: Tree, /, root: int = 0) -> Tree:
    """Return a tree with the tensors of the rank ``root``; Variables are assigned.

    Args:
        tree: Parameters, the state of an optimizer, random keys. Leaves that are
            neither tensors nor Variables are returned unchanged.
        root: The rank whose values are sent.

    Raises:
        ValueError: There is no rank ``root``.

    Example:
        >>> mpi.broadcast_parameters({"w": pg.ones(2)})["w"].tolist()
        [1.0, 1.0]

    Source:
        ``horovod.torch.broadcast_parameters``.

    """

    def broadcast_leaf(x: Any) -> Any:
        if isinstance(x, pg.Variable):
            x.assign(broadcast(x.value, root))
            return x
        return broadcast(x, root) if isinstance(x, Tensor) else x

    return pg.tree.map(broadcast_leaf, tree)


# --- checkpoints and messages ------------------------------------------------------


class Checkpoints:
    """Checkpoints that rank 0 writes and reads, with the methods of ``checkpoints``.

    Each method runs only on rank 0; all ranks return its result or raise its error. The
    other ranks need no access to the files. All ranks must call a method together.

    Args:
        checkpoints: ``plugrad_train.Checkpoints``, or an object with your own methods.

    Example:
        >>> class Latest:
        ...     def save(self, step, tree):
        ...         self.saved = step, tree
        ...     def restore(self):
        ...         return self.saved
        >>> checkpoints = mpi.Checkpoints(Latest())
        >>> checkpoints.save(3, {"w": pg.ones(2)})
        >>> checkpoints.restore()[0]
        3

    """

    def __init__(self, checkpoints: Any) -> None:
        self._checkpoints = checkpoints

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        attribute = getattr(self._checkpoints, name)
        if not callable(attribute):
            return attribute
        return lambda *args, **named: _run_on_first_rank(attribute, args, named)


def _run_on_first_rank(method: Callable[..., Any], args: Any, named: Any) -> Any:
    """Run a method on rank 0; return its result or raise its error on all ranks."""
    here = world()
    outcome = None
    error = None
    if here.rank == 0:
        try:
            outcome = method(*args, **named)
        except Exception as caught:
            error = caught
    with here.during(getattr(method, "__qualname__", "Checkpoints")) as comm:
        outcome, error = comm.bcast((outcome, error))
    if error is not None:
        raise error
    return outcome


def log(*values: object, every_rank: bool = False) -> None:
    """Print on rank 0 only, or on every rank with a prefix that names the rank.

    Args:
        values: The arguments of ``print``.
        every_rank: Whether all ranks print.

    Example:
        >>> mpi.log("loss", 0.5)
        loss 0.5

    """
    here = world()
    if every_rank and here.size > 1:
        values = (f"[rank {here.rank} of {here.size}]", *values)
    if every_rank or here.rank == 0:
        sys.stdout.write(" ".join(map(str, values)) + "\n")  # in one write
        sys.stdout.flush()
