"""Programs for the ranks of tests: ``mpiexec -n 2 python -m tests.mpi.ranks NAME``."""

import dataclasses
import sys
import time
import tracemalloc

import numpy as np
import plugrad as pg
import plugrad_mpi as mpi
from plugrad.plugin import Backend, contracts, runtime
from plugrad_mpi.collectives import start_mean, wait_for_mean
from plugrad_mpi.world import world

PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


def values(*shape, rank=None, dtype=np.float32):
    """Return the random values of a rank, by default of this one."""
    seed = mpi.rank() if rank is None else rank
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def all_values(*shape):
    return np.stack([values(*shape, rank=n) for n in range(mpi.size())])


def total(x):
    """Return the sum of a number over all ranks."""
    return world().comm.allreduce(float(x))


def exchange(x):
    """Send ``x`` to the next rank in a ring; return what the previous rank sent."""
    next_rank = (mpi.rank() + 1) % mpi.size()
    previous_rank = (mpi.rank() - 1) % mpi.size()
    if mpi.rank() == 0:
        sent = mpi.send(x, dest=next_rank, tag=3)
        received = mpi.receive(sent, source=previous_rank, tag=3)
    else:
        received = mpi.receive(x, source=previous_rank, tag=3)
        sent = mpi.send(x, dest=next_rank, tag=3)
    return received + 0 * sent


# name: a function of x, and its expected result, given the x of all ranks and the rank
COLLECTIVES = {
    "sum": (mpi.all_reduce, lambda xs, rank: xs.sum(0)),
    "mean": (lambda x: mpi.all_reduce(x, "mean"), lambda xs, rank: xs.mean(0)),
    "max": (lambda x: mpi.all_reduce(x, "max"), lambda xs, rank: xs.max(0)),
    "gather": (mpi.all_gather, lambda xs, rank: xs.reshape(-1, *xs.shape[2:])),
    "scatter": (
        mpi.reduce_scatter,
        lambda xs, rank: np.split(xs.sum(0), len(xs))[rank],
    ),
    "scatter_mean": (
        lambda x: mpi.reduce_scatter(x, op="mean"),
        lambda xs, rank: np.split(xs.mean(0), len(xs))[rank],
    ),
    "broadcast": (lambda x: mpi.broadcast(x, root=1), lambda xs, rank: xs[1]),
    "exchange": (exchange, lambda xs, rank: xs[rank - 1]),
}


def check_adjoint(f, x):
    """Check <f(x), dy> == <x, gradient> over all ranks, for a linear ``f``."""
    y, pullback = pg.vjp(f, x)
    dy = values(*y.shape, rank=mpi.rank() + 100)
    (dx,) = pullback(pg.asarray(dy))
    left = total((y.numpy() * dy).sum())
    right = total((x * dx).numpy().sum())
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)


@program
def collectives():
    for backend in ("cpu", "wasm", "opencl"):
        if backend not in pg.backends():
            continue
        with pg.use_backend(backend):
            for name, (f, expected) in COLLECTIVES.items():
                x = pg.asarray(values(4, 3))
                y = f(x)
                assert y.backend == backend, name
                wanted = expected(all_values(4, 3), mpi.rank())
                np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, err_msg=name)
                check_adjoint(f, x)
                if name != "max":  # its gradient is constant
                    check_adjoint(pg.grad(lambda x, f=f: pg.sum(f(x) * f(x))), x)


@program
def equal_ranks_share_the_gradient_of_the_maximum():
    dx = pg.grad(lambda x: mpi.all_reduce(x, "max"))(pg.asarray(1.0))
    assert dx.item() == 1.0  # the sum of every rank's cotangent of 1, divided equally


@program
def dtypes():
    for dtype in ("int8", "int32", "uint64", "float16", "float64", "complex64"):
        x = pg.asarray(np.arange(4) + mpi.rank(), dtype=dtype)
        rows = np.stack([np.arange(4) + n for n in range(mpi.size())])
        assert mpi.all_reduce(x).dtype == x.dtype
        assert (mpi.all_reduce(x).numpy() == rows.sum(0)).all()
        assert (mpi.all_gather(x).numpy() == rows.reshape(-1)).all()
        assert (mpi.broadcast(x).numpy() == rows[0]).all()
        if dtype != "complex64":
            assert (mpi.all_reduce(x, "max").numpy() == rows.max(0)).all()
    # an empty array, a scalar, and a strided array
    assert mpi.all_reduce(np.empty((0, 2), np.float32)).shape == (0, 2)
    assert mpi.all_reduce(1.0, "mean").item() == 1.0
    x = pg.asarray(values(3, 4)).T
    assert np.allclose(mpi.all_reduce(x).numpy(), all_values(3, 4).sum(0).T)


