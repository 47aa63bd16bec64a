"""Compare two checkouts of plugrad: time the same workloads in both, in turn.

Each checkout has an environment ``.venv`` with its own plugrad, and runs its own
``workloads.py`` and ``dispatch.py``. They take turns, and the best time of each
workload counts, so a busy machine affects both alike::

    python benchmarks/compare.py base head --rounds 3 > comparison.md

The output is Markdown: first the workloads whose times differ by more than 10 %, then
all workloads. ``.github/workflows/benchmark.yml`` posts it as a comment on a pull
request.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

Times = dict[str, float]  # microseconds by workload
# Ratios between this and its inverse are noise on shared machines.
NOISE_MAX_RATIO = 1.1


def measure_checkout(checkout: Path, only: Sequence[str]) -> Times:
    """Run the workloads of a checkout for one turn; return the times."""
    python = checkout / ".venv" / "bin" / "python"
    scripts = checkout / "benchmarks"
    times: Times = {}
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = [python, scripts / "workloads.py", "--quick", "--json", report.name]
        command += ["--backend", "cpu,cpu-jit"]
        if only:
            command += ["--only", ",".join(only)]
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
        for workload, found in json.loads(Path(report.name).read_text())["us"].items():
            times |= {f"{workload}, {backend}": us for backend, us in found.items()}
    if not only:
        command = [python, scripts / "dispatch.py", "--json", "--rounds", "10"]
        done = subprocess.run(
            [str(word) for word in command], check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)["us"].items()
        times |= {name: us for name, us in found if name.startswith("plugrad ")}
    return times


def best_times(turns: Sequence[Times]) -> Times:
    """Return the best time of each workload."""
    names = [name for name in turns[0] if all(name in turn for turn in turns)]
    return {name: min(turn[name] for turn in turns) for name in names}


def comparison(base: Mapping[str, float], head: Mapping[str, float]) -> str:
    """Return the times before and after as Markdown."""
    ratios = {name: head[name] / base[name] for name in base if name in head}
    if not ratios:
        raise ValueError("compare: the checkouts have no workload in common")
    differ = [
        n
        for n, ratio in ratios.items()
        if not 1 / NOISE_MAX_RATIO <= ratio <= NOISE_MAX_RATIO
    ]
    differ.sort(key=lambda name: ratios[name], reverse=True)
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    rows = {
        name: f"| {name} | {base[name]:,.1f} | {head[name]:,.1f} | {ratio:.2f} |"
        for name, ratio in ratios.items()
    }
    head_lines = ["| workload | base, us | head, us | head / base |"]
    head_lines += ["| --- | ---: | ---: | ---: |"]
    lines = [
        f"**{len(differ)} of {len(ratios)} workloads differ by more than "
        f"{NOISE_MAX_RATIO - 1:.0%}**; the geometric mean of head / base is {mean:.2f}."
    ]
    if differ:
        lines += ["", *head_lines, *(rows[name] for name in differ)]
    lines += ["", "<details><summary>All workloads</summary>", ""]
    lines += [*head_lines, *rows.values(), "", "</details>"]
    if missing := [name for name in base if name not in head]:
        lines += ["", f"Only in base: {', '.join(missing)}."]
    return "\n".join(lines)


def main() -> None:
    """Measure both checkouts and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, help="a checkout with its .venv")
    parser.add_argument("head", type=Path, help="another checkout with its .venv")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each checkout")
    parser.add_argument("--only", type=lambda s: s.split(","), default=[])
    given = parser.parse_args()
    for checkout in (given.base, given.head):
        if not (checkout / ".venv" / "bin" / "python").exists():
            parser.error(f"{checkout} has no .venv: install plugrad into one there")
    if given.rounds < 1:
        parser.error(f"--rounds {given.rounds}: use 1 or more")
    turns: tuple[list[Times], list[Times]] = ([], [])
    for _ in range(given.rounds):
        for checkout, times in zip((given.base, given.head), turns, strict=True):
            times.append(measure_checkout(checkout.absolute(), given.only))
    print(comparison(*map(best_times, turns)))


if __name__ == "__main__":
    main()
