"""Records: a JSON file in ``benchmarks/results`` for each measurement.

``read`` checks a file and returns a ``Record``. ``add_option`` gives a script in this
folder the option ``--record FILE``, and ``write`` writes that file.
``python -m benchmarks.report`` turns the records into tables and charts.

A file is one object:

- ``question``: what was measured, in one line.
- ``machine``, ``date`` (ISO 8601), ``command``: where, when and how.
- ``columns``, ``rows``: a table. The first column contains the names of the rows; all
  others contain numbers, or null where there is no value.
- ``unit``: the unit of all numbers; or an object with the unit of each column of
  numbers.

These are optional:

- ``labels``: how many columns contain names; 1 by default.
- ``threads``: the number of threads.
- ``conditions``: what else is known about the machine, such as its load.
- ``commit``: the commit that was measured, if the checkout had no changes.
- ``versions``: the versions of the libraries, by name.
- ``notes``: further sentences for the page.

Numbers keep the digits that they have in the file: 2.10 is shown as 2.10.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
Label = str | int
Number = Decimal | int
SIGNIFICANT_DIGITS = 4  # digits to which ``write`` rounds floats
SMALLEST_PLAIN = Decimal("0.01")  # smaller numbers are written with an exponent
PATH_OPTIONS = ("--python", "--record", "--json", "--packages", "--out")
COMMIT = re.compile(r"[0-9a-f]{7,40}")


class RecordError(ValueError):
    """A file is not a record; the message names the file and the problem."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A table of measurements; the module's docstring describes the attributes."""

    name: str
    question: str
    machine: str
    date: datetime.date
    command: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    unit: str | dict[str, str]
    labels: int = 1
    threads: int | None = None
    conditions: str = ""
    commit: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def names(self) -> list[Label]:
        """Return the names of the rows: the cells of the first column."""
        return [row[0] for row in self.rows]

    def column(self, name: str) -> dict[Label, float]:
        """Return the numbers of a column by the names of their rows, without nulls.

        Raises:
            RecordError: There is no such column.

        """
        cells = self.cells(name)
        return {label: float(x) for label, x in cells.items() if x is not None}

    def cells(self, name: str) -> dict[Label, Any]:
        """Return the cells of a column by the names of their rows.

        Raises:
            RecordError: There is no such column.

        """
        if name not in self.columns:
            known = ", ".join(self.columns)
            raise RecordError(f"{self.name}: no column {name!r}; choose from {known}")
        position = self.columns.index(name)
        return {row[0]: row[position] for row in self.rows}

    def unit_of(self, column: str) -> str:
        """Return the unit of a column of numbers."""
        return self.unit if isinstance(self.unit, str) else self.unit[column]

    def day(self) -> str:
        """Return the date in the format of the pages: 23 November 2026."""
        return f"{self.date.day} {self.date:%B %Y}"

    def place_and_time(self) -> str:
        """Return the machine, the number of threads and the date."""
        threads = f", {threads_in_words(self.threads)}" if self.threads else ""
        return f"{self.machine}{threads}, {self.day()}"


def threads_in_words(threads: int) -> str:
    """Return a number of threads in words.

    Examples:
        >>> threads_in_words(1), threads_in_words(2), threads_in_words(16)
        ('one thread', 'two threads', '16 threads')

    """
    words = {1: "one thread", 2: "two threads"}
    return words.get(threads, f"{threads} threads")


# --- reading ---------------------------------------------------------------------


def read_all(folder: Path = FOLDER) -> dict[str, Record]:
    """Return the records of a folder by the names of their files."""
    return {path.stem: read(path) for path in sorted(folder.glob("*.json"))}


def read(path: Path) -> Record:
    """Return the record in a file.

    Raises:
        RecordError: The file is not a record.

    """
    try:
        found = json.loads(path.read_text(), parse_float=Decimal)
        return parse(path.stem, found)
    except (json.JSONDecodeError, RecordError) as error:
        raise RecordError(f"{path.name}: {error}") from None


TYPES: dict[str, tuple[type, ...]] = {
    "question": (str,),
    "machine": (str,),
    "date": (str,),
    "command": (str,),
    "columns": (list,),
    "rows": (list,),
    "unit": (str, dict),
    "labels": (int,),
    "threads": (int,),
    "conditions": (str,),
    "commit": (str,),
    "versions": (dict,),
    "notes": (list,),
}
REQUIRED = [*TYPES][: [*TYPES].index("labels")]


def parse(name: str, found: Any) -> Record:
    """Return the record of a JSON object.

    Raises:
        RecordError: It is not a record.

    """
    if not isinstance(found, dict):
        raise RecordError("the file contains no object")
    if missing := [key for key in REQUIRED if key not in found]:
        raise RecordError(f"{', '.join(missing)}: missing")
    if unknown := [key for key in found if key not in TYPES]:
        raise RecordError(f"{', '.join(unknown)}: unknown; see benchmarks/records.py")
    for key, value in found.items():
        if not isinstance(value, TYPES[key]) or value == "":
            raise RecordError(f"{key}: {value!r} does not fit")
    given = dict(found)
    try:
        given["date"] = datetime.date.fromisoformat(found["date"])
    except ValueError:
        text = f"date: {found['date']!r} is not a date such as 2026-11-23"
        raise RecordError(text) from None
    if "commit" in found and not COMMIT.fullmatch(found["commit"]):
        raise RecordError(f"commit: {found['commit']!r} is not a commit hash")
    _check_columns(found)
    given["columns"] = tuple(found["columns"])
    given["rows"] = tuple(_row(n, row, found) for n, row in enumerate(found["rows"], 1))
    _check_names(found)
    given["notes"] = tuple(found.get("notes", ()))
    return Record(name=name, **given)


