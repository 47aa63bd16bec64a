"""Write the tables and charts of the benchmarks: ``python -m benchmarks.report``.

The numbers are those of the records in ``benchmarks/results``. A page marks the place
of a block with ``<!-- results: NAME -->`` and ``<!-- /results -->``; the text between
the two is replaced. The charts are written to ``docs/benchmarks``, each for light and
for dark pages. ``make docs`` does the same, and a test checks that the files are up to
date.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks import charts, records
from benchmarks.ratios import Results
from benchmarks.report_charts import CHARTS
from benchmarks.report_tables import BLOCKS

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "docs/index.md",
    "docs/benchmarks.md",
    "docs/measurements.md",
    "docs/jit.md",
    "docs/onnx.md",
    "docs/train.md",
)
CHARTS_FOLDER = ROOT / "docs" / "benchmarks"
END = "<!-- /results -->"
BLOCK = re.compile(rf"^<!-- results: ([^\n]+) -->\n.*?^{END}$", re.M | re.S)


def fill(text: str, page: str, results: Results) -> str:
    """Return the text of a page with up-to-date blocks.

    Args:
        text: The text.
        page: The path of the page in the repository.
        results: The records.

    Raises:
        RecordError: A block is unknown, or its record, a row or a column is missing.

    """
    return BLOCK.sub(partial(_filled, page=page, results=results), text)


def _filled(marker: re.Match[str], page: str, results: Results) -> str:
    name = marker[1]
    if name not in BLOCKS:
        known = ", ".join(BLOCKS)
        raise records.RecordError(f"{page}: no block {name!r}; choose from {known}")
    try:
        block = BLOCKS[name](results, page)
    except KeyError as error:
        raise records.RecordError(f"{name}: no record or row {error}") from None
    return f"<!-- results: {name} -->\n{block}\n{END}"


def chart_path(name: str, suffix: str) -> Path:
    """Return the path of a chart in one of the themes."""
    return CHARTS_FOLDER / f"{name}{suffix}.svg"


def chart_paths() -> list[Path]:
    """Return the paths of all charts."""
    return [chart_path(name, suffix) for name in CHARTS for suffix in charts.THEMES]


def chart_files(results: Results) -> dict[Path, str]:
    """Return the text of each chart by its path."""
    return {
        chart_path(name, suffix): charts.render(draw(results), theme)
        for name, draw in CHARTS.items()
        for suffix, theme in charts.THEMES.items()
    }


def page_files(results: Results) -> dict[Path, str]:
    """Return the text of each page by its path."""
    return {
        ROOT / page: fill((ROOT / page).read_text(), page, results)
        for page in PAGES
        if (ROOT / page).exists()  # a distribution may be absent, with its page
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what differs; return 1 if ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    try:
        results = records.read_all()
        files = chart_files(results) | page_files(results)
    except records.RecordError as error:
        raise SystemExit(f"benchmarks.report: {error}") from None
    outdated = [path for path, text in files.items() if _read(path) != text]
    for path in outdated:
        print(f"{path.relative_to(ROOT)}{' is not up to date' if given.check else ''}")
        if not given.check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path])
    return int(given.check and bool(outdated))


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
