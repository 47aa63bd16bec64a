"""Charts as SVG, without dependencies: bars of ratios, and panels of curves.

A chart has a title, titles of its axes with their units, and a caption: where and when
it was measured. ``render`` draws it for a light or a dark page. The same chart always
gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Theme:
    """The colors of a chart: background, text, muted text, grid, and libraries.

    A series has the color of the library whose name its own name starts with.
    """

    ground: str
    text: str
    muted: str
    grid: str
    libraries: dict[str, str]

    def color(self, series: str) -> str:
        """Return the color of a series."""
        return next(x for name, x in self.libraries.items() if series.startswith(name))


LIGHT = Theme(
    ground="#ffffff",
    text="#1f2328",
    muted="#57606a",
    grid="#d8dee4",
    libraries={
        "plugrad": "#0969da",
        "PyTorch": "#c2500c",
        "JAX": "#7546c9",
        "ONNX Runtime": "#0b7a5c",
    },
)
DARK = Theme(
    ground="#161b22",
    text="#e6edf3",
    muted="#9da7b3",
    grid="#3d444d",
    libraries={
        "plugrad": "#58a6ff",
        "PyTorch": "#f0883e",
        "JAX": "#b18cff",
        "ONNX Runtime": "#3fc39b",
    },
)
THEMES = {"": LIGHT, "-dark": DARK}  # by file name suffix

# --- charts ----------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """A named group of bars: one value for each series; None draws no bar.

    Attributes:
        name: The label to the left of the bars.
        values: The ratios.
        strong: Whether to print the name in bold, for example for a mean.

    """

    name: str
    values: tuple[float | None, ...]
    strong: bool = False


@dataclass(frozen=True)
class Bars:
    """A chart of horizontal bars, with a line at 1.

    On a logarithmic axis the bars begin at 1, otherwise at 0.
    """

    title: str
    axis: str
    caption: str
    series: tuple[str, ...]
    groups: tuple[Group, ...]
    logarithmic: bool = True


@dataclass(frozen=True)
class Panels:
    """A panel for each name, with a curve for each series; both axes are logarithmic.

    Attributes:
        title: The title of the chart.
        x_axis: The title of the horizontal axes.
        y_axis: The title of the vertical axes.
        caption: Where and when it was measured.
        series: The names of the curves.
        ticks: The labels of the points, which are equally spaced.
        panels: The curves by panel name: for each series, a value at each point.

    """

    title: str
    x_axis: str
    y_axis: str
    caption: str
    series: tuple[str, ...]
    ticks: tuple[str, ...]
    panels: dict[str, list[list[float | None]]]


def render(chart: Bars | Panels, theme: Theme) -> str:
    """Return the SVG of a chart."""
    return _bars(chart, theme) if isinstance(chart, Bars) else _panels(chart, theme)


# --- parts of all charts ---------------------------------------------------------

WIDTH = 760  # width of a chart; all sizes are in units of the viewBox
MARGIN = 16
TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 16, 12, 11
LETTER_WIDTH, BOLD_SCALE = 6.7, 1.16  # estimates for letters of TEXT_SIZE
HEAD_HEIGHT = 60  # title and legend


def _text(
    x: float,
    y: float,
    text: str,
    fill: str,
    *,
    anchor: str = "start",
    size: int = TEXT_SIZE,
    bold: bool = False,
) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
        f'{weight} fill="{fill}">{escape(text)}</text>'
    )


def _note(x: float, y: float, text: str, theme: Theme, *, anchor: str) -> str:
    return _text(x, y, text, theme.muted, anchor=anchor, size=SMALL_SIZE)


def _width(text: str, *, bold: bool = False) -> float:
    """Return the estimated width of a text."""
    return len(text) * LETTER_WIDTH * (BOLD_SCALE if bold else 1)


def _line(x: float, y: float, dx: float, dy: float, stroke: str, width: float) -> str:
    return (
        f'<path d="M{x:.1f} {y:.1f}l{dx:.1f} {dy:.1f}" stroke="{stroke}" '
        f'stroke-width="{width:g}" fill="none"/>'
    )


def _frame(chart: Bars | Panels, theme: Theme, height: float, parts: list[str]) -> str:
    """Return the SVG around the parts of a chart, with its title and caption."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'width="{WIDTH}" height="{height:.0f}" role="img" '
        'font-family="system-ui, sans-serif">'
    )
    ground = (
        f'<rect width="{WIDTH}" height="{height:.0f}" rx="8" fill="{theme.ground}"/>'
    )
    title = _text(MARGIN, 28, chart.title, theme.text, size=TITLE_SIZE, bold=True)
    caption = _note(MARGIN, height - 12, chart.caption, theme, anchor="start")
    lines = [head, f"<title>{escape(chart.title)}</title>", ground, title]
    return "\n".join([*lines, *parts, caption, "</svg>\n"])


