"""Look up names of other libraries and their counterparts, in ``tensor/foreign``.

The AttributeErrors of ``plugrad.__getattr__`` and of tensors name the counterpart in
plugrad, and ``docs/names.md`` shows the table of functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

from plugrad._src.ops import operators
from plugrad._src.registry.contract import suggest
from plugrad._src.tensor import foreign, hints


class Row(NamedTuple):
    """The names of one function in several libraries, relative to their modules.

    Attributes:
        here: The name in plugrad; empty if there is no counterpart.
        numpy: The names in ``numpy``.
        torch: The names in ``torch``.
        jax: The names in ``jax``; ``jnp`` stands for ``jax.numpy``.
        tfjs: The names in TensorFlow.js, given only for functions that are not ops. The
            table of its ops is in ``docs/names.md``.
        remark: How the functions differ.

    """

    here: str
    numpy: Sequence[str]
    torch: Sequence[str]
    jax: Sequence[str]
    tfjs: Sequence[str]
    remark: str


def _row(line: str) -> Row:
    here, numpy, torch, jax, tfjs, remark = map(str.strip, line.split("|"))
    of_jax = [f"jnp.{x}" for x in numpy.split()] if jax == "+" else jax.split()
    return Row(here, numpy.split(), torch.split(), of_jax, tfjs.split(), remark)


ROWS = [_row(line) for line in foreign.FUNCTIONS.strip().splitlines()]


@functools.cache
def answers() -> dict[str, Row]:
    """Return the row for each name of another library that ``plugrad`` lacks.

    Names without a module come first: ``trace`` is ``np.trace`` rather than
    ``jax.profiler.trace``.
    """
    public = import_module("plugrad").__all__
    found: dict[str, Row] = {}
    for dotted in (False, True):
        for row in ROWS:
            for name in (*row.numpy, *row.torch, *row.jax, *row.tfjs):
                *space, last = name.split(".")
                if bool(space) == dotted and name != row.here and last not in public:
                    found.setdefault(last, row)
    return found


def numpy_advice(name: str) -> str:
    """Return advice on what to use in place of a NumPy function."""
    here = _full_name(name)
    return f"use plugrad.{here}, " if here else "use a plugrad op, "


def _full_name(name: str) -> str:
    """Return plugrad's full name for a name in plugrad or another library, if any."""
    snake_case = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return _name_here(name) or _name_here(snake_case)


def _name_here(name: str) -> str:
    """Return plugrad's full name for a name in snake case, if any."""
    plugrad = import_module("plugrad")
    if name in plugrad.__all__:
        return name
    if row := answers().get(name):
        return row.here
    for space in plugrad.__all__:
        module = getattr(plugrad, space)
        if not isinstance(module, ModuleType):
            continue
        for last in (name, name.removeprefix(f"{space}_")):  # randomNormal
            if last in module.__all__:
                return f"{space}.{last}"
    return ""


def missing(name: str, known: Sequence[str], module: str = "plugrad") -> str:
    """Return the message about a name that ``plugrad``, or another module, lacks."""
    row = answers().get(name)
    here = _full_name(name)
    table = hints.by_name(foreign.ATTRIBUTES)
    space = module.removeprefix("plugrad.")
    advice = table.get(f"{space}.{name}") or table.get(name)
    if space == "tree" and not here.startswith("tree."):
        row, here = None, ""  # functions of tensors, not of trees
    hint = f"; it is plugrad.{here} here" if here else ""
    if row and row.remark and here:
        hint += f" ({row.remark})"
    elif row and row.remark and not advice:
        hint = f"; {row.remark}"
    if advice:
        hint += f"; {advice}"
    hint = hint or suggest(name, known)
    return f"module {module!r} has no attribute {name!r}{hint}"


def method_message(name: str, kind: str) -> str:
    """Return the message about a name that the tensors of other libraries have."""
    advice = hints.by_name(foreign.METHODS).get(name)
    if not advice:
        row = answers().get(name)
        here = _full_name(name)
        is_method = here in operators.TABLE
        advice = f"it is x.{here} here" if is_method else f"write plugrad.{here}(x)"
        advice += f" ({row.remark})" if row and row.remark else ""
    return f"{kind!r} object has no attribute {name!r}; {advice}"
