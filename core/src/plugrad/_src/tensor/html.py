"""HTML for notebooks: tables of the values of tensors, and tables of reports.

It is plain HTML without colors, scripts or external files, so that it is readable on
light and on dark pages. The styles only align columns and choose a font; where they are
removed, as on GitHub, nothing else is lost. Screen readers get the caption, and the
headers of rows and columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

# The maximum number of rows, and of columns; longer axes are cut in the middle.
MAX_SHOWN_INDICES = 10
ELLIPSIS = "…"
NO_BREAK = "\N{NO-BREAK SPACE}"  # else a narrow table's caption wraps at each word
MONOSPACE = ' style="font-family: monospace"'
LEFT = ' style="text-align: left"'
RIGHT = ' style="text-align: right"'
BAR_CHARACTERS = 12
BLOCKS = " ▏▎▍▌▋▊▉█"  # eighths of a character


class Bar(float):
    """A table cell drawn as a bar: its length as a fraction of the longest bar."""

    def __str__(self) -> str:
        full, part = divmod(round(self * BAR_CHARACTERS * 8), 8)
        return (BLOCKS[8] * full + BLOCKS[part]).rstrip()


def table(
    caption: str,
    titles: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    text_columns: Collection[str] = (),
    notes: Iterable[str] = (),
    max_rows: int | None = None,
) -> str:
    """Return an HTML table for a notebook; ``plugin.html_table`` is the public API."""
    sides = [LEFT if title in text_columns else RIGHT for title in titles]
    names = "".join(
        f'<th scope="col"{side}>{escape(title)}</th>'
        for title, side in zip(titles, sides, strict=True)
    )
    given = [*rows]
    lines = [f"<tr>{names}</tr>"]
    for i in _shown(len(given), max_rows or len(given)):
        row = [ELLIPSIS] * len(titles) if i is None else given[i]
        cells = zip(map(_cell, row), sides, strict=True)
        lines.append(f"<tr>{''.join(f'<td{side}>{c}</td>' for c, side in cells)}</tr>")
    after = "".join(f"<p>{escape(note)}</p>" for note in notes)
    if not given:
        return f"<p>{escape(caption)}</p>{after}"
    return f"<table>{_caption(caption)}{''.join(lines)}</table>{after}"


def _caption(text: str) -> str:
    return f"<caption{LEFT}>{escape(text).replace(' ', NO_BREAK)}</caption>"


def _cell(value: object) -> str:
    """Return a cell: an int with grouped digits, a float with four digits, or text."""
    if isinstance(value, Bar):  # a percentage is next to it
        return f'<span aria-hidden="true">{value}</span>'
    if isinstance(value, bool) or value is None:
        return "yes" if value else ""
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}"
    return escape(str(value))


def page(caption: str, values: np.ndarray[Any, Any] | None = None) -> str:
    """Return the caption and the values; in a table if there are one or two axes."""
    about = escape(caption)
    if values is None or values.size == 0:
        return f"<p>{about}</p>"
    if values.ndim == 0:
        return f"<p>{about}: <code>{_text(values[()])}</code></p>"
    if values.ndim > 2:
        text = np.array2string(values, separator=", ", threshold=100)
        return f"<p>{about}</p><pre>{escape(text)}</pre>"
    rows = _shown(values.shape[0])
    columns = _shown(values.shape[-1])
    names = "".join(f'<th scope="col">{_index(j)}</th>' for j in columns)
    if values.ndim == 1:
        lines = [names, _cells(values, columns)]
    else:
        lines = [f"<td></td>{names}"] + [
            f'<th scope="row">{_index(i)}</th>'
            + _cells(None if i is None else values[i], columns)
            for i in rows
        ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table{MONOSPACE}>{_caption(caption)}{body}</table>"


def _shown(size: int, limit: int = MAX_SHOWN_INDICES) -> list[int | None]:
    """Return the indices that are shown; None stands for those that are left out."""
    if size <= limit:
        return [*range(size)]
    half = limit // 2
    return [*range(half), None, *range(size - half, size)]


def _index(i: int | None) -> str:
    return ELLIPSIS if i is None else str(i)


def _cells(row: Any, columns: list[int | None]) -> str:
    """Return the cells of a row; None is a row that is left out."""
    texts = [ELLIPSIS if row is None or j is None else _text(row[j]) for j in columns]
    return "".join(f"<td>{text}</td>" for text in texts)


def _text(value: Any) -> str:
    """Return one element as text; inexact numbers have six significant digits."""
    if isinstance(value, bytes):
        return escape(value.decode(errors="replace"))
    return f"{value:.6g}" if isinstance(value, np.inexact) else str(value)
