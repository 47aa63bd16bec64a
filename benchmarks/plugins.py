"""Print the cost of one op without additional plugins, and with 20 of them.

The benchmark times ops and a gradient of 8x8 float32 on cpu, in fresh processes that
take turns; the best of many short rounds in each counts. The two columns should differ
only by noise, because an op reads one flat table for any number of plugins::

    python benchmarks/plugins.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import neighbours

PROGRAM = """
import json, timeit
import numpy as np, plugrad as pg
pg.set_backend("cpu")
x = pg.asarray(np.ones((8, 8), "float32"))
gradient = pg.grad(lambda x: pg.sum(pg.tanh(x * x + x)))
cases = {"a + b": lambda: x + x, "exp(a)": lambda: pg.exp(x)}
cases["gradient"] = lambda: gradient(x)
best = {}
for name, case in cases.items():
    number = 200 if name == "gradient" else 5000
    best[name] = min(timeit.repeat(case, number=number, repeat=40)) / number * 1e6
print(json.dumps({"plugins": len(pg.engine().plugins), "us": best}))
"""


def best_times_us(path: str) -> dict[str, float]:
    """Return the best times of a fresh process, in microseconds."""
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    base = os.environ.get("PYTHONPATH", "")
    with tempfile.TemporaryDirectory() as folder:
        neighbours.install_plugins(Path(folder), 20)
        runs = [
            (best_times_us(base), best_times_us(os.pathsep.join([folder, base])))
            for _ in range(rounds)
        ]
    base_count, more_count = runs[0][0]["plugins"], runs[0][1]["plugins"]
    print(f"{'':10}  {base_count} plugins  {more_count} plugins  ratio")
    for name in runs[0][0]["us"]:
        base_us, more_us = (min(run[i]["us"][name] for run in runs) for i in (0, 1))
        print(
            f"{name:10}  {base_us:6.2f} us  {more_us:7.2f} us  {more_us / base_us:5.2f}"
        )


if __name__ == "__main__":
    main()
