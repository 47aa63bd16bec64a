"""Profile one training step of the demo on every installed backend, and draw it.

For each backend, the page contains the table of ``print(p)`` and a picture of the trace
as Perfetto shows it: the runs from left to right, nested runs below them, and the bytes
held by results. These commands wrote ``docs/profile.md``::

    make .venv/.group-demo
    OPENBLAS_NUM_THREADS=1 .venv/bin/python examples/profile_step.py --out docs

Contents: the step; the picture; the page; the command line.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import digits
import numpy as np
import plugrad as pg

Event = dict[str, Any]

# --- the step --------------------------------------------------------------------


def profiled(backend: str, steps: int = 120) -> tuple[str, list[Event]]:
    """Return the table and the trace of the fastest step of 32 images."""
    rng = np.random.default_rng(0)
    data = digits.load(0)
    with pg.use_backend(backend), tempfile.TemporaryDirectory() as folder:
        weights = digits.new_weights(rng)
        training = digits.train(weights, data.images, data.labels, rng, epochs=3)
        profiles = []
        for _ in range(steps):
            with pg.profile() as p:
                count, _ = next(training)
            if count == 32:  # the last batch of an epoch is smaller
                profiles.append(p)
        best = min(profiles, key=lambda p: p.seconds)
        path = Path(folder) / "trace.json"
        best.to_chrome_trace(path)
        return str(best), json.loads(path.read_text())["traceEvents"]


# --- the picture -----------------------------------------------------------------

TRANSFERS = {"upload": "#228833", "download": "#66ccee", "move": "#ee3311"}
COLOURS = ["#4477aa", "#ee8866", "#bbcc33", "#aa3377", "#eedd88", "#997700", "#7788cc"]
COLOURS += ["#44bb99", "#ffaabb"]
OTHER = "#999999"


def rows(spans: Sequence[Event]) -> list[int]:
    """Return the nesting depth of each span; spans are sorted by start."""
    found, open_until = [], []
    for e in spans:
        while open_until and open_until[-1] <= e["ts"]:
            open_until.pop()
        found.append(len(open_until))
        open_until.append(e["ts"] + e["dur"])
    return found


def colours(spans: Sequence[Event]) -> dict[str, str]:
    """Return a color for each of the most expensive kernels."""
    spent: dict[str, float] = {}
    for e in spans:
        if e["cat"] not in TRANSFERS:
            spent[e["name"]] = spent.get(e["name"], 0.0) + e["dur"]
    costly = sorted(spent, key=lambda name: -spent[name])
    return dict(zip(costly, COLOURS, strict=False))


def draw(events: Sequence[Event], title: str, path: Path) -> None:
    """Write a PNG of a trace."""
    from matplotlib.figure import Figure

    spans = [e for e in events if e["ph"] == "X"]
    spans.sort(key=lambda e: (e["ts"], -e["dur"]))
    begin = spans[0]["ts"]
    end = max(e["ts"] + e["dur"] for e in spans)
    deepest = max(rows(spans))
    height = 1.2 + 0.6 * deepest
    figure = Figure(figsize=(13, 1.8 + height), layout="constrained")
    runs, memory = figure.subplots(2, 1, sharex=True, height_ratios=[height, 0.7])
    colour = colours(spans)
    draw_runs(runs, spans, colour)
    runs.invert_yaxis()
    runs.set(yticks=[], title=title)
    keys = legend(colour, {e["cat"] for e in spans})
    figure.legend(handles=keys, loc="outside lower center", ncols=7, fontsize=8)
    counts = [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C"]
    times = [(ts - begin) / 1e3 for ts, _ in counts]
    memory.fill_between(times, [n / 1e6 for _, n in counts], step="post", color=OTHER)
    memory.set(xlabel="ms", ylabel="MB held", xlim=(0, (end - begin) / 1e3))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


def draw_runs(axis: Any, spans: Sequence[Event], colour: Mapping[str, str]) -> None:
    """Draw a bar for each span, with its name if the bar is wide enough."""
    from matplotlib.patheffects import withStroke

    begin = spans[0]["ts"]
    end = max(e["ts"] + e["dur"] for e in spans)
    for e, depth in zip(spans, rows(spans), strict=True):
        start = (e["ts"] - begin) / 1e3
        width = e["dur"] / 1e3
        fill = TRANSFERS.get(e["cat"]) or colour.get(e["name"], OTHER)
        hatch = "" if e["cat"] in (*TRANSFERS, "implementation") else "///"
        style = {"color": fill, "edgecolor": "white", "linewidth": 0.2, "hatch": hatch}
        axis.barh(depth, width, left=start, height=0.92, **style)
        if e["dur"] > 0.007 * (len(e["name"]) + 1) * (end - begin):
            text = {"ha": "center", "va": "center", "fontsize": 8}
            label = axis.text(start + width / 2, depth, e["name"], **text)
            label.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def legend(colour: Mapping[str, str], kinds: set[str]) -> list[Any]:
    """Return the legend of the colors and the hatching."""
    from matplotlib.patches import Patch

    keys = [Patch(color=fill, label=name) for name, fill in colour.items()]
    keys.append(Patch(color=OTHER, label="other kernels"))
    for kind, fill in TRANSFERS.items():
        if kind in kinds:
            keys.append(Patch(color=fill, label=kind))
    for kind in sorted(kinds - {*TRANSFERS, "implementation"}):
        keys.append(Patch(facecolor=OTHER, edgecolor="white", hatch="///", label=kind))
    return keys


# --- the page --------------------------------------------------------------------

PAGE = """\
# One training step, profiled

This page shows the fastest of 120 training steps of `make demo`: 32 images of 8x8, two
convolutions, pooling, a dense layer, the gradient and Adam. `examples/profile_step.py`
wrote this page on {machine}; cpu used one thread.

```python
with pg.profile() as p:
    next(steps)
print(p)
p.to_chrome_trace("step.json")  # for https://ui.perfetto.dev
```

The pictures show the trace: the runs from left to right (forward, backward, Adam), the
nested runs below each run, and the bytes held by results at the bottom. `docs/tools.md`
explains the columns of the tables. The profiler adds some 10 microseconds to each run
and waits for an asynchronous backend after each run; the *device* column excludes both.
The profile of a step under `jit` has rows for *regions*, with the kernels inside:
`docs/tools.md` shows one.
"""
PART = """
## {backend}

![A trace on {backend}](profile/{backend}.png)

```
{table}
```
"""


def main(arguments: list[str] | None = None) -> None:
    """Read the options; write the page and its pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", action="append", choices=pg.backends())
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args(arguments)
    machine = f"{platform.machine()} with Python {platform.python_version()}"
    page = PAGE.format(machine=machine)
    for backend in options.backend or pg.backends():
        table, events = profiled(backend)
        path = options.out / "profile" / f"{backend}.png"
        draw(events, f"One training step on {backend}", path)
        page += PART.format(backend=backend, table=table)
    path = options.out / "profile.md"
    path.write_text(page)
    print(f"one step, profiled: {path.resolve()}")


if __name__ == "__main__":
    main()
