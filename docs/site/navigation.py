"""The navigation of the site."""

from __future__ import annotations

from fnmatch import fnmatch
from typing import Any


def expand(entries: list[Any], paths: list[str]) -> list[Any]:
    """Return the navigation with patterns replaced by the pages that they match.

    A path without a page, and a section without entries, are left out. A pattern with a
    ``*`` becomes a section, whose pages have the titles of their headings.

    Examples:
        >>> expand([{"Train": "train.md"}, {"All": ["a.md", "*/*.md"]}], ["a.md"])
        [{'All': ['a.md']}]
        >>> expand([{"All": "*.md"}], ["a.md", "b.md"])
        [{'All': ['a.md', 'b.md']}]

    """
    result: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            result += [path for path in paths if fnmatch(path, entry)]
            continue
        ((title, value),) = entry.items()
        if isinstance(value, list):
            inner = expand(value, paths)
        else:
            inner = [path for path in paths if fnmatch(path, value)]
        if inner:
            page = isinstance(value, str) and "*" not in value
            result.append({title: inner[0] if page else inner})
    return result
