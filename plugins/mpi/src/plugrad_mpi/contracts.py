"""The contracts of the collectives, with their gradients and decompositions.

A gradient is the adjoint of the collective as a linear map on the tensors of all ranks:
the differentiated function is the sum of the results of all ranks. Horovod and
``torch.distributed.nn`` share this convention; in mpi4jax the gradient of a sum over
the ranks is the identity, which counts the equal results of all ranks only once.

The gradients call collectives themselves, so derivatives of every order are correct. A
value that a rank does not need is masked, not omitted, so that all ranks run the same
kernels. Under ``vmap``, a collective sends one message with the values of all examples.
"""

from __future__ import annotations

import numpy as np
import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Kernel, Spec, Tensor, decomposition, gradients, run, same

from .world import rank, size


def _masked(keep: bool, x: Tensor) -> Tensor:
    """Return ``x`` or zeros; in both cases the backward pass reaches ``x``."""
    return pg.where(pg.asarray(keep), x, pg.zeros_like(x))


def _reduced_spec(x: Spec, *, op: str) -> Spec:
    if op == "mean" and x.dtype.kind in "iu":
        raise TypeError(
            f"all_reduce: the mean of {x.dtype} is not an integer; convert x "
            "with astype, or use op='sum'"
        )
    return x


ALL_REDUCE = Kernel(
    "mpi.AllReduce(x: number; op: 'sum' | 'mean')",
    out=_reduced_spec,
    effect=True,
    op="all_reduce",
    doc="""The sum, or the mean, of the ``x`` of all ranks.

    Shape and dtype are the same on all ranks. float16 and bfloat16
    are added in float32.""",
)
gradients(ALL_REDUCE, x=lambda dy, op: run(ALL_REDUCE, dy, op=op))

ALL_REDUCE_MAX = Kernel(
    "mpi.AllReduceMax(x: integer | floating)",
    out=same,
    effect=True,
    op="all_reduce",
    doc="The elementwise maximum of the ``x`` of all ranks. If an element is NaN on a "
    "rank, the result depends on the MPI library.",
)