def _legend(series: Sequence[str], theme: Theme) -> list[str]:
    """Return a square and a name for each series, below the title."""
    x, parts = float(MARGIN), []
    for name in series:
        parts.append(
            f'<rect x="{x:.1f}" y="40" width="11" height="11" rx="2" '
            f'fill="{theme.color(name)}"/>'
        )
        parts.append(_text(x + 17, 50, name, theme.text))
        x += 17 + _width(name) + 24
    return parts


# --- bars ------------------------------------------------------------------------

BAR_HEIGHT, BAR_GAP, GROUP_GAP = 12, 2, 7
VALUE_WIDTH = 40  # room for the number at the end of a bar
LOGARITHMIC_TICKS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
FOOT_HEIGHT = 72  # ticks, the title of the axis and the caption


class Scale:
    """The axis of a bar chart: converts values to horizontal positions.

    Attributes:
        logarithmic: Whether the axis is logarithmic.
        names_end: The position where the group names end.
        left: The left end of the axis.
        right: The right end of the axis.
        ticks: The values with a grid line.

    """

    def __init__(self, chart: Bars, left: float, right: float) -> None:
        values = [x for group in chart.groups for x in group.values if x is not None]
        self.logarithmic, self.names_end = chart.logarithmic, left - 8
        self.left, self.right = left, right - VALUE_WIDTH
        if chart.logarithmic:
            low, high = min(0.9, *values), max(1.1, *values)
            self._low, self._high = math.log(low), math.log(high)
            self.ticks = [x for x in LOGARITHMIC_TICKS if low <= x <= high]
        else:
            self._low, self._high = 0.0, max(1.1, *values)
            self.ticks = [x / 2 for x in range(math.floor(2 * self._high) + 1)]
        if chart.logarithmic and min(values) < 1:
            self.left += VALUE_WIDTH  # room for numbers to the left of such bars

    def at(self, value: float) -> float:
        """Return the horizontal position of a value."""
        x = math.log(value) if self.logarithmic else value
        return self.left + (self.right - self.left) * (x - self._low) / (
            self._high - self._low
        )

    def start(self) -> float:
        """Return where bars begin: at 1, or at 0 on a linear axis."""
        return self.at(1.0) if self.logarithmic else self.left


def _bars(chart: Bars, theme: Theme) -> str:
    names = max(_width(group.name, bold=group.strong) for group in chart.groups)
    scale = Scale(chart, MARGIN + names + 8, WIDTH - MARGIN)
    top = HEAD_HEIGHT + 16
    rows, y = [], float(top)
    for group in chart.groups:
        rows += _group(group, y, scale, chart.series, theme)
        y += _height(group) + GROUP_GAP
    bottom = y - GROUP_GAP + 4
    parts = _legend(chart.series, theme)
    for tick in scale.ticks:
        color, width = (theme.text, 1.5) if tick == 1 else (theme.grid, 1)
        parts.append(_line(scale.at(tick), top - 4, 0, bottom - top + 4, color, width))
        parts.append(
            _text(scale.at(tick), bottom + 15, f"{tick:g}", theme.text, anchor="middle")
        )
    one = scale.at(1)
    right = _note(one + 6, top - 8, "plugrad is faster →", theme, anchor="start")
    left = _note(one - 6, top - 8, "← plugrad is slower", theme, anchor="end")
    middle = (scale.left + scale.right) / 2
    title = _text(middle, bottom + 34, chart.axis, theme.text, anchor="middle")
    parts += [left, right, *rows, title]
    return _frame(chart, theme, bottom + FOOT_HEIGHT, parts)


def _height(group: Group) -> float:
    bars = sum(value is not None for value in group.values)
    return bars * (BAR_HEIGHT + BAR_GAP) - BAR_GAP


