"""Hooks of MkDocs: the navigation, pages that are made of the code, and links."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import links, made

MARK = re.compile(r"^<!-- site: (?P<what>[\w -]+) -->$", re.M)


def slug(heading: str, separator: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    text = re.sub(r"<[^>]*>|[^\w\- ]", "", heading.lower())
    return text.replace(" ", separator)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the anchors of headings."""
    config.mdx_configs["toc"]["slugify"] = slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and expand the navigation."""
    for source, page in links.pages().items():
        if page != "index.md":
            text = (links.ROOT / source).read_text()
            text = links.relinked(text, source, page)
            files.append(File.generated(config, page, content=text))
    for page, text in made.pages().items():
        files.append(File.generated(config, page, content=text))
    paths = sorted(file.src_uri for file in files.documentation_pages())
    config.nav = expanded(config.nav, paths)
    return files


def expanded(entries: list[Any], paths: list[str]) -> list[Any]:
    """Return a navigation with pages in place of patterns.

    An entry without pages is left out. Where the title is empty, or a pattern matches
    more than one page, pages have the titles of their headings.
    """
    result: list[Any] = []
    for entry in entries:
        title, value = (
            next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        )
        if isinstance(value, list):
            inner = expanded(value, paths)
        else:
            inner = [path for path in paths if fnmatch(path, value)]
        if not inner:
            continue
        if not title:
            result += inner
        elif isinstance(value, str) and "*" not in value:
            result.append({title: inner[0]})
        else:
            result.append({title: inner})
    return result


def on_page_markdown(
    markdown: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Replace marks by what is made of the code, and links by those of the site."""
    if page.file.generated_by is None:
        path = page.file.src_uri
        markdown = links.relinked(markdown, f"docs/{path}", path)
    return MARK.sub(lambda mark: made.part(mark["what"]), markdown)
