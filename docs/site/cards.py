"""The title, text and picture that messengers and search engines show for a link."""

from __future__ import annotations

import re
from html import escape
from urllib.parse import urljoin

PICTURE = "look_inside.png"  # 1100 x 624 pixels
MAX_CHARACTERS = 200  # length of a description; search engines cut longer ones
SKIPPED_PREFIXES = ("#", "|", "- ", "* ", "1. ", "<", "![", "> ", ":::", "    ")
LINK = re.compile(r"!?\[((?:[^\]`]|`[^`]*`)*)\](?:\([^)]*\)|\[[^\]]*\])")


def description(markdown: str) -> str:
    r"""Return the first paragraph of a page as text, at most ``MAX_CHARACTERS`` long.

    Examples:
        >>> description("# Title\n\n## Part\n\nA [`jit`](jit.md)\nand *more*.\n")
        'A jit and more.'
        >>> description("# Only a title")
        ''

    """
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?ms)^```.*?^```", "", markdown)):
        if paragraph.strip() and not paragraph.startswith(SKIPPED_PREFIXES):
            text = LINK.sub(r"\1", " ".join(paragraph.split()))
            return _cut(re.sub(r"\*\*?|`", "", text))
    return ""


def _cut(text: str) -> str:
    """Return the sentences that fit or, if there are none, the words that fit."""
    if len(text) <= MAX_CHARACTERS:
        return text
    short = text[:MAX_CHARACTERS]
    sentences, end, _ = short.rpartition(". ")
    return sentences + "." if end else short.rpartition(" ")[0] + "…"


def tags(title: str, description: str, url: str | None, site: str | None) -> str:
    """Return the Open Graph tags of a page.

    Args:
        title: The title of the page.
        description: Its description.
        url: Its address, if the address of the site is known.
        site: The address of the site; without it there is no picture, because a
            picture needs an absolute address.

    """
    found = {
        "og:type": "website",
        "og:site_name": "plugrad",
        "og:title": title,
        "og:description": description,
    }
    if site:
        found |= {"og:url": url or site, "og:image": urljoin(site, PICTURE)}
        found["og:image:alt"] = (
            "Photographs, and maps of the pixels that determine each classification"
        )
    lines = [
        f'<meta property="{name}" content="{escape(value)}">\n'
        for name, value in found.items()
    ]
    card = "summary_large_image" if site else "summary"
    return "".join([*lines, f'<meta name="twitter:card" content="{card}">\n'])
