"""The kernels: MPI on the memory of the host, for the arrays of any backend.

The values of an array are read where they lie, if the backend lends its memory (cpu and
wasm do), and are downloaded otherwise. On cpu the array that MPI has filled is the
result; another backend copies it. Without arithmetic, MPI moves bytes, of any dtype.

Map: the kernels; the sums that are under way.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from plugrad.plugin import runtime

from .world import World, world

Array = np.ndarray[Any, Any]


def _bytes(values: Array) -> Array:
    """Return a view of the bytes of a contiguous array."""
    return values.reshape(-1).view(np.uint8)


def _wide(values: Array) -> Array:
    """Return values of a dtype that MPI adds: it has no float16."""
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _reduced(
    call: Callable[..., None], given: Array, shape: tuple[int, ...], mean: bool
) -> Array:
    """Return what a reduction writes, in the dtype of ``given``."""
    total = np.empty(shape, _wide(given).dtype)
    call(_wide(given), total)
    if mean:
        np.divide(total, world().size, out=total)
    return total.astype(given.dtype, copy=False)


class _Kernels:
    """The kernels for a backend."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def read(self, native: Any) -> Array:
        """Return the values of a native array, contiguous."""
        return np.asarray(runtime(self.backend).arrays.download(native), order="C")

    def made(self, values: Array) -> Any:
        """Return values as a native array."""
        return runtime(self.backend).arrays.upload(values)

    def all_reduce(self, x: Any, *, op: str) -> Any:
        given = self.read(x)
        with world().during("mpi.AllReduce", given, op=op) as comm:
            total = _reduced(comm.Allreduce, given, given.shape, op == "mean")
        return self.made(total)

    def all_reduce_max(self, x: Any) -> Any:
        given = self.read(x)
        with world().during("mpi.AllReduceMax", given) as comm:
            largest = partial(comm.Allreduce, op=world().mpi.MAX)
            total = _reduced(largest, given, given.shape, False)
        return self.made(total)

    def all_gather(self, x: Any) -> Any:
        given, ranks = self.read(x), world().size
        whole = np.empty((ranks * given.shape[0], *given.shape[1:]), given.dtype)
        with world().during("mpi.AllGather", given) as comm:
            comm.Allgather(_bytes(given), _bytes(whole))
        return self.made(whole)

    def reduce_scatter(self, x: Any, *, op: str) -> Any:
        given = self.read(x)
        shape = (given.shape[0] // world().size, *given.shape[1:])
        with world().during("mpi.ReduceScatter", given, op=op) as comm:
            total = _reduced(comm.Reduce_scatter_block, given, shape, op == "mean")
        return self.made(total)

    def broadcast(self, x: Any, *, root: int) -> Any:
        given = self.read(x)
        mine = world().rank == root
        values = given if mine else np.empty(given.shape, given.dtype)
        with world().during("mpi.Broadcast", given, root=root) as comm:
            comm.Bcast(_bytes(values), root)
        return x if mine else self.made(values)

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
        return self.made(values)

    def start(self, *xs: Any) -> Any:
        ticket = _start(world(), [self.read(x) for x in xs])
        return self.made(np.array(ticket, np.int32))

    def wait(self, ticket: Any, *xs: Any) -> Any:
        mean = _wait(world(), int(self.read(ticket)))
        ends = itertools.accumulate(math.prod(x.shape) for x in xs)
        parts = np.split(mean, [*ends][:-1])
        # Slices of the bucket itself: on cpu they are the results.
        return tuple(
            self.made(y.reshape(x.shape).astype(x.dtype, copy=False))
            for x, y in zip(xs, parts, strict=True)
        )


def kernels_for(backend: str) -> dict[str, Callable[..., Any]]:
    """Return the kernels for a backend, by the names of their contracts."""
    mine = _Kernels(backend)
    return {
        "mpi.AllReduce": mine.all_reduce,
        "mpi.AllReduceMax": mine.all_reduce_max,
        "mpi.AllGather": mine.all_gather,
        "mpi.ReduceScatter": mine.reduce_scatter,
        "mpi.Broadcast": mine.broadcast,
        "mpi.Send": mine.send,
        "mpi.Receive": mine.receive,
        "mpi.AllReduceStart": mine.start,
        "mpi.AllReduceWait": mine.wait,
    }


# --- the sums that are under way ---------------------------------------------------


class _Sum(NamedTuple):
    request: Any
    bucket: Array


_sums: dict[int, _Sum] = {}
_tickets = itertools.count()


def _start(here: World, xs: list[Array]) -> int:
    """Copy the arrays into one bucket, start its sum, and return the ticket."""
    bucket = np.concatenate([_wide(x).reshape(-1) for x in xs])
    with here.during("mpi.AllReduceStart", bucket) as comm:
        request = comm.Iallreduce(here.mpi.IN_PLACE, bucket)
    ticket = next(_tickets) % 2**31
    _sums[ticket] = _Sum(request, bucket)
    here.under_way.set()  # the watchdog has MPI advance them
    return ticket


def _wait(here: World, ticket: int) -> Array:
    """Return the mean of a bucket."""
    request, bucket = _sums.pop(ticket)
    here.under_way.clear()  # for now it is this call that has
    with here.during("mpi.AllReduceWait", bucket, False):
        request.Wait()
    if _sums:
        here.under_way.set()
    return np.divide(bucket, here.size, out=bucket)
