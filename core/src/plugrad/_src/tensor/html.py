"""How notebooks show tensors: a table of the values, with a caption that describes it.

It is plain HTML, without styles, scripts or anything from elsewhere. Screen readers get
the caption, and the indices as headers of rows and columns.
"""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

# Rows, and columns, that a table shows; longer axes are cut in the middle.
MAX_SHOWN_INDICES = 10
ELLIPSIS = "…"
NO_BREAK = "\N{NO-BREAK SPACE}"  # or the caption of a narrow table has a line a word


def page(caption: str, values: np.ndarray[Any, Any] | None = None) -> str:
    """Return the caption and the values, in a table where there are one or two axes."""
    about = escape(caption)
    if values is None or values.size == 0:
        return f"<p>{about}</p>"
    if values.ndim == 0:
        return f"<p>{about}: {_text(values[()])}</p>"
    if values.ndim > 2:
        text = np.array2string(values, separator=", ", threshold=100)
        return f"<p>{about}</p><pre>{escape(text)}</pre>"
    rows, columns = _shown(values.shape[0]), _shown(values.shape[-1])
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
    return f"<table><caption>{about.replace(' ', NO_BREAK)}</caption>{body}</table>"


def _shown(size: int) -> list[int | None]:
    """Return the indices that are shown; None stands for those that are left out."""
    if size <= MAX_SHOWN_INDICES:
        return [*range(size)]
    half = MAX_SHOWN_INDICES // 2
    return [*range(half), None, *range(size - half, size)]


def _index(i: int | None) -> str:
    return ELLIPSIS if i is None else str(i)


def _cells(row: Any, columns: list[int | None]) -> str:
    """Return the cells of a row; None is a row that is left out."""
    texts = [ELLIPSIS if row is None or j is None else _text(row[j]) for j in columns]
    return "".join(f"<td>{text}</td>" for text in texts)


def _text(value: Any) -> str:
    """Return one element: six digits of a number, or text."""
    if isinstance(value, bytes):
        return escape(value.decode(errors="replace"))
    return f"{value:.6g}" if isinstance(value, np.inexact) else str(value)
