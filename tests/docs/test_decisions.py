"""Each decision has a number, a status and a date, and the index lists them all."""

import re

import pytest

from tests.docs.blocks import ROOT

FOLDER = ROOT / "docs/decisions"
PAGES = {int(path.name[:4]): path for path in sorted(FOLDER.glob("0*.md"))}
ROW = re.compile(
    r"^\| (\d+) \| \[(.+)\]\((\d{4}-[a-z0-9-]+\.md)\) \| (\d{4}-\d\d-\d\d) \| (.+) \|$",
    re.M,
)


def index():
    rows = ROW.findall((FOLDER / "README.md").read_text())
    return {int(number): row for number, *row in rows}


def test_there_is_a_page_for_each_number():
    assert [*PAGES] == [*range(1, len(PAGES) + 1)]
    assert index().keys() == PAGES.keys()


@pytest.mark.parametrize("number", PAGES)
def test_the_index_agrees_with_the_page(number):
    title, file, date, status = index()[number]
    head = PAGES[number].read_text()[:600]
    assert file == PAGES[number].name
    assert head.startswith(f"# {number}. {title}\n\nStatus: ")
    line = head.split("\n\n")[1]
    assert f"ccepted on {date}" in line
    assert status.split()[0].strip(",") in line
    others = re.findall(r"\d+", status)
    assert all(f"[{other}](00" in line for other in others)


def test_statuses_are_accepted_or_superseded():
    statuses = {row[3] for row in index().values()}
    known = re.compile(r"accepted|superseded|(accepted, in part )?superseded by \d+")
    assert [status for status in statuses if not known.fullmatch(status)] == []
