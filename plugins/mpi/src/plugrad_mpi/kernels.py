"""The kernels: MPI on host memory, for the arrays of any backend.

The values of an array are read in place if the backend shares its memory (as cpu and
wasm do), and are downloaded otherwise. On cpu the result is the array that MPI fills;
other backends copy it. Collectives without arithmetic move bytes, for any dtype.

Contents: the kernels; pending sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
from plugrad.plugin import runtime

from .world import World, world

Array = np.ndarray[Any, Any]
HALVES = (np.dtype(np.float16), pg.bfloat16)


def _bytes(values: Array) -> Array:
    """Return a view of the bytes of a contiguous array."""
    return values.reshape(-1).view(np.uint8)


def _summable(values: Array) -> Array:
    """Return the values in a dtype that MPI can add: 16 bits become float32."""
    return values.astype(np.float32) if values.dtype in HALVES else values


def _reduce(
    call: Callable[..., None], given: Array, shape: tuple[int, ...], mean: bool
) -> Array:
    """Run a reduction and return its result in the dtype of ``given``."""
    total = np.empty(shape, _summable(given).dtype)
    call(_summable(given), total)
    if mean:
        np.divide(total, world().size, out=total)
    return total.astype(given.dtype, copy=False)


class _Kernels:
    """The kernels for a backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def read(self, native: Any) -> Array:
        """Return the values of a native array as a contiguous NumPy array."""
        return np.asarray(runtime(self.backend).arrays.download(native), order="C")

    def upload(self, values: Array) -> Any:
        """Return values as a native array."""
        return runtime(self.backend).arrays.upload(values)

    def all_reduce(self, x: Any, *, op: str) -> Any:
        given = self.read(x)
        with world().during("mpi.AllReduce", given, op=op) as comm:
            total = _reduce(comm.Allreduce, given, given.shape, op == "mean")
        return self.upload(total)

    def all_reduce_max(self, x: Any) -> Any:
        given = self.read(x)
        with world().during("mpi.AllReduceMax", given) as comm:
            largest = partial(comm.Allreduce, op=world().mpi.MAX)
            total = _reduce(largest, given, given.shape, False)
        return self.upload(total)

    def all_gather(self, x: Any) -> Any:
        given = self.read(x)
        ranks = world().size
        gathered = np.empty((ranks * given.shape[0], *given.shape[1:]), given.dtype)
        with world().during("mpi.AllGather", given) as comm:
            comm.Allgather(_bytes(given), _bytes(gathered))
        return self.upload(gathered)

    def reduce_scatter(self, x: Any, *, op: str) -> Any:
        given = self.read(x)
        shape = (given.shape[0] // world().size, *given.shape[1:])
        with world().during("mpi.ReduceScatter", given, op=op) as comm:
            total = _reduce(comm.Reduce_scatter_block, given, shape, op == "mean")
        return self.upload(total)

    def broadcast(self, x: Any, *, root: int) -> Any:
        given = self.read(x)
        is_root = world().rank == root
        values = given if is_root else np.empty(given.shape, given.dtype)
        with world().during("mpi.Broadcast", given, root=root) as comm:
            comm.Bcast(_bytes(values), root)
        return x if is_root else self.upload(values)

    def send(self, x: Any, *, dest: int, tag: int) -> Any:
        given = self.read(x)
        with world().during("mpi.Send", given, False, dest=dest, tag=tag) as comm:
            comm.Send(_bytes(given), dest, tag)
        return x

    def receive(self, like: Any, *, source: int, tag: int) -> Any:
        values = np.empty(like.shape, like.dtype)
        attrs = {"source": source, "tag": tag}
        with world().during("mpi.Receive", values, False, **attrs) as comm:
            comm.Recv(_bytes(values), source, tag)
        return self.upload(values)

    def start(self, *xs: Any) -> Any:
        ticket = _start_sum(world(), [self.read(x) for x in xs])
        return self.upload(np.array(ticket, np.int32))

    def wait(self, ticket: Any, *xs: Any) -> Any:
        mean = _wait_for_sum(world(), int(self.read(ticket)))
        ends = itertools.accumulate(math.prod(x.shape) for x in xs)
        parts = np.split(mean, [*ends][:-1])
        # The parts are views of the bucket; on cpu they are the results.
        return tuple(
            self.upload(y.reshape(x.shape).astype(x.dtype, copy=False))
            for x, y in zip(xs, parts, strict=True)
        )


def kernels_for(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the kernels for a backend, by the names of their contracts."""
    kernels = _Kernels(backend)
    return {
        "mpi.AllReduce": kernels.all_reduce,
        "mpi.AllReduceMax": kernels.all_reduce_max,
        "mpi.AllGather": kernels.all_gather,
        "mpi.ReduceScatter": kernels.reduce_scatter,
        "mpi.Broadcast": kernels.broadcast,
        "mpi.Send": kernels.send,
        "mpi.Receive": kernels.receive,
        "mpi.AllReduceStart": kernels.start,
        "mpi.AllReduceWait": kernels.wait,
    }


# --- pending sums ------------------------------------------------------------------


class _PendingSum(NamedTuple):
    request: Any
    bucket: Array


_pending_sums: dict[int, _PendingSum] = {}
_tickets = itertools.count()


def _start_sum(world: World, xs: list[Array]) -> int:
    """Copy the arrays into one bucket, start its sum, and return the ticket."""
    bucket = np.concatenate([_summable(x).reshape(-1) for x in xs])
    with world.during("mpi.AllReduceStart", bucket) as comm:
        request = comm.Iallreduce(world.mpi.IN_PLACE, bucket)
    ticket = next(_tickets) % 2**31
    _pending_sums[ticket] = _PendingSum(request, bucket)
    world.under_way.set()  # from now on the watchdog makes MPI advance the message
    return ticket


def _wait_for_sum(world: World, ticket: int) -> Array:
    """Wait for the sum of a bucket and return its mean."""
    request, bucket = _pending_sums.pop(ticket)
    world.under_way.clear()  # while this call waits, it makes MPI advance
    with world.during("mpi.AllReduceWait", bucket, False):
        request.Wait()
    if _pending_sums:
        world.under_way.set()
    return np.divide(bucket, world.size, out=bucket)
