"""Run the test suite of a library in a process, and print a table of its outcomes."""

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
    """Run pytest on a backend, with a plugin, in a process that starts in a folder.

    Returns:
        The exit status of pytest; 0 if the backend is unavailable, which is printed.

    """
    try:
        with pg.use_backend(backend):
            pass
    except pg.BackendUnavailable as error:
        print(f"{backend} does not run: {error}", flush=True)
        return 0
    options = ["-c", os.devnull, f"--rootdir={folder}", "-p", "no:cacheprovider"]
    plugins = ["-p", plugin, "-p", "no:plugrad_conformance"]
    command = [sys.executable, "-m", "pytest", *options, *plugins, "-q", "-W", "ignore"]
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    env = {"PLUGRAD_BACKEND": backend, "PYTHONPATH": path, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([*command, *arguments], env=os.environ | env, cwd=folder)
    return done.returncode


def table(reporter: Any, versions: str, group: Callable[[str], str]) -> None:
    """Print the outcomes by group; ``group`` maps a test's node id to its group."""
    counts: dict[str, Counter[str]] = {}
    for outcome, reports in reporter.stats.items():
        key = "passed" if outcome == "xpassed" else outcome  # an xfail of the library
        for report in reports if key in OUTCOMES else ():
            counts.setdefault(group(report.nodeid), Counter())[key] += 1
    counts["all"] = sum(counts.values(), Counter())
    reporter.section(f"{backend()}: {versions}, plugrad {pg.__version__}")
    for name, row in sorted(counts.items(), key=lambda item: (item[0] == "all", item)):
        cells = " | ".join(str(row[outcome]) for outcome in OUTCOMES)
        reporter.write_line(f"| {name} | {cells} |")
