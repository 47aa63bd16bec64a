"""Checks of the built site: ``python -m docs.site.check build/site``.

- No link or anchor is broken.
- No page loads anything from another server.
- Every Markdown list is rendered as a list.
- Every public name has an entry in the reference, and every entry links to its code.
- No Python file and no source of a diagram is published.
- A sitemap contains all pages.
- The picture that other sites show for a link exists.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

# Attributes whose URL the browser loads, and relations of <link> that load nothing.
LOADING_ATTRIBUTES = {"src", "srcset", "poster", "data"}
NON_LOADING_RELATIONS = {"canonical", "next", "prev", "alternate"}
EXTERNAL_URL = re.compile(r"(?i)\s*(?:https?:)?//")
STYLE_URLS = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]*)""")
SOURCE_SUFFIXES = {".ipynb", ".py", ".pyc", ".txt"}
CARD = ("description", "og:title", "og:description")
LIST_ITEM = re.compile(r"(?m)^\s*(?:[-*]|1\.) ")


@dataclass
class Document(HTMLParser):
    """The URLs that a page loads, its links, its anchors, and lists left as text."""

    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    unparsed_lists: list[str] = field(default_factory=list)
    meta: dict[str, str] = field(default_factory=dict)
    entries: int = 0  # functions and classes of the reference
    sources: int = 0  # links to their code

    def __post_init__(self) -> None:
        super().__init__()
        self._open_tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the URLs that an element loads, its link and its anchors."""
        given = {name: value or "" for name, value in attrs}
        self._open_tags.append(tag)
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        self.loads += [given[name] for name in LOADING_ATTRIBUTES & given.keys()]
        self.loads += STYLE_URLS.findall(given.get("style", ""))
        classes = {*given.get("class", "").split()}
        self.entries += tag == "div" and bool(classes & {"doc-function", "doc-class"})
        self.sources += tag == "a" and "source" in classes
        if tag == "meta" and "content" in given:
            self.meta[given.get("property") or given.get("name", "")] = given["content"]
        if tag == "link":
            if not NON_LOADING_RELATIONS & {*given.get("rel", "").split()}:
                self.loads.append(given.get("href", ""))
        elif "href" in given:
            self.links.append(given["href"])

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and elements inside it that have no end tag."""
        while tag in self._open_tags and self._open_tags.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Collect the URLs that a style loads, and lists that were left as text."""
        if self._open_tags[-1:] == ["style"]:
            self.loads += STYLE_URLS.findall(data)
        elif self._open_tags[-1:] == ["p"] and "\n" in data and LIST_ITEM.search(data):
            self.unparsed_lists.append(data)


def parse_pages(site: Path) -> dict[Path, Document]:
    """Return the pages of a site by path."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        document = Document()
        document.feed(path.read_text())
        found[path.resolve()] = document
    return found


def external_loads(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield the URLs that pages and styles load from other servers."""
    for path, page in pages.items():
        yield from (
            f"{path}: loads {url}" for url in page.loads if EXTERNAL_URL.match(url)
        )
    for path in sorted(site.rglob("*.css")):
        for url in STYLE_URLS.findall(path.read_text()):
            yield f"{path}: loads {url}"


def broken_links(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield the links whose file or anchor does not exist on the site."""
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links begin at the root of the host
        for link in [*page.links, *page.loads]:
            address, anchor = urldefrag(link)
            if ":" in address or EXTERNAL_URL.match(address):
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            known = pages[target].anchors if target in pages else {anchor}
            if not target.exists() or (anchor and unquote(anchor) not in known):
                yield f"{path}: {link} leads nowhere"


def unwanted_files(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield files that must not be published, and a sitemap that lacks pages."""
    for path in sorted(site.rglob("*")):
        if path.name == "__pycache__" or path.suffix in SOURCE_SUFFIXES:
            yield f"{path} must not be published"
    sitemap = site / "sitemap.xml"
    if sitemap.exists():
        mapped = len(re.findall("<loc>", sitemap.read_text()))
        known = sum(path.name == "index.html" for path in pages)
        if mapped != known:
            yield f"{sitemap} has {mapped} of {known} pages"


def missing_cards(site: Path, pages: dict[Path, Document]) -> Iterator[str]:
    """Yield the pages without the text or the picture for links on other sites."""
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        yield from (f"{path} has no {name}" for name in CARD if not page.meta.get(name))
        image = page.meta.get("og:image")  # only if the address of the site is known
        if image and not (site / image.rpartition("/")[2]).exists():
            yield f"{path}: {image} does not exist"


def entries_without_source(pages: dict[Path, Document]) -> Iterator[str]:
    """Yield the pages on which an entry of the reference has no link to its code."""
    for path, page in pages.items():
        if page.sources != page.entries:
            yield f"{path}: {page.entries} entries, {page.sources} links to code"


def undocumented_names(
    pages: dict[Path, Document], expected: set[str]
) -> Iterator[str]:
    """Yield the names that have no entry on any page."""
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    yield from (f"{name} has no entry" for name in sorted(expected - anchors))


def public_names() -> set[str]:
    """Return the public names of plugrad that the reference must contain."""
    from plugrad import geometry, importing, plugin

    from tests.surface import public

    from .generated import documented

    found = {f"plugrad.{name}" for name in public()}
    for module in (plugin, geometry, importing):
        found |= {f"{module.__name__}.{name}" for name in documented(module)}
    return found


def main(site: Path) -> int:
    """Check a site; print its faults and a summary; return the exit status."""
    pages = parse_pages(site)
    faults = [
        *external_loads(site, pages),
        *broken_links(site, pages),
        *unwanted_files(site, pages),
        *missing_cards(site, pages),
        *entries_without_source(pages),
    ]
    faults += undocumented_names(pages, public_names())
    for path, page in pages.items():
        faults += [
            f"{path}: not a list: {item.strip()}" for item in page.unparsed_lists
        ]
    print(*faults, sep="\n", end="\n" if faults else "")
    links = sum(len(page.links) for page in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(faults)} faults")
    return 1 if faults or not pages else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
