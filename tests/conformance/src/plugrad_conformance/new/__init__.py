"""Start a plugin: write a working package for its author to adapt.

``templates/`` contains the files of each kind of package. ``string.Template`` fills
them: ``$name`` is the given name, ``$module`` the package to import and
``$distribution`` the one to install. In a path, ``_module_`` stands for the module and
``dot_`` for a leading dot; the suffix ``.tmpl`` hides the files from tools.

Contents: ``Kind`` and ``KINDS``; ``write``; checks of the name.
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
MAX_NAME_LETTERS = 20  # so that lines with the name have at most 88 columns
# Names of plugrad distributions, and of the backends that the tests create.
RESERVED_NAMES = (
    *("conformance", "core", "cpu", "gradient_packs", "opencl", "plugrad", "wasm"),
    *("plain", "primitives", "toy"),
)


class Kind(NamedTuple):
    """A kind of package: its description, its names and its templates."""

    what: str
    distribution: str
    module: str
    parts: tuple[str, ...] = ("common",)  # templates in addition to its own


ON_EACH_BACKEND = ("common", "each-backend")
KINDS = {
    "new": Kind("a backend", "plugrad-$dashed", "plugrad_$name"),
    "new-gradients": Kind("a pack of gradients", "$dashed", "$name", ON_EACH_BACKEND),
    "new-ops": Kind("a library of ops", "$dashed", "$name", ON_EACH_BACKEND),
    "new-rules": Kind("attribution rules", "$dashed", "$name", ON_EACH_BACKEND),
}


def write(command: str, name: str, into: Path, author: str = "") -> Path:
    """Write the package for ``command`` into a new folder and return the folder.

    The name of the folder has dashes: ``my-pack`` for ``my_pack``.

    Raises:
        ValueError: The name is invalid or taken.
        FileExistsError: The folder already exists.

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
            f"{command}: {folder} already exists; remove it, or pass another --into"
        )
    for part in (*kind.parts, command):
        for path, text in _filled(TEMPLATES / part, words):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return folder


def _filled(templates: Path, words: dict[str, str]) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each file in the package."""
    for template in sorted(templates.rglob("*.tmpl")):
        path = template.relative_to(templates).as_posix().removesuffix(".tmpl")
        path = path.replace("_module_", words["module"]).replace("dot_", ".")
        text = template.read_text(encoding="utf-8")
        yield Path(path), Template(text).substitute(words)


# --- names -----------------------------------------------------------------------


def _check_name(command: str, name: str) -> None:
    """Raise unless ``name`` can be a module, a distribution and a plugin."""
    fits = re.fullmatch(r"[a-z][a-z0-9_]*", name) and len(name) <= MAX_NAME_LETTERS
    if not fits or keyword.iskeyword(name) or name.endswith("_"):
        near = re.sub(r"\W+", "_", name.lower()).strip("_0123456789")[:MAX_NAME_LETTERS]
        hint = f"; try {near!r}" if near and near != name else ""
        raise ValueError(
            f"{command}: {name!r} is not a name for {KINDS[command].what}: use a "
            f"Python identifier of at most {MAX_NAME_LETTERS} lower-case letters, "
            f"digits and _{hint}"
        )


def _check_free(command: str, name: str, distribution: str, module: str) -> None:
    """Raise if the name is taken by plugrad itself, a plugin or a module."""
    taken = ""
    if name in RESERVED_NAMES or (command == "new" and not _allowed(name)):
        taken = "plugrad's own"
    elif found := _installed(name, distribution):
        taken = f"that of {found}, which is installed"
    elif module in sys.stdlib_module_names:
        taken = "a standard-library module"
    elif importlib.util.find_spec(module) is not None:
        taken = f"taken: `import {module}` finds a module"
    elif command == "new" and name in pg.backends():
        taken = "that of a backend"
    if taken:
        raise ValueError(f"{command}: the name {name!r} is {taken}; take another")


def _allowed(name: str) -> bool:
    """Return whether the core accepts a backend of that name."""
    try:
        Backend(name, open=dict)  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def _installed(name: str, distribution: str) -> str:
    """Return the distribution with that name, or with a plugin of that name."""
    try:
        return importlib.metadata.distribution(distribution).name
    except importlib.metadata.PackageNotFoundError:
        points = importlib.metadata.entry_points(group=GROUP, name=name)
        return next((point.dist.name for point in points if point.dist), "")
