"""Start a plugin: write a package that works, for its author to change.

``templates/`` holds the files of each kind of package as they will be, filled
with ``string.Template``: ``$name`` is what the author said, ``$module`` the package to
import and ``$distribution`` the one to install. ``_module_`` in a path stands for the
module, ``dot_`` for a leading dot, and ``.tmpl`` at the end keeps tools away.

Map: ``Kind`` and ``KINDS``; ``write``; what is wrong with a name.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import keyword
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import NamedTuple

import plugrad as pg
from plugrad.plugin import GROUP, Backend

TEMPLATES = Path(__file__).parent / "templates"
LONGEST = 20  # letters of a name, so that the lines it is in stay under 88 columns
# Of plugrad's distributions, and of the backends that the tests make for themselves.
OURS = (
    *("conformance", "core", "cpu", "gradient_packs", "opencl", "plugrad", "wasm"),
    *("plain", "primitives", "toy"),
)


class Kind(NamedTuple):
    """A kind of package: what it is, how it is called, and what else it is made of."""

    what: str
    distribution: str
    module: str
    parts: tuple[str, ...] = ("common",)  # templates beside its own


ON_EACH = ("common", "each-backend")
KINDS = {
    "new": Kind("a backend", "plugrad-$dashed", "plugrad_$name"),
    "new-gradients": Kind("a pack of gradients", "$dashed", "$name", ON_EACH),
    "new-ops": Kind("a library of ops", "$dashed", "$name", ON_EACH),
}


def write(command: str, name: str, into: Path, author: str = "") -> Path:
    """Write the package that ``command`` starts and return its folder, a new one.

    The folder has the given name, with dashes: ``my-pack`` for ``my_pack``.

    Raises:
        ValueError: The name is none, or is taken.
        FileExistsError: The folder is there already.

    """
    kind = KINDS[command]
    _check_name(command, name)
    words = {"name": name, "dashed": name.replace("_", "-")}
    words |= {
        "distribution": Template(kind.distribution).substitute(words),
        "module": Template(kind.module).substitute(words),
        "authors": f"authors = [{{ name = {json.dumps(author)} }}]\n" * bool(author),
        "plugrad": ".".join(importlib.metadata.version("plugrad").split(".")[:2]),
    }
    _check_free(command, name, words["distribution"], words["module"])
    folder = into / words["dashed"]
    if folder.exists():
        raise FileExistsError(
            f"{command}: {folder} is there already; remove it, or say --into elsewhere"
        )
    for part in (*kind.parts, command):
        for path, text in _filled(TEMPLATES / part, words):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return folder


def _filled(templates: Path, words: dict[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the path of each file in the package, and its text."""
    for template in sorted(templates.rglob("*.tmpl")):
        path = template.relative_to(templates).as_posix().removesuffix(".tmpl")
        path = path.replace("_module_", words["module"]).replace("dot_", ".")
        text = template.read_text(encoding="utf-8")
        yield Path(path), Template(text).substitute(words)


# --- names -----------------------------------------------------------------------


def _check_name(command: str, name: str) -> None:
    """Raise unless ``name`` can be a module, a distribution and a plugin."""
    fits = re.fullmatch(r"[a-z][a-z0-9_]*", name) and len(name) <= LONGEST
    if not fits or keyword.iskeyword(name) or name.endswith("_"):
        near = re.sub(r"\W+", "_", name.lower()).strip("_0123456789")[:LONGEST]
        hint = f"; try {near!r}" if near and near != name else ""
        raise ValueError(
            f"{command}: {name!r} is no name for {KINDS[command].what}: take a Python "
            f"identifier of lower-case letters, digits and _, {LONGEST} at most{hint}"
        )


def _check_free(command: str, name: str, distribution: str, module: str) -> None:
    """Raise if somebody has the name: plugrad itself, a plugin, or a module."""
    taken = ""
    if name in OURS or (command == "new" and not _allowed(name)):
        taken = "plugrad's own"
    elif found := _installed(name, distribution):
        taken = f"that of {found}, which is installed"
    elif module in sys.stdlib_module_names:
        taken = "a module of Python's"
    elif importlib.util.find_spec(module) is not None:
        taken = f"taken: `import {module}` finds something here"
    elif command == "new" and name in pg.backends():
        taken = "that of a backend here"
    if taken:
        raise ValueError(f"{command}: the name {name!r} is {taken}; take another")


def _allowed(name: str) -> bool:
    """Return whether the core takes a backend of that name."""
    try:
        Backend(name, open=dict)  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def _installed(name: str, distribution: str) -> str:
    """Return the distribution of that name, or whose plugin has the name."""
    try:
        return importlib.metadata.distribution(distribution).name
    except importlib.metadata.PackageNotFoundError:
        points = importlib.metadata.entry_points(group=GROUP, name=name)
        return next((point.dist.name for point in points if point.dist), "")
