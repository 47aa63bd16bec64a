"""The answers of ``python -m plugrad`` commands, and how tables are printed."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

from plugrad._src.registry.contract import authored
from plugrad._src.registry.plugins import Plugin, printable
from plugrad._src.registry.registry import registry

Row = dict[str, Any]


class Answer(NamedTuple):
    """The result of a command: its data for programs, its text, and its success."""

    data: Any
    text: str
    well: bool


def about(plugin: Plugin, *names: str) -> Row:
    """Return the attributes of a plugin with these names, as text."""
    return {name: str(getattr(plugin, name)) for name in names}


def trace(plugin: Plugin) -> str:
    """Return the traceback of a plugin's error, or an empty string."""
    return "".join(traceback.format_exception(plugin.error)) if plugin.error else ""


def where(function: Any) -> str:
    """Return the file and the line of a function, or its name if it is built in."""
    function = authored(function)
    if code := getattr(function, "__code__", None):
        return f"{code.co_filename}:{code.co_firstlineno}"
    named = function if hasattr(function, "__name__") else type(function)
    module = getattr(named, "__module__", None) or type(function).__module__
    return f"{module}.{named.__name__} ({type(function).__name__})"


def where_gradient(function: Any, backend: str) -> str:
    """Return the location of a gradient, or of the kernel function that computes it."""
    kernel = getattr(authored(function), "backward_kernel", "")
    layers = registry.kernels.get((kernel, backend), [])
    return where(layers[0].function if layers else function)


def short(place: str) -> str:
    """Return a path relative to the folder of ``sys.path`` that contains it."""
    folders = [f"{folder}{os.sep}" for folder in sys.path if folder]
    inside = [folder for folder in folders if place.startswith(folder)]
    return place.removeprefix(max(inside, key=len, default=""))


def table(rows: Sequence[Row]) -> str:
    """Return aligned columns under their names; an empty string for no rows."""
    if not rows:
        return ""
    lines = [[*rows[0]], *([cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def cell(value: Any) -> str:
    """Return a value as the text of a table cell."""
    if isinstance(value, bool):
        return "yes" if value else ""
    text = " ".join(value) if isinstance(value, list) else str(value)
    return printable(" ".join(text.split()))  # reasons may have several lines
