"""Where the Markdown of GitHub and that of MkDocs differ."""

from __future__ import annotations

import re
from html import escape

ROW = re.compile(r"(?m)^\|.*$")
CODE = re.compile(r"`([^`]*\\\|[^`]*)`")


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub makes it.

    Examples:
        >>> slug("From `TensorFlow.js`: a table", "-")
        'from-tensorflowjs-a-table'

    """
    text = re.sub(r"<[^>]*>|[^\w\- ]", "", heading.lower())
    return text.replace(" ", separator)


def bars(text: str) -> str:
    r"""Return Markdown whose tables have code with bars, which MkDocs shows escaped.

    Examples:
        >>> bars(r"| `a\|b` | `c` |")
        '| <code>a&#124;b</code> | `c` |'

    """

    def replaced(code: re.Match[str]) -> str:
        told = escape(code[1].replace(r"\|", "|")).replace("|", "&#124;")
        return f"<code>{told}</code>"

    return ROW.sub(lambda row: CODE.sub(replaced, row[0]), text)
