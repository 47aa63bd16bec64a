"""Measure plugrad-mpi: all_reduce latency and bandwidth, weak scaling, and overlap.

Run it with ``mpiexec``, or let it start ``mpiexec`` for several numbers of ranks::

    python benchmarks/mpi.py --ranks 1,2,4
    mpiexec -n 2 python benchmarks/mpi.py

With ``--ranks``, each rank has one thread. The variants take turns, and the shortest
time of each counts. There must be a core for each rank.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_mpi as mpi
from plugrad_mpi.world import world

ROOT = Path(__file__).parents[1]
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PLUGRAD_WASM_THREADS")
MESSAGE_BYTES = [4 * 4**n for n in range(2, 12)]  # 64 B to 16 MiB
BATCH_PER_RANK = 256  # images


def shortest_times(
    variants: dict[str, Callable[[], Any]], seconds: float
) -> dict[str, float]:
    """Return the shortest time of each variant in seconds, on the slowest rank."""
    comm = world().comm
    found = dict.fromkeys(variants, float("inf"))
    end = time.perf_counter() + seconds
    for f in variants.values():
        f()
    while comm.bcast(time.perf_counter() < end):
        for name, f in variants.items():
            comm.Barrier()
            start = time.perf_counter()
            f()
            spent = comm.allreduce(time.perf_counter() - start, op=world().mpi.MAX)
            found[name] = min(found[name], spent)
    return found


def message_times(seconds: float) -> dict[int, dict[str, float]]:
    """Return the times of all_reduce and of mpi4py's Allreduce, by message size."""
    found = {}
    for size in MESSAGE_BYTES:
        x = pg.ones((size // 4,))
        sent = x.numpy()
        received = np.empty(size // 4, np.float32)
        variants = {
            "plugrad_mpi": lambda x=x: mpi.all_reduce(x),
            "mpi4py": lambda a=sent, b=received: world().comm.Allreduce(a, b),
        }
        found[size] = shortest_times(variants, seconds)
    return found


def step_times(seconds: float) -> dict[str, float]:
    """Return the times of a training step of the digits network, by variant."""
    sys.path.insert(0, str(ROOT))
    from examples import digits

    rng = np.random.default_rng(mpi.rank())
    weights = digits.new_weights(np.random.default_rng(0))
    params = {name: weight.value for name, weight in weights.items()}
    images = pg.asarray(rng.random((BATCH_PER_RANK, 8, 8, 1), np.float32))
    labels = pg.asarray(rng.integers(0, 10, BATCH_PER_RANK).astype(np.int32))

    def overlapped_loss(params: Any, images: Any, labels: Any) -> pg.Tensor:
        return digits.loss_of(OverlappedParams(params), images, labels)

    def step(value_and_grad: Callable[..., Any]) -> Callable[[], Any]:
        @pg.jit
        def run(params: Any, images: Any, labels: Any) -> Any:
            value, grads = value_and_grad(params, images, labels)
            return value, pg.tree.map(lambda p, g: p - 0.01 * g, params, grads)

        return lambda: run(params, images, labels)

    plain = pg.value_and_grad(digits.loss_of)
    early = pg.value_and_grad(overlapped_loss)
    small = 32 / 1024  # MiB: the dense layer fills the first bucket
    return shortest_times(
        {
            "alone": step(plain),
            "data parallel": step(mpi.data_parallel(plain)),
            "small buckets": step(mpi.data_parallel(plain, bucket_mib=small)),
            "overlap": step(mpi.data_parallel(early, bucket_mib=small)),
        },
        seconds,
    )


class OverlappedParams(dict[str, Any]):
    """Parameters whose gradients are sent as soon as backward has passed their use."""

    def __getitem__(self, name: str) -> Any:
        return mpi.overlap(super().__getitem__(name))


def measure_ranks(ranks: int, seconds: float) -> dict[str, Any]:
    """Return the measurements of a run with this number of ranks."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    mpiexec = shutil.which("mpiexec", path=path)
    if mpiexec is None:
        sys.exit("benchmarks/mpi.py: there is no mpiexec; pip install mpich")
    command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--json"]
    command += ["--seconds", str(seconds)]
    env = dict.fromkeys(THREAD_VARIABLES, "1") | os.environ
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=env
    )
    return dict(json.loads(done.stdout))


def show(results: dict[int, dict[str, Any]]) -> None:
    """Print the tables."""
    print("all_reduce, us (in brackets mpi4py); GB/s of the largest message")
    for ranks, found in results.items():
        if ranks == 1:
            continue
        for size, times in found["messages"].items():
            ours = times["plugrad_mpi"] * 1e6
            theirs = times["mpi4py"] * 1e6
            rate = f"{int(size) / times['plugrad_mpi'] / 1e9:.2f} GB/s"
            print(f"{ranks} ranks {int(size):>9} B {ours:>9.1f} ({theirs:.1f}) {rate}")
    print(f"a step of the digits network, batch {BATCH_PER_RANK} per rank, ms")
    for ranks, found in results.items():
        times = {name: 1e3 * spent for name, spent in found["steps"].items()}
        shown = ", ".join(f"{name} {spent:.2f}" for name, spent in times.items())
        first = next(iter(results.values()))["steps"]["alone"]
        scaling = first / found["steps"]["data parallel"]
        message_share = found["steps"]["alone"] / found["steps"]["data parallel"]
        print(f"{ranks} ranks: {shown}")
        print(f"  weak scaling {scaling:.2f}; messages alone {message_share:.2f}")


def main() -> None:
    """Read the options and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", help="numbers of ranks, such as 1,2,4")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of each measurement"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.ranks is not None:
        numbers = [int(text) for text in options.ranks.split(",")]
        show({ranks: measure_ranks(ranks, options.seconds) for ranks in numbers})
        return
    found = {
        "messages": message_times(options.seconds),
        "steps": step_times(5 * options.seconds),
    }
    if options.json:
        if mpi.rank() == 0:
            print(json.dumps(found))
    elif mpi.rank() == 0:
        show({mpi.size(): found})


if __name__ == "__main__":
    main()
