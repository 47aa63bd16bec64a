"""Split ``docs/kernels.md``, one page on GitHub, into several pages."""

from __future__ import annotations

import re

MIN_KERNELS_PER_PAGE = 20  # a single page with all kernels is 50,000 pixels high
DETAILS = "\n## What each kernel computes\n"
ROW = re.compile(r"^\| `(\w+)` ", re.M)


def split(text: str) -> tuple[str, dict[str, str]]:
    r"""Return the page with the table, and the kernel contract pages by path.

    Examples:
        >>> text = "| `Abs` | `abs` |\n\n## What each kernel computes\n\nHow.\n"
        >>> table, pages = split(text + "\n### Abs\n\n    Abs(x) -> y\n")
        >>> table
        '| [`Abs`](reference/kernels/a.md#abs) | `abs` |\n'
        >>> pages["reference/kernels/a.md"]
        '# Kernels: A\n\nHow.\n\n## Abs\n\n    Abs(x) -> y\n'

    """
    table, _, details = text.partition(DETAILS)
    intro, *sections = re.split(r"^### ", details, flags=re.M)
    pages, addresses = {}, {}
    for group in _group_by_letter(sections):
        letters = [section[0].upper() for section in group if section[0] != "_"]
        first, last = letters[0], letters[-1]
        span = first if first == last else f"{first} to {last}"
        path = f"reference/kernels/{span.lower().replace(' ', '-')}.md"
        body = "".join(f"## {section}" for section in group)
        pages[path] = f"# Kernels: {span}\n\n{intro.strip()}\n\n{body}"
        for section in group:
            name = section.partition("\n")[0]
            addresses[name] = f"{path}#{name.lower()}"

    def add_link(row: re.Match[str]) -> str:
        name = row[1]
        return f"| [`{name}`]({addresses[name]}) " if name in addresses else row[0]

    return ROW.sub(add_link, table), pages


def _group_by_letter(sections: list[str]) -> list[list[str]]:
    """Return the sections grouped by ranges of initial letters."""
    groups: list[list[str]] = [[]]
    for section in sections:
        group = groups[-1]
        begins = group and group[-1][0].lower() != section[0].lower()
        if begins and len(group) >= MIN_KERNELS_PER_PAGE:
            groups.append([])
        groups[-1].append(section)
    return groups