def _check_columns(found: Mapping[str, Any]) -> None:
    columns, labels = found["columns"], found.get("labels", 1)
    if not all(isinstance(name, str) and name for name in columns):
        raise RecordError(f"columns: {columns} are not all names")
    if len({*columns}) < len(columns):
        raise RecordError(f"columns: {columns} contain a name twice")
    if not 1 <= labels < len(columns):
        raise RecordError(f"labels: {labels} of {len(columns)} columns")
    unit = found["unit"]
    if isinstance(unit, dict) and [*unit] != columns[labels:]:
        raise RecordError(f"unit: has {[*unit]}, the columns are {columns[labels:]}")


def _row(number: int, row: Any, found: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row whose cells fit the columns."""
    columns, labels = found["columns"], found.get("labels", 1)
    if not isinstance(row, list) or len(row) != len(columns):
        cells = len(row) if isinstance(row, list) else "no"
        raise RecordError(
            f"row {number} has {cells} cells for {len(columns)} columns: {row}"
        )
    for position, (column, cell) in enumerate(zip(columns, row, strict=True)):
        if position < labels:
            fits = isinstance(cell, str | int) and not isinstance(cell, bool)
            kind = "a name"
        else:
            fits = cell is None or _is_number(cell)
            kind = "a number of at least 0, or null"
        if not fits or cell == "":
            raise RecordError(f"row {number}, {column}: {cell!r} is not {kind}")
    return tuple(row)


def _is_number(cell: Any) -> bool:
    """Return whether a cell is a number; NaN and infinity are floats in JSON."""
    return isinstance(cell, int | Decimal) and not isinstance(cell, bool) and cell >= 0


def _check_names(found: Mapping[str, Any]) -> None:
    labels = found.get("labels", 1)
    names = [tuple(row[:labels]) for row in found["rows"]]
    if not names:
        raise RecordError("rows: there are none")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise RecordError(f"rows: {', '.join(map(str, repeated[0]))} occurs twice")


# --- writing ---------------------------------------------------------------------


def add_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--record FILE`` to the command line of a script."""
    text = "write the table to this file, as in benchmarks/results"
    parser.add_argument("--record", type=Path, metavar="FILE", help=text)


def write(path: Path, **given: Any) -> None:
    """Write a record of today; floats are rounded to four significant digits.

    Args:
        path: The file.
        given: The keys of the record. ``machine``, ``date``, ``command`` and
            ``commit`` have defaults taken from this machine, process and checkout.

    Raises:
        RecordError: The keys do not form a record.

    """
    known = {
        "machine": machine_name(),
        "date": datetime.date.today().isoformat(),
        "command": command_line(sys.argv),
    }
    if commit := current_commit():
        known["commit"] = commit
    found = known | given
    found["columns"] = [*found["columns"]]
    found["rows"] = [[rounded(cell) for cell in row] for row in found["rows"]]
    parse(path.stem, found)
    path.write_text(dumps(found))


def dumps(found: Mapping[str, Any]) -> str:
    """Return the text of a record: a line for each key, and one for each row."""
    lines = []
    for key in (key for key in TYPES if key in found and key != "rows"):
        lines.append(f'"{key}": {json.dumps(found[key], ensure_ascii=False)}')
    rows = ",\n".join(f"  [{', '.join(map(_cell, row))}]" for row in found["rows"])
    lines.append(f'"rows": [\n{rows}\n ]')
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def _cell(cell: Any) -> str:
    if isinstance(cell, Decimal):
        return f"{cell:e}" if 0 < cell < SMALLEST_PLAIN else f"{cell:f}"
    return json.dumps(cell, ensure_ascii=False)


def rounded(cell: Any) -> Any:
    """Return a number with four significant digits; anything else unchanged.

    Examples:
        >>> str(rounded(0.45678)), str(rounded(12058.4)), rounded("add_8")
        ('0.4568', '12058', 'add_8')

    """
    if not isinstance(cell, float) or not math.isfinite(cell) or not cell:
        return cell
    digits = SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(abs(cell)))
    return Decimal(f"{cell:.{max(0, digits)}f}")


LIBRARIES = {  # names on the pages, by package name
    "jax": "JAX",
    "numpy": "NumPy",
    "onnxruntime": "ONNX Runtime",
    "@tensorflow/tfjs": "TensorFlow.js",
    "torch": "PyTorch",
}


def versions_of(contestants: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the versions of libraries from those of the contestants' packages.

    Examples:
        >>> versions_of({"cpu": {"plugrad": "0.1.0"}, "torch": {"torch": "2.13.0+cpu"}})
        {'plugrad': '0.1.0', 'PyTorch': '2.13.0'}

    """
    return {
        LIBRARIES.get(package, package): version.partition("+")[0]
        for packages in contestants.values()
        for package, version in packages.items()
    }


def machine_name() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        found = re.search(r"^model name\s*: (.*)$", info.read_text(), re.M)
        if found:
            return found[1].strip()
    return platform.processor() or platform.machine()


def command_line(arguments: Sequence[str]) -> str:
    """Return how the script was called, without options whose values are paths.

    Examples:
        >>> command_line(["a/benchmarks/growth.py", "--peers", "torch", "--record=b"])
        'python benchmarks/growth.py --peers torch'

    """
    script, *rest = arguments
    kept, words = [], iter(rest)
    for word in words:
        if word in PATH_OPTIONS:
            next(words, None)
        elif word.partition("=")[0] not in PATH_OPTIONS:
            kept.append(word)
    return shlex.join(["python", f"benchmarks/{Path(script).name}", *kept])


def current_commit() -> str:
    """Return the commit of this checkout; empty if it has changes or is not a clone."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True)
    except OSError:
        return ""
    found = done.stdout.strip()
    return found if COMMIT.fullmatch(found) else ""