def _group(
    group: Group, y: float, scale: Scale, series: Sequence[str], theme: Theme
) -> list[str]:
    """Return the name and the bars of a group."""
    at = scale.names_end, y + _height(group) / 2 + 4
    parts = [_text(*at, group.name, theme.text, anchor="end", bold=group.strong)]
    for value, name in zip(group.values, series, strict=True):
        if value is None:
            continue
        start, end = sorted((scale.start(), scale.at(value)))
        parts.append(
            f'<rect x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 1):.1f}" '
            f'height="{BAR_HEIGHT}" fill="{theme.color(name)}"/>'
        )
        points_left = scale.logarithmic and value < 1
        x, anchor = (start - 4, "end") if points_left else (end + 4, "start")
        text = f"{value:.2f}" if value < 10 else f"{value:.1f}"
        number = _text(x, y + 10, text, theme.text, anchor=anchor, size=SMALL_SIZE)
        parts.append(number)
        y += BAR_HEIGHT + BAR_GAP
    return parts


# --- panels ----------------------------------------------------------------------

PANELS_PER_ROW = 4
PANEL_HEIGHT = 156
AXES_LEFT, AXES_TOP, AXES_HEIGHT = 42, 26, 92  # position and size within a panel


def _panels(chart: Panels, theme: Theme) -> str:
    width = (WIDTH - 2 * MARGIN) / PANELS_PER_ROW
    parts = _legend(chart.series, theme)
    note = f"vertical: {chart.y_axis}; horizontal: {chart.x_axis}"
    parts.append(_text(WIDTH - MARGIN, 50, note, theme.muted, anchor="end"))
    for number, (name, curves) in enumerate(chart.panels.items()):
        x = MARGIN + width * (number % PANELS_PER_ROW)
        y = HEAD_HEIGHT + PANEL_HEIGHT * (number // PANELS_PER_ROW)
        colors = [theme.color(series) for series in chart.series]
        pairs = [*zip(curves, colors, strict=True)]
        panel = _panel(name, pairs, chart.ticks, width - AXES_LEFT - 10, theme)
        parts += [f'<g transform="translate({x:.1f} {y:.1f})">', *panel, "</g>"]
    rows = math.ceil(len(chart.panels) / PANELS_PER_ROW)
    return _frame(chart, theme, HEAD_HEIGHT + PANEL_HEIGHT * rows + 20, parts)


def _panel(
    name: str,
    curves: Sequence[tuple[Sequence[float | None], str]],
    ticks: Sequence[str],
    width: float,
    theme: Theme,
) -> list[str]:
    """Return the parts of a panel: colored curves, and axes of at least a decade."""
    parts = [_text(AXES_LEFT, 18, name, theme.text, bold=True)]
    values = [x for curve, _ in curves for x in curve if x is not None]
    if not values:
        return [*parts, _text(AXES_LEFT, 40, "no times", theme.muted)]
    low = math.log10(min(values))
    high = math.log10(max(values))
    padding = max(0.0, 1 - (high - low)) / 2 + 0.05
    low -= padding
    high += padding

    def x(number: int) -> float:
        return AXES_LEFT + width * number / (len(ticks) - 1)

    def y(value: float) -> float:
        return AXES_TOP + AXES_HEIGHT * (high - math.log10(value)) / (high - low)

    parts.append(
        f'<rect x="{AXES_LEFT}" y="{AXES_TOP}" width="{width:.1f}" '
        f'height="{AXES_HEIGHT}" fill="none" stroke="{theme.grid}"/>'
    )
    for number, tick in enumerate(ticks):
        at = x(number), AXES_TOP + AXES_HEIGHT + 14.0
        parts.append(_text(*at, tick, theme.text, anchor="middle", size=SMALL_SIZE))
    for value in (min(values), max(values)):
        label = f"{value:.2g}" if value < 100 else f"{value:,.0f}"
        at = AXES_LEFT - 4.0, y(value) + 4
        parts.append(_text(*at, label, theme.text, anchor="end", size=SMALL_SIZE))
    for curve, color in curves:
        points = [(x(i), y(v)) for i, v in enumerate(curve) if v is not None]
        parts += _curve(points, color)
    return parts


def _curve(points: Sequence[tuple[float, float]], color: str) -> list[str]:
    """Return a line through points, and a dot at each."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{color}"/>' for x, y in points
    ]
    stroke = f'fill="none" stroke="{color}" stroke-width="1.5"'
    return [f'<polyline points="{line}" {stroke}/>', *dots]
