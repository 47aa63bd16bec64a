"""Measure the calls per second of a workload in 1, 2, 4 and 8 threads of a process.

Each thread has its own data and calls the workload repeatedly for some seconds; the
calls of all threads are added up. Kernels use one thread each. On free-threaded Python
the threads run at the same time; on other Pythons, only as far as kernels release the
GIL. Each number of threads is measured in a separate process. They take turns, and the
best turn counts. The second table shows the CPU time that a thread spends on a call, as
the minimum of all turns. Even on a busy machine, it shows how much threads slow each
other down::

    python3.14t benchmarks/threads.py
    python3.14t benchmarks/threads.py --contestants cpu,cpu-jit,jax-jit,torch --turns 5

Contestants: ``cpu`` and other plugrad backends; ``cpu-jit``, a backend with ``pg.jit``;
``torch``; ``jax``, which compiles all workloads but ``grad_small``; and ``jax-jit``,
which compiles all.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

HERE = Path(__file__).parent
SINGLE_THREAD_ENV = {
    f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "VECLIB")
}
SINGLE_THREAD_ENV |= {"PLUGRAD_CPU_THREADS": "1", "JAX_PLATFORMS": "cpu"}
SINGLE_THREAD_ENV |= {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


def workload_factory(contestant: str, workload: str) -> Callable[[], Callable[[], Any]]:
    """Return a function that prepares the workload with new data in each call."""
    sys.path[:0] = [str(HERE), str(HERE / "peers")]
    library, _, option = contestant.partition("-")
    name = library if library in ("torch", "jax") else "plugrad"
    sys.argv[1:] = ["1", option] if name == "torch" else [option]
    peer: Any = importlib.import_module(f"{name}_peer")
    definitions: Any = importlib.import_module("definitions")
    if name == "plugrad":
        peer.pg.set_backend(library)
        peer.replayed = peer.pg.jit if option == "jit" else peer.replayed
    convert = {"plugrad": "pg.asarray", "torch": "torch.tensor", "jax": "jnp.asarray"}
    module, _, function = convert[name].partition(".")
    to_array = getattr(getattr(peer, module), function)
    if name == "torch":
        peer.torch.set_num_threads(1)

    def make() -> Callable[[], Any]:
        inputs = definitions.WORKLOADS[workload].inputs(definitions.Draw())
        case = peer.cases[workload](**{k: to_array(x) for k, x in inputs.items()})
        call: Callable[[], Any] = case[0] if isinstance(case, tuple) else case
        return call

    return make


def measure(
    contestant: str, workload: str, threads: int, seconds: float
) -> tuple[float, float]:
    """Return the calls per second of all threads, and the CPU time of a call in us."""
    make = workload_factory(contestant, workload)
    calls = [make() for _ in range(threads)]
    for call in calls:
        for _ in range(5):  # compile, and warm up
            call()
    found: list[tuple[int, float, float]] = []
    ready = threading.Barrier(threads)

    def work(call: Callable[[], Any]) -> None:
        ready.wait()
        count = 0
        start = perf_counter()
        cpu_start = thread_time()
        while count == 0 or perf_counter() < start + seconds:
            call()
            count += 1
        found.append((count, perf_counter() - start, thread_time() - cpu_start))

    workers = [threading.Thread(target=work, args=(call,)) for call in calls]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    speed = sum(count / spent for count, spent, _ in found)
    return speed, sum(cpu for *_, cpu in found) / sum(n for n, *_ in found) * 1e6


def main() -> None:
    """Print a table or, in a measuring process, its measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--contestants", default="cpu,cpu-jit")
    parser.add_argument("--workloads", default="grad_small,cnn_train")
    parser.add_argument("--threads", default="1,2,4,8")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    numbers = [int(n) for n in given.threads.split(",")]
    if given.one:
        found = measure(given.contestants, given.workloads, numbers[0], given.seconds)
        print(json.dumps(found))
        return
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    gil_note = "with the GIL" if gil else "without the GIL"
    print(f"Python {platform.python_version()} {gil_note}, {os.cpu_count()} CPUs\n")
    rows = [
        (workload, contestant)
        for workload in given.workloads.split(",")
        for contestant in given.contestants.split(",")
    ]
    best: dict[tuple[str, str, int], tuple[float, float]] = {}
    for _ in range(given.turns):
        for workload, contestant in rows:
            for count in numbers:
                key = workload, contestant, count
                speed, cost = _measure_in_process(*key, given.seconds)
                best_speed, least_cost = best.get(key, (0.0, cost))
                best[key] = max(best_speed, speed), min(least_cost, cost)
    for index, title in enumerate(("calls per second", "CPU time of a call, us")):
        heads = " | ".join(f"{n} thread{'s' * (n > 1)}" for n in numbers)
        print(f"| {title} | | {heads} |")
        print(f"| --- | --- |{' ---: |' * len(numbers)}")
        for workload, contestant in rows:
            values = [best[workload, contestant, n][index] for n in numbers]
            cells = " | ".join(f"{x:,.{1 if x < 1000 else 0}f}" for x in values)
            print(f"| {workload} | {contestant} | {cells} |")
        print()


def _measure_in_process(
    workload: str, contestant: str, count: int, seconds: float
) -> Any:
    """Measure in a separate process."""
    command = [sys.executable, __file__, "--one", "--contestants", contestant]
    command += ["--workloads", workload, "--threads", str(count)]
    command += ["--seconds", str(seconds)]
    env = {**os.environ, **SINGLE_THREAD_ENV}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{contestant}, {workload}, {count} threads:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
