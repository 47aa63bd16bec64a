"""What the suites of SciPy and scikit-learn have in common: a process, and a table."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plugrad as pg

BACKENDS = ("cpu", "wasm", "opencl")
OUTCOMES = ("passed", "xfailed", "skipped", "failed", "error")


def backend() -> str:
    """Return the backend that this process tests."""
    return os.environ.get("PLUGRAD_BACKEND", "cpu")


def run(backend: str, plugin: str, folder: Path, arguments: list[str]) -> int:
    """Run pytest with a plugin in a folder, on a backend, in a process.

    Returns:
        Its exit status; 0 for a backend that does not run here, which is printed.

    """
    try:
        with pg.use_backend(backend):
            pass
    except pg.BackendUnavailable as error:
        print(f"{backend} does not run: {error}", flush=True)
        return 0
    where = ["-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    plugins = ["-p", plugin, "-p", "no:plugrad_conformance"]
    command = [sys.executable, "-m", "pytest", *where, *plugins, "-q", "-W", "ignore"]
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    env = {"PLUGRAD_BACKEND": backend, "PYTHONPATH": path, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run([*command, *arguments], env=os.environ | env, cwd=folder)
    return run.returncode


def table(reporter: Any, versions: str, group: Callable[[str], str]) -> None:
    """Print how many tests of each group had which outcome; a test is named by path."""
    counts: dict[str, Counter[str]] = {}
    for outcome, reports in reporter.stats.items():
        key = "passed" if outcome == "xpassed" else outcome  # an xfail of the library
        for report in reports if key in OUTCOMES else ():
            counts.setdefault(group(report.nodeid), Counter())[key] += 1
    counts["all"] = sum(counts.values(), Counter())
    reporter.section(f"{backend()}: {versions}, plugrad {pg.__version__}")
    for name, row in sorted(counts.items(), key=lambda one: (one[0] == "all", one)):
        cells = " | ".join(str(row[outcome]) for outcome in OUTCOMES)
        reporter.write_line(f"| {name} | {cells} |")
