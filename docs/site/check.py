"""Checks of the built site: ``python -m docs.site.check build/site``.

Links and anchors lead somewhere; no page loads anything from elsewhere; lists are
lists; every public name has an entry in the reference; nothing of Python is published,
and a sitemap has all pages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# Elements that load what an attribute names, and relations of <link> that load nothing.
LOADS = {"src", "srcset", "poster", "data"}
SILENT = {"canonical", "next", "prev", "alternate"}
OUTSIDE = re.compile(r"(?i)\s*(?:https?:)?//")
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]*)""")
ITEM = re.compile(r"(?m)^\s*(?:[-*]|1\.) ")


@dataclass
class Document(HTMLParser):
    """What a page loads, where it links to, and its anchors."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    items: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._in: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element loads, its link and its anchor."""
        given = {name: value or "" for name, value in attrs}
        self._in.append(tag)
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loads += [given[name] for name in LOADS & given.keys()]
        self.loads += IN_STYLES.findall(given.get("style", ""))
        if tag == "link":
            if not SILENT & {*given.get("rel", "").split()}:
                self.loads.append(given.get("href", ""))
        elif "href" in given:
            self.links.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        """Leave an element, and those in it that have no end."""
        while tag in self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Note what a style loads, and lists that are not lists."""
        if self._in[-1:] == ["style"]:
            self.loads += IN_STYLES.findall(data)
        elif self._in[-1:] == ["p"] and "\n" in data and ITEM.search(data):
            self.items.append(data)


def read(site: Path) -> dict[Path, Document]:
    """Return the pages of a site by path."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        document = Document()
        document.feed(path.read_text())
        found[path.resolve()] = document
    return found


def loaded(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield what pages and styles load from elsewhere."""
    for path, page in pages.items():
        yield from (f"{path}: loads {url}" for url in page.loads if OUTSIDE.match(url))
    for path in sorted(site.rglob("*.css")):
        for url in IN_STYLES.findall(path.read_text()):
            yield f"{path}: loads {url}"


def broken(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield the links that lead to no file or to no anchor of the site."""
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of the host
        for link in [*page.links, *page.loads]:
            address, anchor = urldefrag(link)
            if ":" in address or OUTSIDE.match(address):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else {anchor}
            if not target.exists() or (anchor and unquote(anchor) not in known):
                yield f"{path}: {link} leads nowhere"


def unwanted(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield files that are not for readers, and what the sitemap lacks."""
    for path in sorted(site.rglob("*")):
        if path.name == "__pycache__" or path.suffix in (".py", ".pyc"):
            yield f"{path} is not for readers"
    sitemap = site / "sitemap.xml"
    if sitemap.exists():
        mapped = len(re.findall("<loc>", sitemap.read_text()))
        known = sum(path.name == "index.html" for path in pages)
        if mapped != known:
            yield f"{sitemap} has {mapped} of {known} pages"


def undocumented(pages: dict[Path, Document], names: set[str]) -> Iterator[str]:
    """Yield the names that have no entry on any page."""
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    yield from (f"{name} has no entry" for name in sorted(names - anchors))


def names() -> set[str]:
    """Return the public names of plugrad that the reference must have."""
    from plugrad import geometry, importing, plugin

    from tests.surface import public

    from .made import documented

    found = {f"plugrad.{name}" for name in public()}
    for module in (plugin, geometry, importing):
        found |= {f"{module.__name__}.{name}" for name in documented(module)}
    return found


def main(site: Path) -> int:
    """Check a site, print what is wrong and how much there is; return the status."""
    pages = read(site)
    faults = [*loaded(site, pages), *broken(site, pages), *unwanted(site, pages)]
    faults += undocumented(pages, names())
    for path, page in pages.items():
        faults += [f"{path}: not a list: {item.strip()}" for item in page.items]
    print(*faults, sep="\n", end="\n" if faults else "")
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(faults)} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
