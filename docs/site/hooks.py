"""Hooks of MkDocs: the navigation, pages that are made of the code, and links."""

from __future__ import annotations

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site import dialect, links, made, navigation

MARK = re.compile(r"^<!-- site: (?P<what>[\w -]+) -->$", re.M)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the anchors of headings."""
    config.mdx_configs["toc"]["slugify"] = dialect.slug
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
    config.nav = navigation.expanded(config.nav, paths)
    return files


def on_page_markdown(
    markdown: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Replace marks by what is made of the code, and links by those of the site."""
    if page.file.generated_by is None:
        path = page.file.src_uri
        markdown = links.relinked(markdown, f"docs/{path}", path)
    return dialect.bars(MARK.sub(lambda mark: made.part(mark["what"]), markdown))
