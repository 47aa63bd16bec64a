"""Every link between pages leads to a file, and to a heading if it names one."""

import re

import pytest

from tests.docs.blocks import ROOT, texts

PAGES = texts()
READMES = [
    path
    for path in sorted(PAGES)
    if path.endswith("/README.md")
    and (ROOT / path).with_name("pyproject.toml").exists()
]


def without_code(text):
    return re.sub(r"(?sm)^```.*?^```|`[^`\n]*`", "", text)


def anchors(text):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    plain = re.sub(r"(?sm)^```.*?^```", "", text)
    headings = re.findall(r"^#+ (.*)$", plain, re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def broken(path, text):
    """Return the relative links on a page that lead nowhere."""
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text)):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / path).parent / name if name else ROOT / path
        headings = anchors(target.read_text()) if anchor and target.is_file() else ()
        if not target.exists() or (anchor and anchor not in headings):
            found.append(link)
    return found


@pytest.mark.parametrize("path", sorted(PAGES))
def test_every_link_leads_somewhere(path):
    assert not broken(path, PAGES[path])


@pytest.mark.parametrize("path", READMES)
def test_readmes_of_distributions_have_whole_addresses(path):
    """Package indexes do not resolve relative links."""
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(PAGES[path]))
    assert [link for link in links if not link.startswith("https://")] == []


def test_a_broken_link_is_found():
    text = "[a](gone.md) [b](../README.md#no-such-heading) [c](#what) `[d](no.md)`"
    links = ["gone.md", "../README.md#no-such-heading", "#what"]
    assert broken("docs/guide.md", text) == links
    text = "[e](override.md#gradient-packs) [f](#custom-ops)"
    assert not broken("docs/guide.md", text)
