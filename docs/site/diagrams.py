"""Diagrams: ``make docs`` writes ``docs/diagrams/name.svg`` from ``name.txt``.

A paragraph is a row of boxes. The first line of a box is its title; a line that begins
with ``+ `` starts another box in the row. Arrows lead from row to row; a paragraph
``-> text`` labels the next one.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "diagrams"
# All sizes are in the units of the viewBox.
WIDTH = 760
MARGIN = 16
GAP = 12
TITLE_HEIGHT = 24
LINE_HEIGHT = 18
ARROW_HEIGHT = 34
# Estimated widths of a capital and of another letter; a title is larger by the scale.
CAPITAL_WIDTH = 9.5
LETTER_WIDTH = 6.6
TITLE_SCALE = 1.2
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
font-family="system-ui, sans-serif">
<title>{title}</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" \
markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#5c6370"/></marker></defs>
<rect width="{width}" height="{height}" rx="8" fill="#fff"/>
"""


def render(text: str, title: str) -> str:
    """Return the SVG of a diagram whose source is ``text``, as described above.

    Raises:
        ValueError: A line is too long for its box.

    """
    top = float(MARGIN)
    label = ""
    parts: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("-> "):
            label = paragraph.removeprefix("-> ")
            continue
        if parts:
            parts.append(_arrow(top, label))
            top = top + ARROW_HEIGHT
            label = ""
        row = [box.split("\n") for box in paragraph.split("\n+ ")]
        height = TITLE_HEIGHT + LINE_HEIGHT * (max(map(len, row)) - 1) + 14
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        for number, box in enumerate(row):
            left = MARGIN + number * (width + GAP)
            parts.append(_box(box, left, top, width, height))
        top += height
    head = HEAD.format(width=WIDTH, height=f"{top + MARGIN:g}", title=escape(title))
    return f"{head}{''.join(parts)}</svg>\n"


def _box(lines: list[str], left: float, top: float, width: float, height: int) -> str:
    middle = left + width / 2
    y = top + TITLE_HEIGHT
    parts = [
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height}" rx="6" '
        'fill="#eef0fb" stroke="#3f51b5"/>\n'
    ]
    for number, line in enumerate(lines):
        text_width = sum(
            CAPITAL_WIDTH if c.isupper() or c == "_" else LETTER_WIDTH for c in line
        )
        if text_width * (1 if number else TITLE_SCALE) > width - 8:
            raise ValueError(f"diagram: {line!r} is too long for its box; break it")
        style = 'font-size="13" fill="#333"' if number else 'font-weight="600"'
        parts.append(_text(middle, y + LINE_HEIGHT * number, line, style))
    return "".join(parts)


def _arrow(top: float, label: str) -> str:
    x = MARGIN + 24
    parts = (
        f'<path d="M{x} {top + 3:g}v{ARROW_HEIGHT - 6}" stroke="#5c6370" fill="none" '
    )
    parts += 'stroke-width="1.5" marker-end="url(#tip)"/>\n'
    if label:
        style = 'font-size="13" font-style="italic" fill="#333" text-anchor="start"'
        parts += _text(x + 14, top + ARROW_HEIGHT / 2 + 5, label, style)
    return parts


def _text(x: float, y: float, text: str, style: str) -> str:
    anchor = "" if "text-anchor" in style else 'text-anchor="middle" '
    return f'<text x="{x:g}" y="{y:g}" {anchor}{style}>{escape(text)}</text>\n'


def derive(path: Path) -> str:
    """Return the up-to-date content of a diagram's SVG file."""
    return render(path.with_suffix(".txt").read_text(), path.stem)


FILES = [path.with_suffix(".svg") for path in sorted(FOLDER.glob("*.txt"))]
