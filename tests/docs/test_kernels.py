"""docs/kernels.md is what ``make docs`` writes if all backends are installed."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
# The backends of this repository; the page must not contain any other.
BACKENDS = [path.name for path in sorted((PAGE.parents[1] / "plugins").iterdir())]


def table(page):
    """Return the text around the table, and its rows by column."""
    lines = page.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| kernel "))
    found = list(itertools.takewhile(lambda s: s.startswith("|"), lines[start:]))
    head, _, *rows = ([c.strip() for c in s.split("|")[1:-1]] for s in found)
    text = lines[:start] + lines[start + len(found) :]
    return text, [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def generated():
    """Return the output of the command in a new process."""
    command = [sys.executable, "-m", "plugrad", "kernels", "--markdown"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_the_page_is_up_to_date(generated):
    """The column of a backend that is not installed here is not compared."""
    page_text, page_rows = table(PAGE.read_text())
    generated_text, rows = table(generated)
    assert page_text == generated_text, "run `make docs`"
    assert [row["kernel"] for row in page_rows] == [row["kernel"] for row in rows]
    for name in rows[0]:
        if name in page_rows[0] or name in BACKENDS:  # else: not our backend
            pairs = zip(page_rows, rows, strict=True)
            stale = [new["kernel"] for old, new in pairs if old.get(name) != new[name]]
            assert not stale, f"{name}: run `make docs`"


def test_the_page_contains_only_our_backends():
    _, rows = table(PAGE.read_text())
    others = {*rows[0]} - {"kernel", "op", "decomposes", "gradient"}
    assert others <= set(BACKENDS)


def test_the_option_markdown_does_not_change_json():
    command = [sys.executable, "-m", "plugrad", "kernels", "--json"]
    plain, marked = (
        subprocess.run([*command, *more], capture_output=True, text=True).stdout
        for more in ([], ["--markdown"])
    )
    assert json.loads(plain) == json.loads(marked)
