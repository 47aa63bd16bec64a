"""Measure the gain of each trick: time the workloads with it and with its fallback.

A trick depends on a private memory layout of another library. It stays in plugrad only
if it makes some published workloads at least 1.3 times as fast, as its module
documents. The two sides, trick and fallback, run ``workloads.py`` in separate processes
and take turns, and the best time of each workload counts, so a busy machine affects
both alike::

    python benchmarks/tricks.py --rounds 5 > tricks.md
    python benchmarks/tricks.py --tricks wasmtime --only add_8,exp_1m --quick

``opencl`` compiles its kernels twice, once for each side, in the first round. The
linker of plugrad-opencl, another trick, is not measured: without it, and without an
``ld``, there is no device.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from compare import Times, best_times

MIN_GAIN = 1.3  # the time without a trick / the time with it, on some workload


class Trick(NamedTuple):
    """A trick: its module, the variable that disables it, and a contestant to time."""

    module: str
    switch: str
    contestant: str


TRICKS = {
    "wasmtime": Trick("plugrad_wasm.instance", "PLUGRAD_WASM_PLAIN", "wasm"),
    "pocl": Trick("plugrad_opencl._pocl", "PLUGRAD_OPENCL_PLAIN", "opencl"),
}


def measure_trick(trick: Trick, plain: bool, only: Sequence[str], quick: bool) -> Times:
    """Return the microseconds of each workload, with a trick or with its fallback."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        script = Path(__file__).with_name("workloads.py")
        command = [sys.executable, str(script), "--backend", trick.contestant]
        command += ["--json", report.name]
        if quick:
            command.append("--quick")
        if only:
            command += ["--only", ",".join(only)]
        variables = {**os.environ, trick.switch: str(int(plain))}
        done = subprocess.run(command, capture_output=True, text=True, env=variables)
        if done.returncode:
            raise SystemExit(f"tricks.py: workloads.py failed\n{done.stderr.strip()}")
        found = json.loads(Path(report.name).read_text())["us"]
    return {
        name: us[trick.contestant]
        for name, us in found.items()
        if trick.contestant in us
    }


def table(name: str, trick_us: Mapping[str, float], plain: Mapping[str, float]) -> str:
    """Return the gain of a trick for each workload as Markdown, the largest first."""
    gains = {w: plain[w] / trick_us[w] for w in trick_us if w in plain}
    if not gains:
        raise ValueError(f"tricks: {name} has no workload that ran on both sides")
    count = sum(gain >= MIN_GAIN for gain in gains.values())
    trick = TRICKS[name]
    lines = [
        f"**{name}** ({trick.module}, on {trick.contestant}): {count} of {len(gains)} "
        f"workloads gain a factor of {MIN_GAIN} or more.",
        "",
        "| workload | trick, us | plain, us | plain / trick |",
        "| --- | ---: | ---: | ---: |",
    ]
    for w in sorted(gains, key=gains.__getitem__, reverse=True):
        lines.append(f"| {w} | {trick_us[w]:,.1f} | {plain[w]:,.1f} | {gains[w]:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the tricks and print a table for each."""
    names = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--tricks", type=names, default=[*TRICKS], help=",".join(TRICKS)
    )
    parser.add_argument("--only", type=names, default=[], help="workloads")
    parser.add_argument(
        "--rounds", type=int, default=3, help="turns with and without the trick"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the time")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.tricks if name not in TRICKS]:
        parser.error(f"--tricks {','.join(unknown)}: use some of {', '.join(TRICKS)}")
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: use 1 or more")
    for name in given.tricks:
        turns: tuple[list[Times], list[Times]] = ([], [])
        for _ in range(given.rounds):
            for plain, times in enumerate(turns):
                found = measure_trick(
                    TRICKS[name], bool(plain), given.only, given.quick
                )
                times.append(found)
        print(table(name, *map(best_times, turns)), flush=True)


if __name__ == "__main__":
    main()
