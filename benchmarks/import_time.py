"""Print the milliseconds of ``import plugrad`` beyond those of ``import numpy``.

The figures are medians of 9 pairs of fresh processes in a new virtual environment: with
the core alone, with plugrad-cpu, and with 300 other distributions and 10 more plugins.
In the last case, the benchmark also measures how long the plugins take to register at
the first op. The targets are less than 60 ms and less than 15 ms.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import neighbours

ROOT = Path(__file__).parents[1]
TARGET = 60.0
REGISTRATION = 15.0
# Run in a fresh process: the time that the first op adds before a kernel runs.
FIRST_OP = """
import sys, time
import plugrad
from plugrad.registry.registry import registry
assert not [name for name in sys.modules if name.startswith("plugrad_")]
start = time.perf_counter()
registry.load()
print((time.perf_counter() - start) * 1e3)
assert len(registry.backends()) == 11
"""
PACKAGES = {
    "core alone": "core",
    "with cpu": "plugins/cpu",
    "among 300, 10 plugins": None,
}
LITTER = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")


def once(python: str, module: str) -> float:
    """Return the time of a process that imports one module."""
    start = time.perf_counter()
    subprocess.run([python, "-I", "-c", f"import {module}"], check=True)
    return (time.perf_counter() - start) * 1e3


def measure(python: str, rounds: int = 9) -> tuple[float, float, float]:
    """Return the medians for numpy, for plugrad and for their difference."""
    once(python, "plugrad")  # so that the files are in memory
    pairs = [(once(python, "numpy"), once(python, "plugrad")) for _ in range(rounds)]
    numpy, plugrad = map(statistics.median, zip(*pairs, strict=True))
    return numpy, plugrad, statistics.median(p - n for n, p in pairs)


def registration(python: str, rounds: int = 9) -> float:
    """Return the median time for the hooks of all plugins, in fresh processes."""
    command = [python, "-I", "-c", FIRST_OP]
    done = [
        subprocess.run(command, check=True, capture_output=True, text=True)
        for _ in range(rounds + 1)
    ]
    return statistics.median(float(one.stdout) for one in done[1:])


def slowest(python: str, count: int = 12) -> list[tuple[float, str]]:
    """Return the slowest modules by their own time, without those of numpy."""
    command = [python, "-I", "-X", "importtime", "-c", "import numpy, plugrad"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    after = log.split("| numpy\n")[1].splitlines()
    rows = [line.removeprefix("import time:").split("|") for line in after]
    return sorted([(int(own) / 1e3, name) for own, _, name in rows])[: -count - 1 : -1]


def main() -> int:
    """Install, measure and print; return 0 if the targets are met."""
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        venv.create(folder, with_pip=False, symlinks=True)
        for what, package in PACKAGES.items():
            if package is None:
                site = next(Path(folder).glob("lib/python*/site-packages"))
                neighbours.neighbours(site, 300)
                neighbours.plugins(site, 10)
            else:
                source = f"{folder}/{package}"  # a build writes into its folder
                shutil.copytree(ROOT / package, source, ignore=LITTER)
                pip = [sys.executable, "-m", "pip", "--quiet", "--python", python]
                subprocess.run([*pip, "install", source], check=True)
            numpy, plugrad, beyond = measure(python)
            worst = max(worst, beyond)
            print(
                f"{what:24}  numpy {numpy:6.1f}  plugrad {plugrad:6.1f}  "
                f"difference {beyond:5.1f} ms"
            )
        hooks = registration(python)
        print(f"registration of 11 plugins at the first op {hooks:5.1f} ms")
        print("slowest modules, by their own time:")
        for milliseconds, name in slowest(python):
            print(f"{milliseconds:6.1f}  {name}")
    met = worst < TARGET and hooks < REGISTRATION
    print(
        f"targets {TARGET:.0f} and {REGISTRATION:.0f} ms: {'met' if met else 'missed'}"
    )
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
