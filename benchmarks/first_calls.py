"""Print what the first calls of functions under ``jit`` take, in milliseconds.

Each workload of ``workloads.py`` that has ``jit`` runs in a few fresh processes. There
it is called eagerly until nothing is made for the first time; then its first call under
``jit`` is timed, which records, and its second one, which compiles. The figures are the
least of all processes, less an eager call, and less a later call. The cache of
plugrad-llvm is empty. The targets for first calls are 5 ms, and 80 with plugrad-llvm::

    python benchmarks/first_calls.py --threads 1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent / "peers"
BACKENDS = {"cpu": "cpu", "cpu and llvm": "cpu,llvm"}
EAGER, LATER = 10, 10  # calls


def timed(f: Callable[[], Any]) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def measured(name: str, backend: str) -> tuple[float, float]:
    """Return what the first and the second call take beyond others, in this process."""
    sys.path.insert(0, str(PEERS))
    import definitions
    import plugrad as pg
    import plugrad_peer as peer

    pg.set_backend(backend)
    workload = definitions.WORKLOADS[name]
    given = {n: pg.asarray(x) for n, x in workload.inputs(definitions.Draw()).items()}
    if workload.layers is not None:
        given["layers"] = workload.layers

    def case() -> Callable[[], Any]:
        made = peer.cases[name](**given)
        found: Callable[[], Any] = made[0] if isinstance(made, tuple) else made
        return found

    run = case()
    eager = min([timed(run) for _ in range(EAGER)])
    peer.replayed = pg.jit
    run = case()
    first, second = timed(run), timed(run)
    return first - eager, second - min([timed(run) for _ in range(LATER)])


def of_process(name: str, backend: str, threads: int) -> tuple[float, float]:
    """Return ``measured`` of a fresh process, which has compiled nothing before."""
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS")
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | dict.fromkeys(names, str(threads))
        environment |= {"PLUGRAD_PLUGINS": BACKENDS[backend], "XDG_CACHE_HOME": cache}
        command = [sys.executable, __file__, "--of", name, backend.split(" ")[0]]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
    first, second = json.loads(done.stdout.splitlines()[-1])
    return first, second


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each workload."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads, by commas")
    parser.add_argument("--of", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.of:
        print(json.dumps(measured(*options.of)))
        return 0
    sys.path.insert(0, str(PEERS))
    import plugrad_peer

    chosen = options.only.split(",") if options.only else plugrad_peer.JITTED
    print(f"{'ms over others':20}" + "".join([f"{name:>20}" for name in BACKENDS]))
    for name in chosen:
        cells = []
        for backend in BACKENDS:
            runs = [
                of_process(name, backend, options.threads)
                for _ in range(options.processes)
            ]
            first, second = (min(times) for times in zip(*runs, strict=True))
            cells.append(f"{first:8.1f} and {second:5.1f}")
        print(f"{name:20}" + "".join([f"{cell:>20}" for cell in cells]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
