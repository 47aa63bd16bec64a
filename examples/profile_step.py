"""Profile one training step of the demo on every installed backend, and draw it.

For each backend the table of ``print(p)`` and a picture of the trace, as Perfetto would
show it: runs from left to right, below them what they consist of, and the bytes that
results held. This wrote ``docs/profile.md``::

    make .venv/.group-demo
    .venv/bin/python examples/profile_step.py --out docs

Map: the step; the picture; the page; the command line.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import digits
import numpy as np
import plugrad as pg

Event = dict[str, Any]

# --- the step --------------------------------------------------------------------


def profiled(backend: str, warm: int = 5) -> tuple[str, list[Event]]:
    """Return the table and the trace of one step, after a few that warm up."""
    rng = np.random.default_rng(0)
    data = digits.load(0)
    with pg.use_backend(backend), tempfile.TemporaryDirectory() as folder:
        weights = digits.new_weights(rng)
        steps = digits.train(weights, data.images, data.labels, rng, epochs=1)
        for _ in range(warm):
            next(steps)
        with pg.profile() as p:
            next(steps)
        path = Path(folder) / "trace.json"
        p.to_chrome_trace(path)
        return str(p), json.loads(path.read_text())["traceEvents"]


# --- the picture -----------------------------------------------------------------

COLOURS = {
    "implementation": "#4477aa",
    "decomposition": "#ccbb44",
    "host": "#aa3377",
    "fallback": "#ee6677",
    "move": "#ee6677",
    "upload": "#228833",
    "download": "#66ccee",
}


def rows(spans: Sequence[Event]) -> list[int]:
    """Return in how many others each span lies; they are sorted by their beginning."""
    found, open_until = [], []
    for e in spans:
        while open_until and open_until[-1] <= e["ts"]:
            open_until.pop()
        found.append(len(open_until))
        open_until.append(e["ts"] + e["dur"])
    return found


def draw(events: Sequence[Event], title: str, path: Path) -> None:
    """Write a PNG of a trace."""
    from matplotlib.figure import Figure

    spans = [e for e in events if e["ph"] == "X"]
    spans.sort(key=lambda e: (e["ts"], -e["dur"]))
    begin, end = spans[0]["ts"], max(e["ts"] + e["dur"] for e in spans)
    depths = rows(spans)
    figure = Figure(figsize=(13, 2.6 + 0.35 * max(depths)), layout="constrained")
    runs, held = figure.subplots(2, 1, sharex=True, height_ratios=[2 + max(depths), 1])
    for e, depth in zip(spans, depths, strict=True):
        start, wide = (e["ts"] - begin) / 1e3, e["dur"] / 1e3
        style = {"color": COLOURS[e["cat"]], "edgecolor": "white", "linewidth": 0.3}
        runs.barh(depth, wide, left=start, height=0.9, **style)
        if wide > 0.013 * len(e["name"]) * (end - begin) / 1e3 / 2:
            text = {"ha": "center", "va": "center", "fontsize": 6.5, "color": "white"}
            runs.text(start + wide / 2, depth, e["name"], clip_on=True, **text)
    runs.invert_yaxis()
    runs.set(yticks=[], title=title)
    shown = [kind for kind in COLOURS if any(e["cat"] == kind for e in spans)]
    keys = [runs.barh(0, 0, color=COLOURS[kind], label=kind) for kind in shown]
    runs.legend(handles=keys, loc="lower right", ncols=len(keys), fontsize=7)
    counts = [(e["ts"], e["args"]["bytes"]) for e in events if e["ph"] == "C"]
    times = [(ts - begin) / 1e3 for ts, _ in counts]
    held.fill_between(times, [n / 1e6 for _, n in counts], step="post", color="gray")
    held.set(xlabel="ms", ylabel="MB held", xlim=(0, (end - begin) / 1e3))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)


# --- the page --------------------------------------------------------------------

PAGE = """\
# One training step, profiled

A step of `make demo`: 32 images of 8x8, two convolutions, pooling, a dense layer, the
gradient and Adam. `examples/profile_step.py` has written this page, on {machine}.

```python
with pg.profile() as p:
    next(steps)
print(p)
p.to_chrome_trace("step.json")  # for https://ui.perfetto.dev
```

Each picture is drawn from the trace: the runs from left to right, forward, backward and
Adam; under a run what it consists of; below, what its results held. `docs/tools.md` says
what the columns of the tables mean. An observed step takes longer than others, by some
10 microseconds a run, and a backend that works asynchronously is waited for after each.
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
