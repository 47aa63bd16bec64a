"""Conversion of links between Markdown files to links between pages of the site.

A file in docs/ becomes a page under its own path, and so do the files of
``PAGES_OUTSIDE_DOCS``, the READMEs and the notebooks; a translation moves to the folder
of its language. A link to any other file leads to the file on the host of the
repository.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from pathlib import Path

from docs.site import translations

ROOT = Path(__file__).parents[2]
PAGES_OUTSIDE_DOCS = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "README.md": "index.md",  # the same text as the front page
}
NOTEBOOKS = "examples/notebooks/*.ipynb"
README_FOLDERS = ("core", "plugins/*", "tests/conformance", "examples/gradient_packs")
CODE = re.compile(r"(?ms)^ *```.*?^ *```|`+[^`\n]+`+")
LINK = r"(?P<text>!?\[[^\]]*\]\()(?P<target>[^)\s]+)\)"
CODE_OR_LINK = re.compile(f"{CODE.pattern}|{LINK}")  # a link's text may contain code
RAW_URL = re.compile(
    r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/main/(?P<path>.*)"
)


def pages() -> dict[str, str]:
    """Return the site paths of the pages that move, by source path.

    Examples:
        >>> pages()["plugins/cpu/README.md"]
        'packages/plugrad-cpu.md'

    """
    found = dict(PAGES_OUTSIDE_DOCS)
    for pattern in README_FOLDERS:
        for readme in sorted(ROOT.glob(f"{pattern}/README.md")):
            project = tomllib.loads((readme.parent / "pyproject.toml").read_text())
            name = project["project"]["name"]
            found[readme.relative_to(ROOT).as_posix()] = f"packages/{name}.md"
    for path in sorted(ROOT.glob(NOTEBOOKS)):
        found[path.relative_to(ROOT).as_posix()] = f"notebooks/{path.stem}.md"
    return found | translations.pages()


def repository_url() -> str:
    """Return the start of the URL of a file of the repository, before its path.

    The environment variable ``SITE_REF`` names the commit or tag that the site
    describes, so that links lead to the right lines.
    """
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    return f"{project['urls']['Homepage']}/blob/{os.environ.get('SITE_REF', 'main')}/"


def source_url(path: Path, line: int) -> str | None:
    """Return the URL of a line of a file; None if it is not in the repository."""
    if not path.is_relative_to(ROOT):
        return None
    return f"{repository_url()}{path.relative_to(ROOT).as_posix()}#L{line}"


def relink(text: str, source: str, page: str) -> str:
    """Return Markdown with its links rewritten for its place on the site.

    Args:
        text: The Markdown.
        source: Its path in the repository.
        page: Its path on the site.

    Examples:
        >>> relink("[c](../CONTRIBUTING.md#make-a-change)", "docs/a.md", "a.md")
        '[c](contributing.md#make-a-change)'
        >>> relink("[v](../docs/vmap.md)", "core/README.md", "packages/plugrad.md")
        '[v](../vmap.md)'
        >>> relink("[`c`](../CONTRIBUTING.md) `[c](d.md)`", "docs/a.md", "a.md")
        '[`c`](contributing.md) `[c](d.md)`'

    """
    known = pages()
    address = repository_url()

    def replace(match: re.Match[str]) -> str:
        if match["target"] is None:
            return match[0]
        name, hash, anchor = match["target"].partition("#")
        raw = RAW_URL.match(name)  # the URL of a picture in docs/ that a README shows
        if not raw and (":" in name or not name):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), name))
        path = raw["path"] if raw else path
        target = known.get(path, path.removeprefix("docs/"))
        if path in known or path.startswith("docs/"):
            target = posixpath.relpath(target, posixpath.dirname(page) or ".")
        else:
            target = address + path
        return f"{match['text']}{target}{hash}{anchor})"

    return CODE_OR_LINK.sub(replace, text)
