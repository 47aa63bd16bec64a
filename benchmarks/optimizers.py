"""Compare a step of AdamW over many parameters with PyTorch's and optax's.

All libraries update the same parameters with the same gradients, and their results are
compared. Each library runs in a process; they take turns, and the best turn counts.
PyTorch runs with ``foreach``; plugrad and optax run under ``jit`` and donate their
arguments::

    python benchmarks/optimizers.py --peers torch,optax --python PATH

``--python`` is an interpreter with the peers. A ratio is the time of the other library
divided by that of plugrad: above 1, plugrad is faster. ``--clock cpu`` counts CPU time:
use it on a busy machine, with one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

RATE, DECAY = 1e-3, 0.01
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
WARMUP_STEPS = 3  # before the first turn
TURN_S = 1.0  # duration of a turn, in seconds

# --- parameters ------------------------------------------------------------------


def new_params(total: int, tensors: int) -> list[Any]:
    """Return parameters that are alternately large and a hundredth of that size."""
    rng = np.random.default_rng(0)
    each = total // tensors
    sizes = [each // 101 if i % 2 else each + each * 100 // 101 for i in range(tensors)]
    sizes[0] += total - sum(sizes)
    return [rng.normal(size=n).astype(np.float32) for n in sizes]


Step = Callable[[], Any]


def plugrad_step(params: list[Any], threads: int) -> tuple[Step, Step]:
    """Return a step, and a function that returns the parameters."""
    import plugrad as pg
    import plugrad_train as pt

    optimizer = pt.adamw(RATE, weight_decay=DECAY)
    grads = [pg.asarray(x * 0.1) for x in params]
    now: Any = [pg.asarray(x) for x in params]
    now = [now, optimizer.init(now)]
    update = lambda params, state: optimizer.update(grads, state, params)
    update = pg.jit(update, donate=(0, 1))

    def step() -> None:
        now[:] = update(*now)
        now[0][-1].numpy()  # waits for asynchronous backends

    return step, lambda: [x.numpy() for x in now[0]]


def torch_step(params: list[Any], threads: int) -> tuple[Step, Step]:
    """Return a step of PyTorch, and a function that returns the parameters."""
    import torch

    torch.set_num_threads(threads)
    tensors = [torch.tensor(x, requires_grad=True) for x in params]
    for p in tensors:
        p.grad = p.detach() * 0.1
    step = torch.optim.AdamW(tensors, lr=RATE, weight_decay=DECAY, foreach=True).step
    return step, lambda: [p.detach().numpy() for p in tensors]


def optax_step(params: list[Any], threads: int) -> tuple[Step, Step]:
    """Return a step of optax, and a function that returns the parameters."""
    import jax
    import optax

    optimizer = optax.adamw(RATE, weight_decay=DECAY)
    grads = [jax.numpy.asarray(x * 0.1) for x in params]
    now: Any = [jax.numpy.asarray(x) for x in params]
    now = [now, optimizer.init(now)]

    def update(params: Any, state: Any, grads: Any) -> Any:
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    jitted = jax.jit(update, donate_argnums=(0, 1))

    def step() -> None:
        now[:] = jax.block_until_ready(jitted(*now, grads))

    return step, lambda: [np.asarray(x) for x in now[0]]


LIBRARIES = {"plugrad": plugrad_step, "torch": torch_step, "optax": optax_step}

# --- turns -----------------------------------------------------------------------


def serve(library: str, given: argparse.Namespace) -> None:
    """Take a turn for each line of input, and print the time of the fastest step."""
    if hasattr(os, "sched_setaffinity"):  # the only way to limit XLA's threads
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, processors[-given.threads :])
    clock = CLOCKS[given.clock]
    params = new_params(given.parameters, given.tensors)
    step, read_params = LIBRARIES[library](params, given.threads)
    for _ in range(WARMUP_STEPS):
        step()
    print(
        json.dumps([float(np.abs(x).sum(dtype=float)) for x in read_params()]),
        flush=True,
    )
    for _ in sys.stdin:
        times = []
        end = time.perf_counter() + TURN_S
        while time.perf_counter() < end:
            start = clock()
            step()
            times.append(clock() - start)
        print(json.dumps(min(times)), flush=True)


def environment(threads: int) -> dict[str, str]:
    """Return environment variables that limit the libraries' threads."""
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS")
    return dict(os.environ) | dict.fromkeys(names, str(threads))


def compare(given: argparse.Namespace) -> dict[str, float]:
    """Return the seconds of a step of each library."""
    names = ["plugrad", *filter(None, given.peers.split(","))]
    processes = {}
    for name in names:
        python = sys.executable if name == "plugrad" else given.python
        command = [python, __file__, "--serve", name, "--threads", str(given.threads)]
        command += ["--parameters", str(given.parameters), "--clock", given.clock]
        processes[name] = subprocess.Popen(
            [*command, "--tensors", str(given.tensors)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(given.threads),
        )
    try:
        sums = {name: json.loads(read_line(p)) for name, p in processes.items()}
        for name in names[1:]:
            np.testing.assert_allclose(sums[name], sums["plugrad"], rtol=1e-5)
        best = dict.fromkeys(names, float("inf"))
        for _ in range(given.turns):
            for name, process in processes.items():
                best[name] = min(best[name], float(take_turn(process)))
        return best
    finally:
        for process in processes.values():
            process.communicate()


def read_line(process: Any) -> str:
    """Return the next line that a process writes."""
    line: str = process.stdout.readline()
    if not line:
        raise SystemExit(f"{process.args[3]} has failed")
    return line


def take_turn(process: Any) -> str:
    """Have a process take its turn; return the line that it writes."""
    process.stdin.write("\n")
    process.stdin.flush()
    return read_line(process)


def main(arguments: Sequence[str] | None = None) -> dict[str, float]:
    """Read the options, compare, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parameters", type=int, default=10_000_000)
    parser.add_argument("--tensors", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--peers", default="torch", help="torch, optax or both")
    parser.add_argument(
        "--python", default=sys.executable, help="interpreter that has the peers"
    )
    parser.add_argument("--serve", choices=LIBRARIES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve:
        serve(given.serve, given)
        return {}
    best = compare(given)
    for name, seconds in best.items():
        ratio = seconds / best["plugrad"]
        print(f"{name:10}{seconds * 1e3:10.3f} ms{ratio:10.2f}")
    return best


if __name__ == "__main__":
    main()
