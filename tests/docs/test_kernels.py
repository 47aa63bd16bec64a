"""docs/kernels.md is what ``make docs`` writes, where all backends are installed."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
# Those of this repository; a page that is made where others are installed is refused.
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
def made():
    """Return what the command prints in a process of its own."""
    command = [sys.executable, "-m", "plugrad", "kernels", "--markdown"]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_the_page_is_up_to_date(made):
    """A backend that is not installed here keeps its column; run ``make docs``."""
    said, kept = table(PAGE.read_text())
    told, rows = table(made)
    assert said == told, "run `make docs`"
    assert [row["kernel"] for row in kept] == [row["kernel"] for row in rows]
    for name in rows[0]:
        if name in kept[0] or name in BACKENDS:  # else: someone else's
            pairs = zip(kept, rows, strict=True)
            stale = [new["kernel"] for old, new in pairs if old.get(name) != new[name]]
            assert not stale, f"{name}: run `make docs`"


def test_the_page_speaks_of_our_backends_alone():
    _, rows = table(PAGE.read_text())
    others = {*rows[0]} - {"kernel", "op", "decomposes", "gradient"}
    assert others <= set(BACKENDS)


def test_the_option_changes_the_text_alone():
    command = [sys.executable, "-m", "plugrad", "kernels", "--json"]
    plain, marked = (
        subprocess.run([*command, *more], capture_output=True, text=True).stdout
        for more in ([], ["--markdown"])
    )
    assert json.loads(plain) == json.loads(marked)
