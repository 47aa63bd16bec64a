"""Expected failures, each with a reason and a link.

``--plugrad-xfail=expected.toml`` names a file of entries such as::

    [[expected]]
    test = "ops/test_unary.py::test_values[mine-*-float32]"
    reason = "the device flushes denormal numbers to zero"
    link = "https://example.org/issues/1"

``*`` in a test id matches any text; ids are relative to the package, as the scorecard
prints them. The run fails if an expected failure passes, or if no test matches an
entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Expected:
    """An entry of the file."""

    test: str
    reason: str
    link: str

    def matches(self, id: str) -> bool:
        """Return whether the entry matches the test ``id``."""
        parts = [re.escape(part) for part in self.test.split("*")]
        return re.fullmatch(".*".join(parts), id) is not None


def read(path: Path) -> list[Expected]:
    """Return the entries of a file.

    Raises:
        ValueError: The message lists the faults of every wrong entry.

    """
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    tables = found.pop("expected", [])
    wrong = [f"unknown {key!r}; entries are called [[expected]]" for key in found]
    if not isinstance(tables, list):
        tables = []
        wrong = ["write [[expected]], not [expected]"]
    for i, table in enumerate(tables, 1):
        wrong += [f"entry {i}: {fault}" for fault in _faults(table)]
    if wrong:
        raise ValueError(f"{path}: " + "\n".join(wrong))
    return [Expected(**table) for table in tables]


def _faults(table: dict[str, Any]) -> Iterator[str]:
    names = [field.name for field in fields(Expected)]
    yield from (f"unknown {key!r}" for key in table if key not in names)
    for name in names:
        value = table.get(name)
        if not isinstance(value, str) or not value.strip():
            yield f"{name} is missing"
        elif name == "link" and not re.match(r"https?://\S+$", value):
            yield f"link must be the address of a page, not {value!r}"


def unmatched(entries: Iterable[Expected], ids: Iterable[str]) -> list[str]:
    """Return the patterns that match no test."""
    known = [*ids]
    return [e.test for e in entries if not any(e.matches(id) for id in known)]
