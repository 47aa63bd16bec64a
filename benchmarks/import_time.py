"""Print the time of ``import plugrad`` beyond that of ``import numpy``.

Fresh processes take turns: one imports nothing, one NumPy, one NumPy and plugrad. The
figure is the minimum of their CPU times over many rounds. The difference of the first
two is the time of NumPy; the difference of the last two is the time of plugrad. The
ratio of plugrad's time to NumPy's should be at most 0.6::

    python benchmarks/import_time.py [--rounds 20]         # in new environments
    python benchmarks/import_time.py .venv/bin/python ...  # in existing environments

A new environment contains wheels with compiled bytecode: the core alone; the core and
plugrad-cpu; or both next to 300 other distributions and 10 more plugins. The column
``first query`` is the time of the first call that needs the list of plugins: it finds
and registers all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import neighbours

ROOT = Path(__file__).parents[1]
MAX_RATIO = 0.6  # plugrad's import time divided by NumPy's
PROGRAMS = {
    "bare": "pass",
    "numpy": "import numpy",
    "plugrad": "import numpy, plugrad",
    "query": "import numpy, plugrad; plugrad.backends()",
}
PACKAGES = {
    "core alone": "core",
    "with cpu": "plugins/cpu",
    "among 300, 10 plugins": None,
}
IGNORED_FILES = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "*.so")


def process_cpu_ms(python: str, program: str) -> float:
    """Return the CPU time of a process in milliseconds, from its start to its end."""
    process = subprocess.Popen([python, "-I", "-c", program])
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{python} -I -c {program!r} failed")
    return (used.ru_utime + used.ru_stime) * 1e3


def measure(pythons: list[str], rounds: int) -> list[dict[str, float]]:
    """Return the fastest time of each program, after one round that does not count."""
    fastest = [dict.fromkeys(PROGRAMS, float("inf")) for _ in pythons]
    for i in range(rounds + 1):
        for python, times in zip(pythons, fastest, strict=True):
            for name, program in PROGRAMS.items():
                time = process_cpu_ms(python, program)
                times[name] = min(time, times[name]) if i else times[name]
    return fastest


def report(what: str, fastest: dict[str, float]) -> float:
    """Print a row, and return the ratio of plugrad to NumPy."""
    numpy = fastest["numpy"] - fastest["bare"]
    plugrad = fastest["plugrad"] - fastest["numpy"]
    query = fastest["query"] - fastest["plugrad"]
    print(
        f"{what:24}  numpy {numpy:6.1f} ms  plugrad {plugrad:6.1f} ms  "
        f"ratio {plugrad / numpy:5.2f}  first query {query:6.1f} ms",
        flush=True,
    )
    return plugrad / numpy


def slowest(python: str, count: int = 12) -> list[tuple[float, str]]:
    """Return the slowest modules by their own time, leaving out those of NumPy."""
    command = [python, "-I", "-X", "importtime", "-c", "import numpy, plugrad"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    after = log.split("| numpy\n")[1].splitlines()
    rows = [line.removeprefix("import time:").split("|") for line in after]
    return sorted([(int(own_us) / 1e3, name) for own_us, _, name in rows])[
        : -count - 1 : -1
    ]


def install(folder: str, package: str | None) -> None:
    """Install a package of this checkout, or other distributions, in an environment."""
    if package is None:
        site = next(Path(folder).glob("lib/python*/site-packages"))
        neighbours.install_unrelated(site, 300)
        neighbours.install_plugins(site, 10)
        return
    source = f"{folder}/{package}"  # a build writes into its source folder
    shutil.copytree(ROOT / package, source, ignore=IGNORED_FILES)
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", f"{folder}/bin/python"]
    subprocess.run([*pip, "install", source], check=True)


def main() -> int:
    """Measure and print; return 0 if no ratio exceeds the limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", help="interpreters; none: install")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    found = measure(given.pythons, given.rounds)
    ratios = [*map(report, given.pythons, found)]
    if not given.pythons:
        with tempfile.TemporaryDirectory() as folder:
            python = f"{folder}/bin/python"
            venv.create(folder, with_pip=False, symlinks=True)
            for what, package in PACKAGES.items():
                install(folder, package)
                ratios.append(report(what, *measure([python], given.rounds)))
            print("slowest modules, by their own time:")
            for milliseconds, name in slowest(python):
                print(f"{milliseconds:6.1f} ms  {name}")
    met = max(ratios) <= MAX_RATIO
    print(f"ratio of at most {MAX_RATIO}: {'met' if met else 'missed'}")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
