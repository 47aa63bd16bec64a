"""The search index of each language.

The theme has one index for the whole site; this module splits it. The search on an
English page finds English pages. On a translated page it finds the translations in its
language and, where there is no translation, English pages; the page loads its index
from the folder of its language.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docs.site import translations

INDEX = "search/search_index.json"
PUNCTUATION = "¿¡«»“”、。，．？！；：（）《》「」\u3000"
CHINESE = r"[\u4e00-\u9fff]"
KATAKANA = r"[\u30a0-\u30ff]"
JAPANESE = r"[\u3040-\u309f\u4e00-\u9fff]"  # hiragana and kanji
# Further boundaries of terms. Each Chinese character is a term. The theme segments the
# Japanese of the index but not that of a query, so both are split around katakana.
BOUNDARIES = {
    "zh": f"(?<={CHINESE})(?={CHINESE})",
    "ja": f"(?<={KATAKANA})(?={JAPANESE})|(?<={JAPANESE})(?={KATAKANA})",
}
# "en", which uses no stemmer here, stands for languages without one in the browser.
LUNR_LANGUAGES = {"es": "es", "pt": "pt", "zh": "en", "ja": "ja", "id": "en"}
TRANSLATION_BOOST = 2  # translations come before English pages
BASE = re.compile(r'("base": ")\.\./?')
ALTERNATE = re.compile(r'\s*<link rel="alternate"[^>]*>')


def split(index: dict[str, Any], translated: set[str]) -> dict[str, dict[str, Any]]:
    """Return the index of each language.

    Args:
        index: The index of the whole site.
        translated: The addresses of the translated pages, such as ``es/guide/``.

    """
    pages: dict[str, list[dict[str, Any]]] = {code: [] for code in LUNR_LANGUAGES}
    english = []
    for entry in index["docs"]:
        address, hash, anchor = entry["location"].partition("#")
        code, _, name = address.partition("/")
        if code in pages:
            location = f"{name}{hash}{anchor}"
            boosted = entry | {"location": location, "boost": TRANSLATION_BOOST}
            pages[code].append(boosted)
            continue
        english.append(entry)
        for code, entries in pages.items():
            if f"{code}/{address}" not in translated:
                entries.append(entry | {"location": f"../{entry['location']}"})
    found = {"en": index | {"docs": english}}
    for code, entries in pages.items():
        found[code] = {"config": _settings(index["config"], code), "docs": entries}
    return found


def _settings(config: dict[str, Any], code: str) -> dict[str, Any]:
    """Return the theme's settings for splitting the text of a language into words."""
    separator = config["separator"].replace("[", f"[{PUNCTUATION}", 1)
    if code in BOUNDARIES:
        separator += f"|{BOUNDARIES[code]}"
    lang = LUNR_LANGUAGES[code]
    return config | {"lang": [lang], "separator": separator}


def write(site: Path) -> None:
    """Replace the index of a built site with one index for each language."""
    index = json.loads((site / INDEX).read_text())
    translated = {translations.address(page) for page in translations.pages().values()}
    for code, part in split(index, translated).items():
        path = site / ("" if code == "en" else code) / INDEX
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(part, ensure_ascii=False, separators=(",", ":")))


def adapt(html: str, page: str) -> str:
    """Return a built page that loads the index of its language.

    A page without translations loses its ``<link rel="alternate">``: there is no other
    version of it, and the theme would look for a site map at each such address.

    Examples:
        >>> adapt('{"base": "../.."}', "es/guide.md")
        '{"base": ".."}'
        >>> adapt('<title></title> <link rel="alternate" href="es/start/">', "jit.md")
        '<title></title>'

    """
    code, name = translations.language(page)
    if code != "en":
        html = BASE.sub(r"\1", html, count=1)
    elif not any(path.endswith(f"/{name}") for path in translations.pages().values()):
        html = ALTERNATE.sub("", html)
    return html
