"""Print what the first calls of functions under ``jit`` take, in milliseconds.

Each workload of ``workloads.py`` that has ``jit`` runs in a few fresh processes. There
it is called eagerly until nothing is made for the first time; then its first call under
``jit`` is timed and its second one, which both record; ``jit_calls.py`` times the
third, which compiles. The figures are the least of all processes, less an eager call,
and less a later call. The cache of
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
Case = Callable[[], Any]


def timed(f: Case) -> float:
    """Return the milliseconds of a call."""
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def maker(name: str, backend: str) -> Callable[[Callable[..., Any]], Case]:
    """Return what makes the case of a workload, given ``jit`` or the like."""
    sys.path.insert(0, str(PEERS))
    import definitions
    import plugrad as pg
    import plugrad_peer as peer

    pg.set_backend(backend)
    workload = definitions.WORKLOADS[name]
    given = {n: pg.asarray(x) for n, x in workload.inputs(definitions.Draw()).items()}
    if workload.layers is not None:
        given["layers"] = workload.layers

    def make(replayed: Callable[..., Any]) -> Case:
        peer.replayed = replayed
        made = peer.cases[name](**given)
        found: Case = made[0] if isinstance(made, tuple) else made
        return found

    return make


def measured(name: str, backend: str) -> tuple[float, float]:
    """Return what the first and the second call take beyond others, in this process."""
    make = maker(name, backend)
    run = make(lambda f: f)
    eager = min([timed(run) for _ in range(EAGER)])
    import plugrad as pg

    run = make(pg.jit)
    first, second = timed(run), timed(run)
    return first - eager, second - min([timed(run) for _ in range(LATER)])


def answer(
    script: str,
    *arguments: str,
    plugins: str,
    threads: int,
    paths: Sequence[str] = (),
) -> Any:
    """Return what a script prints in a fresh process, whose caches on disk are empty.

    Args:
        script: Its file; its last line is JSON.
        arguments: Of its command line.
        plugins: Those that are loaded.
        threads: How many threads kernels use.
        paths: Folders that come first in the search for modules.

    """
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS")
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | dict.fromkeys(names, str(threads))
        environment |= {"PLUGRAD_PLUGINS": plugins, "XDG_CACHE_HOME": cache}
        before = [*filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join([*paths, *before])
        done = subprocess.run(
            [sys.executable, script, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def of_process(name: str, backend: str, threads: int) -> tuple[float, float]:
    """Return ``measured`` of a fresh process, which has compiled nothing before."""
    given = ("--of", name, backend.split(" ")[0])
    plugins = BACKENDS[backend]
    first, second = answer(__file__, *given, plugins=plugins, threads=threads)
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
