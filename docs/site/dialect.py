"""Converts GitHub's Markdown where MkDocs' dialect differs."""

from __future__ import annotations

import re
from html import escape

PICTURE = re.compile(
    r'<picture><source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">'
    r'<img alt="([^"]+)" src="([^"]+)"></picture>'
)
TABLE_ROW = re.compile(r"(?m)^\|.*$")
CODE_WITH_BAR = re.compile(r"`([^`]*\\\|[^`]*)`")


def slug(heading: str, separator: str) -> str:
    """Return the anchor that GitHub gives to a heading.

    Examples:
        >>> slug("From `TensorFlow.js`: a table", "-")
        'from-tensorflowjs-a-table'

    """
    text = re.sub(r"<[^>]*>|[^\w\- ]", "", heading.lower())
    return text.replace(" ", separator)


def themed_pictures(text: str) -> str:
    """Return Markdown whose pictures follow the theme of the page, not the system's.

    Examples:
        >>> dark = '<source media="(prefers-color-scheme: dark)" srcset="b-dark.svg">'
        >>> themed_pictures(f'<picture>{dark}<img alt="a" src="b.svg"></picture>')
        '![a](b.svg#only-light)![a](b-dark.svg#only-dark)'

    """
    return PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", text)


def escape_bars(text: str) -> str:
    r"""Return Markdown with escaped bars in table code in the form that MkDocs needs.

    Examples:
        >>> escape_bars(r"| `a\|b` | `c` |")
        '| <code>a&#124;b</code> | `c` |'

    """

    def as_html(code: re.Match[str]) -> str:
        escaped = escape(code[1].replace(r"\|", "|")).replace("|", "&#124;")
        return f"<code>{escaped}</code>"

    return TABLE_ROW.sub(lambda row: CODE_WITH_BAR.sub(as_html, row[0]), text)