@program
def decompositions():
    x = pg.asarray(values(4, 3))
    for name, attrs in {
        "AllGather": {},
        "ReduceScatter": {"op": "mean"},
        "Broadcast": {"root": 1},
    }.items():
        kernel = contracts()[f"mpi.{name}"]
        decomposed = kernel.decomposition(x, **attrs)
        communicated = pg.run_kernel(kernel.name, [x], attrs)
        np.testing.assert_allclose(decomposed.numpy(), communicated.numpy(), rtol=1e-6)


@program
def a_backend_without_host_memory():
    other = dataclasses.replace(runtime("wasm"), host=None)
    pg.register_backend(Backend("other", open=lambda: other))
    with pg.use_backend("other"):
        y = mpi.all_reduce(pg.asarray(values(3)))
        assert y.backend == "other"
        assert np.allclose(y.numpy(), all_values(3).sum(0))


@program
def under_jit():
    """Collectives whose results are unused are kept, and all keep their order."""

    def f(x):
        mpi.all_reduce(x)
        y = mpi.all_reduce(x * 2, "max") + mpi.all_reduce(x)  # not merged
        return pg.sum(y * mpi.broadcast(y)) + mpi.all_gather(pg.reshape(x, (-1,)))[0]

    g = pg.jit(pg.value_and_grad(f), strict=True)
    for n in range(5):
        x = pg.asarray(values(2, rank=mpi.rank() + 10 * n))
        found = g(x)
        wanted = pg.value_and_grad(f)(x)
        assert [y.tolist() for y in found] == [y.tolist() for y in wanted]
    steps = [step.kernel.name for step in g.explain(x).graph.steps]
    names = [name.removeprefix("mpi.") for name in steps if name.startswith("mpi.")]
    forward = ["AllReduce", "AllReduceMax", "AllReduce", "Broadcast", "AllGather"]
    assert names[:5] == forward, names
    assert len(names) == 10, names  # 5 in gradients: the maximum has 2


@program
def under_vmap():
    """One message carries the values of all examples, also in gradients."""
    for name, (f, expected) in COLLECTIVES.items():
        for axis in (0, 2):
            x = np.moveaxis(values(5, 4, 3), 0, axis)
            xs = np.moveaxis(all_values(5, 4, 3), 1, 0)
            before = world().count
            y = pg.vmap(f, in_axes=axis)(pg.asarray(x))
            assert world().count - before <= 1, name
            wanted = np.stack([expected(x_of_ranks, mpi.rank()) for x_of_ranks in xs])
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-5, err_msg=name)
        g = lambda x, f=f: pg.vjp(f, x)[1](pg.ones_like(f(x)))[0]
        x = pg.asarray(values(5, 4, 3))
        wanted = np.stack([g(example).numpy() for example in x])
        for h in (pg.vmap(g), pg.jit(pg.vmap(g))):
            np.testing.assert_allclose(h(x).numpy(), wanted, rtol=1e-5, err_msg=name)


def waiting_time(x, pause):
    """Return the shortest of 8 waits for a mean that began ``pause`` seconds before."""
    found = []
    for _ in range(8):
        mpi.barrier()
        ticket = start_mean([x])
        time.sleep(pause)
        start = time.perf_counter()
        (y,) = wait_for_mean(ticket, [x])
        found.append(time.perf_counter() - start)
        assert y[0].item() == (mpi.size() - 1) / 2
    return min(found)


@program
def messages_advance_while_a_rank_does_something_else():
    x = pg.full((4 << 20,), float(mpi.rank()))
    at_once = waiting_time(x, 0.0)
    later = waiting_time(x, 0.05)
    assert later < at_once / 2, (at_once, later)


@program
def nothing_is_copied_on_cpu():
    with pg.use_backend("cpu"):
        x = pg.ones((1 << 20,))
        mpi.all_reduce(x)
        tracemalloc.start()
        y = mpi.all_reduce(x)
        peak = tracemalloc.get_traced_memory()[1]
    assert y.size * 4 <= peak < y.size * 4 + 2**16, peak


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
