"""Translated pages: ``docs/guide.es.md`` is the Spanish ``docs/guide.md``.

A translation records, in its front matter, the Git blob hash of the English page from
which it was made. If the English page has changed since, the built page says so at the
top. On the site, ``docs/guide.es.md`` becomes ``es/guide.md``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RECORDED = re.compile(r"\A---\ntranslated-from: ([0-9a-f]{40})\n---\n")
CODE = re.compile(r"^```\w*\n.*?^```$", re.M | re.S)


@dataclass(frozen=True)
class Language:
    """A language of the site.

    Attributes:
        name: The language in its own words, for the menu of languages.
        theme: The language code of the theme.
        lagging: The note on a page that lags behind; ``{link}`` is the English page.

    """

    name: str
    theme: str
    lagging: str = ""


LANGUAGES = {
    "en": Language("English", "en"),
    "es": Language(
        "Español",
        "es",
        "La [página en inglés]({link}) ha cambiado desde que se hizo esta traducción.",
    ),
    "pt": Language(
        "Português (Brasil)",
        "pt-BR",
        "A [página em inglês]({link}) mudou depois que esta tradução foi feita.",
    ),
    "zh": Language(
        "简体中文",
        "zh",
        "本页翻译完成后，[英文原文]({link})已有更新。",
    ),
    "ja": Language(
        "日本語",
        "ja",
        "この翻訳の作成後に、[英語版のページ]({link})が更新されています。",
    ),
    "id": Language(
        "Bahasa Indonesia",
        "id",
        "[Halaman bahasa Inggris]({link}) sudah berubah sejak terjemahan ini dibuat.",
    ),
}

TRANSLATION = re.compile(
    rf"docs/(?P<name>[\w/-]+)\.(?P<code>{'|'.join(LANGUAGES)})\.md"
)


def original(path: str) -> str | None:
    """Return the English page of a translation; None if it is not a translation.

    Examples:
        >>> original("docs/guide.es.md")
        'docs/guide.md'
        >>> original("docs/guide.md")

    """
    match = TRANSLATION.fullmatch(path)
    return f"docs/{match['name']}.md" if match else None


def pages() -> dict[str, str]:
    """Return the site path of each translation, by source path.

    Examples:
        >>> pages()["docs/guide.es.md"]
        'es/guide.md'

    """
    found = {}
    for path in sorted((ROOT / "docs").rglob("*.??.md")):
        source = path.relative_to(ROOT).as_posix()
        match = TRANSLATION.fullmatch(source)
        if match:
            found[source] = f"{match['code']}/{match['name']}.md"
    return found


def language(page: str) -> tuple[str, str]:
    """Return the language of a page of the site, and its path without the language.

    Examples:
        >>> language("es/guide.md"), language("guide.md")
        (('es', 'guide.md'), ('en', 'guide.md'))

    """
    code, _, name = page.partition("/")
    return (code, name) if code in LANGUAGES else ("en", page)


def blob_hash(text: str) -> str:
    r"""Return what ``git hash-object`` prints for a file that contains ``text``.

    Examples:
        >>> blob_hash("plugrad\n")
        'a5d5a6f3cfba0e2ddd58b7bbdacfe4efcde16a3b'

    """
    content = text.encode()
    blob = b"blob %d\0%b" % (len(content), content)
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest()


def lags(translation: str, english: str) -> bool:
    """Return whether the English page has changed since it was translated."""
    recorded = RECORDED.match(translation)
    return recorded is None or recorded[1] != blob_hash(english)


def code(text: str) -> list[str]:
    """Return the code blocks of a page."""
    return CODE.findall(text)


def with_code(translation: str, english: str) -> str:
    """Return a translation with the code blocks of the English page.

    The translation is unchanged if the two pages differ in the number of blocks.
    """
    blocks = iter(code(english))
    if len(code(translation)) != len(code(english)):
        return translation
    return CODE.sub(lambda _: next(blocks), translation)


def note(page: str) -> str:
    """Return the note on a page that lags behind; an empty string on other pages."""
    code, name = language(page)
    if code == "en":
        return ""
    source = ROOT / "docs" / name
    translation = source.with_suffix(f".{code}.md")
    if not lags(translation.read_text(), source.read_text()):
        return ""
    link = "../" * page.count("/") + name
    return LANGUAGES[code].lagging.format(link=link)


def add_note(markdown: str, page: str) -> str:
    """Return a page with its note, if it has one, under the title."""
    text = note(page)
    title, _, rest = markdown.partition("\n")
    return f"{title}\n\n> {text}\n{rest}" if text else markdown


def alternates(page: str) -> list[dict[str, str]]:
    """Return the entries of the menu of languages on a page of the site.

    The entry of a language without this page links to its start page.
    """
    translated = {*pages().values()}
    _, name = language(page)
    found = []
    for code, target in LANGUAGES.items():
        path = name if code == "en" else f"{code}/{name}"
        if code != "en" and path not in translated:
            path = f"{code}/start.md"
        if code == "en" or path in translated:
            found.append(
                {"name": target.name, "lang": target.theme, "link": address(path)}
            )
    return found


def address(page: str) -> str:
    """Return the address of a page from the root of the site."""
    folder = re.sub(r"(?:\b(?:index|README))?\.md$", "", page)
    return f"{folder.rstrip('/')}/" if folder else "./"
