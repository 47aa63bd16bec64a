"""Translated pages contain the code of the English page, and record their source."""

import pytest

from docs.site import translations
from tests.docs.blocks import ROOT

PATHS = sorted(translations.pages())


def read(path):
    return (ROOT / path).read_text()


@pytest.mark.parametrize("path", PATHS)
def test_a_translation_has_the_code_of_the_english_page(path):
    english = translations.original(path)
    assert translations.code(read(path)) == translations.code(read(english)), (
        f"{path}: `make docs` copies the code blocks from {english}; add a block that "
        "is new there, and remove one that is gone"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_translation_is_of_the_current_english_page(path):
    """A translation that lags behind is reported, but does not fail the tests."""
    assert translations.RECORDED.match(read(path)), f"{path} records no blob hash"
    english = translations.original(path)
    if translations.lags(read(path), read(english)):
        pytest.xfail(f"{path} lags behind {english}")


def test_a_change_of_the_english_page_is_noticed():
    english = "# A\n"
    page = f"---\ntranslated-from: {translations.blob_hash(english)}\n---\n# B\n"
    assert not translations.lags(page, english)
    assert translations.lags(page, "# A.\n")
    assert translations.lags("# B\n", english)


def test_a_page_that_lags_has_a_note(monkeypatch):
    assert translations.note("guide.md") == ""
    monkeypatch.setattr(translations, "lags", lambda *_: True)
    for page in translations.pages().values():
        _, name = translations.language(page)
        assert f"](../{name})" in translations.note(page)
        title, _, note, *_ = translations.add_note("# A\n\nB", page).split("\n")
        assert (title, note[:2]) == ("# A", "> ")
    monkeypatch.setattr(translations, "lags", lambda *_: False)
    assert translations.note("es/guide.md") == ""


def test_code_is_copied_if_both_pages_have_as_many_blocks():
    english = "a\n```python\n1\n```\nb\n```sh\n\\1\n```\n"
    page = "x\n```python\n0\n```\ny\n```sh\nz\n```\n"
    copied = "x\n```python\n1\n```\ny\n```sh\n\\1\n```\n"
    assert translations.with_code(page, english) == copied
    shorter = "```python\n0\n```\n"
    assert translations.with_code(shorter, english) == shorter


def test_the_menu_leads_to_the_page_or_to_the_start():
    links = lambda page: [row["link"] for row in translations.alternates(page)][:2]
    assert links("guide.md") == links("es/guide.md") == ["guide/", "es/guide/"]
    assert links("index.md") == ["./", "es/start/"]
    assert links("decisions/README.md") == ["decisions/", "es/start/"]


def test_every_language_has_the_start_page():
    """Pages without a translation link to the start page of the language."""
    codes = {*translations.LANGUAGES} - {"en"}
    assert {*translations.pages().values()} >= {f"{code}/start.md" for code in codes}
