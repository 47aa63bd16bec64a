"""Pages, and parts of pages, that are generated from the code for the site."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import plugrad as pg
from plugrad import geometry, importing, plugin
from plugrad._src.tensor import foreign, hints
from plugrad._src.tools import cli
from plugrad._src.tools.names import ROWS

from tests.surface import namespaces, public

from . import messages

# The pages of functions: title, first sentence, and the plugrad modules that define the
# functions. Every other module has its own page.
FAMILIES = {
    "Activation": ("Activation functions, `clip` and `dropout`.", "activation random"),
    "Arithmetic": ("Element-wise ops of two arguments, and signs.", "binary signs"),
    "Backends, kernels and gradients": (
        "Choose a backend, and replace kernels and gradients.",
        "engine by_name",
    ),
    "Comparison and logic": ("Comparisons, logic, bits and `where`.", "compare"),
    "Complex numbers": ("Parts of complex numbers.", "complexes"),
    "Convolution": (
        "Convolutions, depthwise convolutions and dilation.",
        "conv depthwise dilation",
    ),
    "Creation": (
        "Create tensors from values, shapes and grids; Variables.",
        "_convert creation grids variable",
    ),
    "Derivatives": (
        "Gradients, products with Jacobians, and `vmap`.",
        "autodiff batching custom",
    ),
    "Dtypes": ("The dtypes, and what they promote to.", "namespace"),
    "Elementary functions": (
        "Element-wise ops of one argument.",
        "error_functions integers special trigonometry unary",
    ),
    "Indexing": (
        "Read and write elements at indices and in slices.",
        "gather indexing scatter slicing",
    ),
    "Matrices": ("Products, `einsum` and diagonals.", "einsum matrix products"),
    "Networks": (
        "Normalization, pooling, attention and recurrent cells.",
        "adaptive norm pool sequence",
    ),
    "Reductions": (
        "Sums, means and other reductions; cumulative sums and counts along an axis.",
        "cumulative nans reduce samples statistics",
    ),
    "Shapes": (
        "Ops that move elements without computing with them.",
        "blocks rearrange shape",
    ),
    "Sorting and searching": (
        "Sorting, sets and searching for positions.",
        "search sorting",
    ),
    "Tools": ("Inspect a program, save values, compile.", "tools tracing"),
    "Types and errors": ("The classes of plugrad, and its exceptions.", ""),
}
TITLES = {
    module: title
    for title, (_, modules) in FAMILIES.items()
    for module in modules.split()
}
# The public modules of the other distributions.
OTHER_DISTRIBUTIONS = (
    "plugrad_gguf",
    "plugrad_mpi",
    "plugrad_onnx",
    "plugrad_tfjs",
    "plugrad_train",
)
CLASS_OPTIONS = (
    "    options:\n      inherited_members: true\n      show_if_no_docstring: true\n"
)


def functions() -> dict[str, list[str]]:
    """Return the names in ``plugrad`` itself, grouped by the title of their page.

    Examples:
        >>> functions()["Complex numbers"]
        ['angle', 'complex', 'conj', 'imag', 'real']

    """
    found = defaultdict(list)
    for name, value in public().items():
        if "." not in name:
            found[_page_title(value)].append(name)
    return {title: sorted(found[title]) for title in sorted(found)}


def _page_title(value: Any) -> str:
    value = inspect.unwrap(value) if callable(value) else value
    if inspect.isclass(value) or not hasattr(value, "__globals__"):
        return "Types and errors"
    _, *inner = value.__globals__["__name__"].split(".")
    for word in reversed(inner):  # the module first, then its parent folders
        if word in TITLES:
            return TITLES[word]
    return inner[-1].replace("_", " ").capitalize()


def pages() -> dict[str, str]:
    """Return the Markdown of the pages of the reference, by path."""
    found = {}
    for title, names in functions().items():
        heading = f"# {title}\n\n{_summary(title, names)}\n\n"
        entries = [_entry(f"plugrad.{name}", getattr(pg, name)) for name in names]
        found[f"reference/functions/{_slug(title)}.md"] = heading + "\n".join(entries)
    for space, module in [*namespaces().items(), ("plugin", plugin)]:
        if space:
            page = f"reference/namespaces/{space}.md"
            found[page] = _module_page(f"plugrad.{space}", module)
    for module in (geometry, importing):
        space = module.__name__.removeprefix("plugrad.")
        found[f"reference/namespaces/{space}.md"] = _module_page(
            f"plugrad.{space}", module
        )
    for name in OTHER_DISTRIBUTIONS:
        module = importlib.import_module(name)
        found[f"reference/distributions/{name}.md"] = _module_page(name, module)
    return found


def _slug(title: str) -> str:
    return title.lower().replace(",", "").replace(" ", "-")


def _summary(title: str, names: list[str]) -> str:
    """Return the sentence under the heading of a page of functions."""
    if title in FAMILIES:
        return FAMILIES[title][0]
    value = inspect.unwrap(getattr(pg, names[0]))
    return _first_paragraph(importlib.import_module(value.__globals__["__name__"]))


def _first_paragraph(value: Any) -> str:
    """Return the first paragraph of a docstring, on one line."""
    paragraph = (inspect.getdoc(value) or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def _module_page(path: str, module: ModuleType) -> str:
    text = f"# {path}\n\n{_first_paragraph(module)}\n\n"
    return text + "\n".join(
        _entry(f"{path}.{name}", getattr(module, name)) for name in documented(module)
    )


def documented(module: ModuleType) -> list[str]:
    """Return the public names of a module, without constants."""
    names: list[str] = module.__all__
    return [n for n in names if not isinstance(getattr(module, n), ModuleType | str)]


def _entry(path: str, value: Any) -> str:
    """Return the entry of an object; for a plugrad class, with all its members."""
    options = (
        CLASS_OPTIONS if inspect.isclass(value) and path.startswith("plugrad.") else ""
    )
    return f"::: {path}\n{options}"


# --- parts of pages --------------------------------------------------------------


def part(what: str) -> str:
    """Return the Markdown that replaces the marker ``<!-- site: what -->``."""
    return PARTS[what]()


def index() -> str:
    """Return all public names, each with the first line of its docstring."""
    parts = []
    for title, names in functions().items():
        page = f"reference/functions/{_slug(title)}.md"
        parts.append(f"\n## {title}\n\n{_table(page, 'plugrad', names, pg)}")
    spaces = {n: m for n, m in namespaces().items() if n}
    spaces |= {"plugin": plugin, "geometry": geometry, "importing": importing}
    for space, module in spaces.items():
        page = f"reference/namespaces/{space}.md"
        prefix = f"plugrad.{space}"
        table = _table(page, prefix, documented(module), module)
        parts.append(f"\n## {prefix}\n\n{table}")
    for name in OTHER_DISTRIBUTIONS:
        page = f"reference/distributions/{name}.md"
        module = importlib.import_module(name)
        table = _table(page, name, documented(module), module)
        parts.append(f"\n## {name}\n\n{table}")
    everything: list[str] = pg.__all__  # type: ignore[attr-defined]  # not in itself
    constants = (name for name in everything if _is_constant(getattr(pg, name)))
    listed = ", ".join(f"`{name}`" for name in constants)
    parts.append(f"\n## Constants and dtypes\n\n{listed}\n")
    return "".join(parts)


def _is_constant(value: Any) -> bool:
    return value is None or isinstance(value, np.dtype | float | str)


def _table(page: str, prefix: str, names: list[str], module: ModuleType) -> str:
    rows = []
    for name in sorted(names):
        summary = _summary_line(getattr(module, name))
        rows.append(f"| [`{name}`]({page}#{prefix}.{name}) | {summary} |\n")
    return f"| name | what it does |\n| --- | --- |\n{''.join(rows)}"


def _summary_line(value: Any) -> str:
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        return "a type, for annotations"
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", r"\|")


def commands() -> str:
    """Return the help of each command."""
    parts = []
    for command in ["", *(command.__name__ for command in cli._commands())]:
        words = ["-m", "plugrad", *command.split(), "--help"]
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, check=True
        )
        title = f"python -m plugrad {command}".strip()
        parts.append(f"## {title}\n\n```text\n{done.stdout}```\n")
    return "\n".join(parts)


def names(library: str) -> str:
    """Return a table of the functions that have a different name in a library."""
    rows = []
    for row in ROWS:
        theirs = getattr(row, library)
        if theirs:
            here = f"`pg.{row.here}`" if row.here else "none"
            listed = ", ".join(f"`{name}`" for name in theirs)
            rows.append(f"| {listed} | {here} | {row.remark} |\n")
    rows.sort(key=str.casefold)
    return (
        f"| {LIBRARIES[library]} | plugrad | remark |\n|{' --- |' * 3}\n{''.join(rows)}"
    )


def foreign_keywords() -> str:
    """Return a table of other libraries' keywords and plugrad's."""
    table = "| keyword | plugrad |\n| --- | --- |\n"
    for line in foreign.KEYWORDS.strip().splitlines():
        names, here, hint = map(str.strip, line.split("|"))
        theirs = ", ".join(f"`{name}=`" for name in names.split())
        ours = hint or ", ".join(f"`{name}=`" for name in here.split())
        table += f"| {theirs} | {ours} |\n"
    return table


def foreign_names(what: str) -> str:
    """Return a table of names in other libraries, such as dtypes, and equivalents."""
    rows = hints.rows(getattr(foreign, what.upper()))
    table = "| name | plugrad |\n| --- | --- |\n"
    for names, hint in rows:
        table += f"| {', '.join(f'`{name}`' for name in names)} | {hint} |\n"
    return table


LIBRARIES = {
    "numpy": "NumPy",
    "torch": "PyTorch",
    "jax": "JAX",
    "tfjs": "TensorFlow.js",
}
PARTS: dict[str, Callable[[], str]] = {
    "reference": index,
    "commands": commands,
    "messages": messages.page,
    "foreign keywords": foreign_keywords,
}
PARTS |= {f"names of {library}": partial(names, library) for library in LIBRARIES}
PARTS |= {
    f"foreign {what}": partial(foreign_names, what)
    for what in ("attributes", "methods", "dtypes", "devices")
}