def _share_gradient(dy: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Share ``dy`` equally among the ranks whose elements equal the maximum."""
    is_maximum = pg.astype(x == y, dy.dtype)
    ties = run(ALL_REDUCE, is_maximum, op="sum")
    return run(ALL_REDUCE, dy, op="sum") / pg.maximum(ties, 1) * is_maximum


gradients(ALL_REDUCE_MAX, x=_share_gradient)


REDUCE_SCATTER: Kernel


def _axis_0(x: Spec, op: str) -> int:
    if not x.shape:
        raise ValueError(f"{op}: x must have an axis 0, got a scalar; reshape it")
    return x.shape[0]


def _gathered_spec(x: Spec) -> Spec:
    rows = _axis_0(x, "all_gather") * size()
    return Spec((rows, *x.shape[1:]), x.dtype)


ALL_GATHER = Kernel(
    "mpi.AllGather(x: number)",
    out=_gathered_spec,
    effect=True,
    op="all_gather",
    doc="The ``x`` of all ranks one after the other, along axis 0.",
)
gradients(ALL_GATHER, x=lambda dy: run(REDUCE_SCATTER, dy, op="sum"))


@decomposition(ALL_GATHER)
def _(x: Tensor) -> Tensor:
    before = x.shape[0] * rank()
    after = x.shape[0] * (size() - rank() - 1)
    padded = pg.pad(x, [(before, after)] + [(0, 0)] * (x.ndim - 1))
    return run(ALL_REDUCE, padded, op="sum")


def _scattered_spec(x: Spec, *, op: str) -> Spec:
    rows = _axis_0(x, "reduce_scatter")
    parts = size()
    if rows % parts:
        raise ValueError(
            f"reduce_scatter: axis 0 of shape {x.shape} does not divide into {parts} "
            "parts, one for each rank; pad x"
        )
    return _reduced_spec(Spec((rows // parts, *x.shape[1:]), x.dtype), op=op)


REDUCE_SCATTER = Kernel(
    "mpi.ReduceScatter(x: number; op: 'sum' | 'mean')",
    out=_scattered_spec,
    effect=True,
    op="reduce_scatter",
    doc="This rank's part, along axis 0, of the sum or the mean over all ranks.",
)


@decomposition(REDUCE_SCATTER)
def _(x: Tensor, op: str) -> Tensor:
    rows = x.shape[0] // size()
    return run(ALL_REDUCE, x, op=op)[rows * rank() : rows * (rank() + 1)]


def _scatter_grad(dy: Tensor, op: str) -> Tensor:
    gathered = run(ALL_GATHER, dy)
    return gathered / size() if op == "mean" else gathered


gradients(REDUCE_SCATTER, x=_scatter_grad)


def _check_rank(op: str, name: str, value: int) -> None:
    if not 0 <= value < size():
        raise ValueError(f"{op}: {name} {value} must be a rank: 0..{size() - 1}")


def _broadcast_spec(x: Spec, *, root: int) -> Spec:
    _check_rank("broadcast", "root", root)
    return x


BROADCAST = Kernel(
    "mpi.Broadcast(x: number; root: int)",
    out=_broadcast_spec,
    effect=True,
    op="broadcast",
    doc="The ``x`` of the rank ``root``. Of the other ranks' ``x``, only the shape and "
    "dtype are used.",
)
decomposition(
    BROADCAST,
    lambda x, root: run(ALL_REDUCE, _masked(rank() == root, x), op="sum"),
)
gradients(
    BROADCAST,
    x=lambda dy, root: _masked(rank() == root, run(ALL_REDUCE, dy, op="sum")),
)


def _sent_spec(x: Spec, *, dest: int, tag: int) -> Spec:
    _check_rank("send", "dest", dest)
    return x


def _received_spec(like: Spec, *, source: int, tag: int) -> Spec:
    _check_rank("receive", "source", source)
    return like


SEND = Kernel(
    "mpi.Send(x: number; dest: int, tag: size)",
    out=_sent_spec,
    effect=True,
    op="send",
    doc="``x`` itself, after it was sent to the rank ``dest``.",
)
RECEIVE = Kernel(
    "mpi.Receive(like: number; source: int, tag: size)",
    out=_received_spec,
    effect=True,
    op="receive",
    doc="The tensor that the rank ``source`` sends; ``like`` has its shape and dtype.",
)
gradients(
    SEND,
    x=lambda dy, dest, tag: dy + run(RECEIVE, dy, source=dest, tag=tag),
)
gradients(
    RECEIVE,
    like=lambda dy, source, tag: _masked(False, run(SEND, dy, dest=source, tag=tag)),
)


def _ticket_spec(*xs: Spec) -> Spec:
    return Spec((), np.dtype(np.int32))


START = Kernel(
    "mpi.AllReduceStart(*xs: inexact) -> ticket",
    out=_ticket_spec,
    effect=True,
    op="data_parallel",
    doc="Start to compute the mean of the ``xs`` of all ranks, in one message. The "
    "result is a number for ``mpi.AllReduceWait``.",
)


def _waited_spec(ticket: Spec, *xs: Spec) -> tuple[Spec, ...]:
    return xs


WAIT = Kernel(
    "mpi.AllReduceWait(ticket: int32, *xs) -> *ys",
    out=_waited_spec,
    effect=True,
    op="data_parallel",
    doc="Wait for the means that ``mpi.AllReduceStart`` has started for these ``xs``.",
)

# --- vmap: one message for all examples --------------------------------------------

for _kernel in (ALL_REDUCE, ALL_REDUCE_MAX, BROADCAST, SEND, RECEIVE):
    plugin.batching(_kernel, "leading")


def _by_rows(kernel: Kernel) -> None:
    @plugin.batching(kernel)
    def _(batched: tuple[bool, ...], x: Tensor, **attrs: str) -> Tensor:
        if x.ndim < 2:  # a single example has no rows: the contract reports it
            return run(kernel, x[0], **attrs)
        return pg.moveaxis(run(kernel, pg.moveaxis(x, 0, 1), **attrs), 1, 0)


_by_rows(ALL_GATHER)
_by_rows(REDUCE_SCATTER)


CONTRACTS: list[Kernel] = [
    ALL_REDUCE,
    ALL_REDUCE_MAX,
    ALL_GATHER,
    REDUCE_SCATTER,
    BROADCAST,
    SEND,
    RECEIVE,
    START,
    WAIT,
]
