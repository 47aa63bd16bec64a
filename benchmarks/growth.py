"""Time the workloads at 1/16, 1/4, 1, 4 and 16 times their size.

The table shows the time per element. Where this time changes, the arrays no longer fit
into a cache, or a library begins to use threads or another algorithm. The growing axes
are in ``peers.definitions.GROWING_AXES``: rows, batches, the sides of images. Only the
elements of the inputs that grow are counted::

    python benchmarks/growth.py --peers torch --svg docs/profile/growth.svg
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import workloads
from peers import definitions
from peers.definitions import WORKLOADS

FACTORS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
FACTOR_LABELS = ("1/16", "1/4", "1", "4", "16")
Curves = dict[str, dict[str, list[float | None]]]  # ns: workload, contestant, factor


def elements(name: str, factor: float) -> int:
    """Return the size of the inputs that grow."""
    inputs = WORKLOADS[name].inputs(definitions.Draw())
    scaled = definitions.scaled_inputs(name, inputs, factor)
    growing = definitions.GROWING_AXES.get(name, {"x": (0,)})
    return sum(scaled[key].size for key in growing)


def measure(given: argparse.Namespace) -> Curves:
    """Return nanoseconds per element; None where a contestant is wrong or fails."""
    contestants = workloads.start(
        given.backend, given.peers, given.threads, given.python
    )
    turn = workloads.TURNS[given.turns] | {"clock": "wall"}
    curves: Curves = {}
    try:
        for name in given.only:
            curves[name] = {one.name: [] for one in contestants}
            for factor in FACTORS:
                found = workloads.run(name, contestants, given.seconds, turn, factor)
                for one, curve in curves[name].items():
                    us = found["us"].get(one) if one not in found["differ"] else None
                    count = elements(name, factor)
                    curve.append(None if us is None else us * 1e3 / count)
                for one, why in (found["errors"] | found["differ"]).items():
                    print(f"{name} at {factor}: {one}: {why}", file=sys.stderr)
    finally:
        for one in contestants:
            one.close()
    return curves


def table(curves: Curves) -> str:
    """Return a row for each workload and contestant."""

    def row(first: str, second: str, cells: Iterable[str]) -> str:
        return f"{first:14}{second:10}{''.join(f'{x:>10}' for x in cells)}"

    lines = [row("ns an element", "", FACTOR_LABELS)]
    for name, by_contestant in curves.items():
        for one, curve in by_contestant.items():
            cells = ["-" if x is None else f"{x:.3g}" for x in curve]
            lines.append(row(name, one, cells))
    return "\n".join(lines)


# --- the chart -------------------------------------------------------------------

COLORS = ("#1668b8", "#e07b00", "#2e8b57", "#8b3fa0", "#666666")
PANEL_WIDTH, PANEL_HEIGHT, PANELS_PER_ROW = (
    220,
    150,
    4,
)  # of a panel, in pixels, and panels in a row
# of the axes in a panel
AXES_LEFT = 44
AXES_TOP = 26
AXES_SIZE = (160, 92)


def svg(curves: Curves) -> str:
    """Return a chart: a panel for each workload, both axes logarithmic."""
    names = list(next(iter(curves.values()), {}))
    high = PANEL_HEIGHT * math.ceil(len(curves) / PANELS_PER_ROW) + 30
    width = PANEL_WIDTH * PANELS_PER_ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{high}" font-family="sans-serif" font-size="10">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for i, (one, color) in enumerate(zip(names, COLORS, strict=False)):
        parts.append(
            f'<text x="{AXES_LEFT + 90 * i}" y="16" fill="{color}">{one}</text>'
        )
    parts.append(
        _text(AXES_LEFT + 90 * len(names), 16, "ns an element, by relative size")
    )
    for i, (name, of) in enumerate(curves.items()):
        at = (
            PANEL_WIDTH * (i % PANELS_PER_ROW),
            PANEL_HEIGHT * (i // PANELS_PER_ROW) + 24,
        )
        parts += [f'<g transform="translate{at}">', *_panel(name, of), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'


def _panel(name: str, of: Mapping[str, list[float | None]]) -> list[str]:
    """Return the parts of one panel; its axis spans at least a factor of ten."""
    found = [x for curve in of.values() for x in curve if x is not None]
    if not found:
        return [_text(AXES_LEFT, 16, f"{name}: no times")]
    low = math.log10(min(found))
    most = math.log10(max(found))
    room = max(0.0, 1 - (most - low)) / 2 + 0.05
    low = low - room
    most = most + room
    (width, height) = AXES_SIZE
    last = len(FACTORS) - 1
    y = lambda v: AXES_TOP + height * (most - math.log10(v)) / (most - low)
    x = lambda i: AXES_LEFT + width * i / last
    frame = f'<rect x="{AXES_LEFT}" y="{AXES_TOP}" width="{width}" height="{height}" '
    parts = [_text(AXES_LEFT, 20, name), frame + 'fill="none" stroke="#bbb"/>']
    parts += [
        _text(x(i), AXES_TOP + height + 13, h, "middle")
        for i, h in enumerate(FACTOR_LABELS)
    ]
    for value in (min(found), max(found)):
        text = f"{value:.2g}" if value < 100 else f"{value:,.0f}"
        parts.append(_text(AXES_LEFT - 4, y(value) + 3, text, "end"))
    for curve, color in zip(of.values(), COLORS, strict=False):
        points = [(x(i), y(v)) for i, v in enumerate(curve) if v is not None]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}"/>')
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{color}"/>'
            for a, b in points
        ]
    return parts


# --- the command line ------------------------------------------------------------


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line's options."""
    names = lambda text: [name for name in text.split(",") if name]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", type=names, default=["cpu"], help="cpu,wasm,...")
    known = ",".join(workloads.KNOWN_PEERS)
    parser.add_argument("--peers", type=names, default=[], help=known)
    parser.add_argument("--only", type=names, default=[*WORKLOADS], help="workloads")
    parser.add_argument("--threads", type=int, default=1, help="of every contestant")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each point")
    parser.add_argument("--turns", choices=[*workloads.TURNS], default="sustained")
    parser.add_argument("--python", default=sys.executable, help="of the peers")
    parser.add_argument("--svg", type=Path, help="draw the chart into this file")
    parser.add_argument("--json", type=Path, help="write the times to this file")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.only if name not in WORKLOADS]:
        parser.error(f"unknown workloads {unknown}; there are {', '.join(WORKLOADS)}")
    return given


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, draw and write."""
    given = options(arguments)
    curves = measure(given)
    print(table(curves))
    if given.svg:
        given.svg.write_text(svg(curves))
    if given.json:
        report: dict[str, Any] = {"machine": workloads.machine(given.threads)}
        report |= {"factors": FACTORS, "ns": curves}
        given.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
