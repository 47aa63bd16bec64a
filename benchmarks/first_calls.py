"""Print the overhead of the first two calls under ``jit``, in milliseconds.

Each workload of ``workloads.py`` that supports ``jit`` runs in a few fresh processes.
It is first called eagerly, so that all one-time work is done. Then the first two calls
under ``jit``, which record, are timed; ``jit_calls.py`` times the third call, which
compiles. The time of an eager call is subtracted from the first call, that of a later
call from the second. Each figure is the minimum over all processes. The cache of
plugrad-llvm is empty. First calls should take at most 5 ms; with plugrad-llvm, 80 ms::

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
EAGER_CALLS = 10  # before the first call under jit; the fastest one is subtracted
LATER_CALLS = 10  # after the second call under jit; the fastest one is subtracted
Case = Callable[[], Any]


def call_ms(f: Case) -> float:
    """Return the duration of a call in milliseconds."""
    start = time.perf_counter()
    f()
    return (time.perf_counter() - start) * 1e3


def case_factory(name: str, backend: str) -> Callable[[Callable[..., Any]], Case]:
    """Return a function that makes a workload's case, given ``jit`` or the identity."""
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


def first_call_overheads(name: str, backend: str) -> tuple[float, float]:
    """Return the overhead of the first two calls in milliseconds."""
    make = case_factory(name, backend)
    run = make(lambda f: f)
    eager = min([call_ms(run) for _ in range(EAGER_CALLS)])
    import plugrad as pg

    run = make(pg.jit)
    first = call_ms(run)
    second = call_ms(run)
    return first - eager, second - min([call_ms(run) for _ in range(LATER_CALLS)])


def run_in_fresh_process(
    script: str,
    *arguments: str,
    plugins: str,
    threads: int,
    paths: Sequence[str] = (),
) -> Any:
    """Run a script in a fresh process with empty disk caches; return its JSON output.

    Args:
        script: The path of the script; the last line that it prints is JSON.
        arguments: The arguments of its command line.
        plugins: The plugins to load.
        threads: The number of kernel threads.
        paths: Folders to search for modules before all others.

    """
    names = ("OMP_NUM_THREADS", "PLUGRAD_CPU_THREADS")
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | dict.fromkeys(names, str(threads))
        environment |= {"PLUGRAD_PLUGINS": plugins, "XDG_CACHE_HOME": cache}
        search_path = [*filter(None, [os.environ.get("PYTHONPATH")])]
        environment["PYTHONPATH"] = os.pathsep.join([*paths, *search_path])
        done = subprocess.run(
            [sys.executable, script, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])


def measure_in_process(name: str, backend: str, threads: int) -> tuple[float, float]:
    """Run ``first_call_overheads`` in a fresh process, and return its result."""
    given = ("--measure", name, backend.split(" ")[0])
    plugins = BACKENDS[backend]
    first, second = run_in_fresh_process(
        __file__, *given, plugins=plugins, threads=threads
    )
    return first, second


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each workload."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--only", default="", help="workloads, separated by commas")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.measure:
        print(json.dumps(first_call_overheads(*options.measure)))
        return 0
    sys.path.insert(0, str(PEERS))
    import plugrad_peer

    chosen = options.only.split(",") if options.only else plugrad_peer.JIT_WORKLOADS
    print(f"{'ms over others':20}" + "".join([f"{name:>20}" for name in BACKENDS]))
    for name in chosen:
        cells = []
        for backend in BACKENDS:
            runs = [
                measure_in_process(name, backend, options.threads)
                for _ in range(options.processes)
            ]
            first, second = (min(times) for times in zip(*runs, strict=True))
            cells.append(f"{first:8.1f} and {second:5.1f}")
        print(f"{name:20}" + "".join([f"{cell:>20}" for cell in cells]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
