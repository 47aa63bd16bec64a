"""MkDocs hooks: the navigation, pages generated from the code, and links."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page
from mkdocs.utils.templates import TemplateContext

from docs.site import (
    cards,
    dialect,
    generated,
    kernels,
    links,
    navigation,
    notebooks,
    search,
    translations,
)

HIDE_CONTENTS = "---\nhide:\n  - toc\n---\n\n"  # makes room for a wide table
EMPTY_HEADER = re.compile(r"<th(?: style=\"[^\"]*\")?></th>")
PART_MARKER = re.compile(r"^<!-- site: (?P<what>[\w -]+) -->$", re.M)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give headings the same anchors as on GitHub."""
    config.mdx_configs["toc"]["slugify"] = dialect.slug
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and expand the navigation."""
    for source, page in links.pages().items():
        if page == "index.md":
            continue
        text = (links.ROOT / source).read_text()
        pictures: dict[str, bytes] = {}
        if source.endswith(".ipynb"):
            text, pictures = notebooks.convert(text, source, page)
        else:
            if translations.original(source):
                files.remove(files.src_uris[source.removeprefix("docs/")])
            text = links.relink(text, source, page)
        files.append(File.generated(config, page, content=text))
        for path, picture in pictures.items():
            files.append(File.generated(config, path, content=picture))
    for page, text in (generated.pages() | _split_kernels(files, config)).items():
        files.append(File.generated(config, page, content=text))
    paths = sorted(file.src_uri for file in files.documentation_pages())
    config.nav = navigation.expand(config.nav, paths)
    return files


def _split_kernels(files: Files, config: MkDocsConfig) -> dict[str, str]:
    """Replace the kernels page with its table; return the kernel contract pages."""
    kernels_page = files.get_file_from_path("kernels.md")
    if kernels_page is None:
        return {}
    table, pages = kernels.split(kernels_page.content_string)
    files.remove(kernels_page)
    text = HIDE_CONTENTS + links.relink(table, "docs/kernels.md", "kernels.md")
    files.append(File.generated(config, "kernels.md", content=text))
    return pages


def on_page_markdown(
    markdown: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Replace markers with generated parts, and links with those of the site.

    The description of the page, for search engines, is its first paragraph.
    """
    markdown = dialect.themed_pictures(markdown)
    if (found := cards.description(markdown)) and page.file.src_uri != "index.md":
        page.meta.setdefault("description", found)
    if page.file.generated_by is None:
        path = page.file.src_uri
        markdown = links.relink(markdown, f"docs/{path}", path)
    markdown = translations.add_note(markdown, page.file.src_uri)
    return dialect.escape_bars(
        PART_MARKER.sub(lambda mark: generated.part(mark["what"]), markdown)
    )


def on_page_context(
    context: TemplateContext, *, page: Page, config: MkDocsConfig, nav: Navigation
) -> TemplateContext:
    """Set the language of the theme and the menu of languages for one page."""
    path = page.file.src_uri
    code, _ = translations.language(path)
    config.theme["language"] = translations.LANGUAGES[code].theme
    config.extra["alternate"] = translations.alternates(path)
    return context


def on_page_content(
    html: str, *, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Turn empty table headers, which name no column, into cells."""
    return EMPTY_HEADER.sub("<td></td>", html)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Add the tags for link previews, and load the search index of the language."""
    description = page.meta.get("description", config.site_description)
    tags = cards.tags(page.title, description, page.canonical_url, config.site_url)
    output = output.replace("</head>", f"{tags}</head>", 1)
    return search.adapt(output, page.file.src_uri)


def on_post_build(config: MkDocsConfig) -> None:
    """Split the search index by language, and remove an empty sitemap.

    The sitemap is empty if the address of the site is unknown.
    """
    search.write(Path(config.site_dir))
    if not config.site_url:
        for path in Path(config.site_dir).glob("sitemap.xml*"):
            path.unlink()
