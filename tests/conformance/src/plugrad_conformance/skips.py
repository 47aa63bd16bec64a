"""How many tests are skipped, by backend and reason: a file that a whole run must meet.

The ini option ``plugrad_skips`` names a TOML file with a table for each backend::

    [mine]
    dtypes = "bool float32 int32"
    skipped = {"such a size needs too much memory" = 3}

Dtypes that a test asks for, by its parameters or by what it calls ops with, explain
themselves: these skips follow from the list of dtypes, and are not counted here. A
table holds for a backend with its dtypes, in a run of all its tests; then each
difference is a failure.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FOLLOWS = "plugrad-follows"  # among the properties of a test that is skipped


class Pinned(NamedTuple):
    """What the file says of a backend."""

    dtypes: list[str]
    skipped: dict[str, int]


def read(path: Path) -> dict[str, Pinned]:
    """Return the tables of a file by backend.

    Raises:
        ValueError: Names the table that is wrong.

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
    """Tell whether a test is skipped for want of a dtype that its parameters name."""
    from .excuses import makes, names  # which imports plugrad

    found = re.fullmatch(r"\S+ has no (bool|string|[a-z]+\d+)", reason)
    if found is None:
        return False
    return names(parameters, found[1]) or makes(parameters, found[1])


def changes(
    backend: str, dtypes: Iterable[str], found: Mapping[str, int], pinned: Pinned
) -> list[str]:
    """Return the differences, a line each; none for a backend with other dtypes."""
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
