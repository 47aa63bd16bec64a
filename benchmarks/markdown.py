"""Markdown for ``python -m benchmarks.report``: tables, numbers and charts."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from textwrap import fill
from typing import Any

from benchmarks.ratios import mean
from benchmarks.records import SMALLEST_PLAIN

PAGE_WIDTH = 92  # characters of a line of text
RULES = {"l": "---", "r": "---:"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """Return a table.

    Args:
        head: The names of the columns.
        rows: The cells.
        align: A letter for each column, ``l`` or ``r``; further columns are ``r``.

    Raises:
        ValueError: A row has more or fewer cells than the head.

    Examples:
        >>> print(table(["a", "b"], [["x", "1"]]))
        | a | b |
        | --- | ---: |
        | x | 1 |

    """
    rules = [RULES[letter] for letter in align.ljust(len(head), "r")]
    lines = [[*head], rules, *map(list, rows)]
    for line in lines:
        if len(line) != len(head):
            raise ValueError(f"{line} does not fit the columns {[*head]}")
    return "\n".join(f"| {' | '.join(line)} |".replace("  ", " ") for line in lines)


def cell(value: Any) -> str:
    """Return a cell of a record as text, with the same digits.

    Examples:
        >>> cell(12058), cell(Decimal("2.10")), cell(Decimal("1e-7")), cell(None)
        ('12,058', '2.10', '1e-7', '')

    """
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Decimal) and 0 < value < SMALLEST_PLAIN:
        return f"{value:e}"
    return f"{value:,}"


def two_decimals(value: float) -> str:
    """Return a ratio with two decimals."""
    return f"{value:.2f}"


def mean_of(found: Mapping[Any, float]) -> str:
    """Return the geometric mean of ratios with two decimals."""
    return two_decimals(mean(found.values()))


def span(values: Iterable[float]) -> str:
    """Return the range of ratios.

    Examples:
        >>> span([1.5, 1.0, 2.0])
        '1.00 to 2.00'

    """
    found = sorted(values)
    return f"{two_decimals(found[0])} to {two_decimals(found[-1])}"


def extreme(found: Mapping[Any, float], choose: Callable[..., Any]) -> str:
    """Return the smallest or the largest ratio, and the name of its row.

    Examples:
        >>> extreme({"a": 1.5, "b": 2.0}, max)
        '2.00 (b)'

    """
    name = choose(found, key=found.__getitem__)
    return f"{two_decimals(found[name])} ({name})"


def alternative_text(found: Mapping[Any, float], what: str) -> str:
    """Return the alternative text of a chart of ratios."""
    return (
        f"Bars of {len(found)} ratios {what}: from {extreme(found, min)} to "
        f"{extreme(found, max)}, geometric mean {mean_of(found)}"
    )


def picture(name: str, alternative: str, page: str) -> str:
    """Return an element that shows the light or the dark version of a chart on GitHub.

    The site replaces the element: see ``docs/site/dialect.py``.
    """
    folder = posixpath.relpath("docs/benchmarks", posixpath.dirname(page) or ".")
    dark = f'media="(prefers-color-scheme: dark)" srcset="{folder}/{name}-dark.svg"'
    light = f'alt="{alternative}" src="{folder}/{name}.svg"'
    return f"<picture><source {dark}><img {light}></picture>"


def paragraph(text: str) -> str:
    """Return a paragraph whose lines fit the page."""
    return fill(text, PAGE_WIDTH, break_long_words=False, break_on_hyphens=False)


def folded(summary: str, body: str) -> str:
    """Return a section of a page that opens on a click."""
    return (
        f'<details markdown="1">\n<summary>{summary}</summary>\n\n{body}\n\n</details>'
    )


def joined(*parts: str) -> str:
    """Return parts of a page joined by empty lines."""
    return "\n\n".join(parts)
