"""Compares the numbers of skipped tests with a file, by backend and reason.

The ini option ``plugrad_skips`` names a TOML file with a table for each backend::

    [mine]
    dtypes = "bool float32 int32"
    skipped = {"such a size needs too much memory" = 3}

Skips for dtypes that a test requests, by its parameters or by the arguments of its
calls, follow from the list of dtypes and are not counted here. A table applies to a
backend with the same dtypes, in a run of all its tests. Each difference is a failure.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLLOWS = "plugrad-follows"  # a property of a skipped test


class Pinned(NamedTuple):
    """The entry of a backend."""

    dtypes: list[str]
    skipped: dict[str, int]


def read(path: Path) -> dict[str, Pinned]:
    """Return the tables of a file by backend.

    Raises:
        ValueError: The message names the wrong table.

    """
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    return {name: _pinned(path, name, table) for name, table in tables.items()}


def _pinned(path: Path, name: str, table: Any) -> Pinned:
    match table:
        case {"dtypes": str(dtypes), "skipped": dict(skipped), **more} if not more:
            if all(type(count) is int for count in skipped.values()):
                return Pinned(sorted(dtypes.split()), skipped)
    raise ValueError(f"{path}: [{name}] must have dtypes = text, skipped = counts")


def follows(reason: str, parameters: object) -> bool:
    """Return whether a skip is for a dtype that the parameters of the test name."""
    from .excuses import makes_complex, mentions_dtype  # imports plugrad

    found = re.fullmatch(r"\S+ has no (bool|string|[a-z]+\d+)", reason)
    if found is None:
        return False
    return mentions_dtype(parameters, found[1]) or makes_complex(parameters, found[1])


def changes(
    backend: str, dtypes: Iterable[str], found: Mapping[str, int], pinned: Pinned
) -> list[str]:
    """Return one line per difference; none for a backend with other dtypes."""
    if sorted(dtypes) != pinned.dtypes:
        return []
    reasons = sorted({*found, *pinned.skipped})
    counts = Counter(found)
    return [
        f"{backend}: {counts[reason]} tests are skipped, not "
        f"{pinned.skipped.get(reason, 0)}: {reason}"
        for reason in reasons
        if counts[reason] != pinned.skipped.get(reason, 0)
    ]
