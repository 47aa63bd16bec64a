"""Derived files: ``tensor/methods.pyi``, a table of ``docs/names.md``, and diagrams.

Commands that install distributions, the figures and charts of benchmarks, and the code
in translations are also derived.

``python -m tests.docs.derived``, which ``make docs`` runs, writes them.
"""

import ast
import functools
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

from plugrad._src.ops import operators
from plugrad._src.registry import install
from plugrad._src.tools.names import ROWS as OTHERS

from benchmarks import records, report
from docs.site import diagrams, translations
from tests.docs.blocks import texts
from tests.surface import ops

ROOT = Path(__file__).parents[2]
STUB = ROOT / "core" / "src" / "plugrad" / "_src" / "tensor" / "methods.pyi"
NAMES = ROOT / "docs" / "names.md"
OTHER_LIBRARIES = "## Names of other libraries"
ONLY_HERE, RULE = "## Only in plugrad", "| --- | --- |\n"

# --- methods of tensors and variables --------------------------------------------

HEAD = '''"""Operators, and ops with the tensor as their first argument.

Written by ``make docs`` from ``ops/operators.py`` and the signatures of the ops.
"""

'''

OPERATORS = """
class Methods:
    __slots__ = ()

    def __eq__(self, b: object, /) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, b: object, /) -> Tensor: ...  # type: ignore[override]
    def __hash__(self) -> int: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
"""
NOT_LISTED = {"__eq__", "__ne__", "T", "mT"}  # OPERATORS has them


class Signatures:
    """Formats methods, and collects the imports that their annotations need."""

    def __init__(self):
        self.imports = defaultdict(set)
        self.origins = {}

    def method(self, name, op):
        """Return the stub of an op as a method, whose first parameter is ``self``."""
        op = inspect.unwrap(op)
        signature = inspect.signature(op)
        first, *rest = signature.parameters.values()
        assert first.kind is first.POSITIONAL_ONLY, (
            f"{name}: {first} must be positional-only"
        )
        if name.startswith("__"):  # operators have no options
            rest = [p for p in rest if p.kind is p.POSITIONAL_ONLY]
        rest = [
            p.replace(
                annotation=self._annotation(p.annotation, op),
                default=p.default if _is_literal(p.default) else Text("..."),
            )
            for p in rest
        ]
        signature = signature.replace(
            parameters=[inspect.Parameter("self", first.kind), *rest],
            return_annotation=self._annotation(signature.return_annotation, op),
        )
        return f"    def {name}{signature}: ...\n".replace("(self, /) ->", "(self) ->")

    def _annotation(self, text, op):
        """Return an annotation; import its names from the modules that define them."""
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
            tree = ast.parse(tree.value, mode="eval").body  # it was quoted
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in op.__globals__:
                origin = _defining(node.id, op.__globals__["__name__"])
                known = self.origins.setdefault(node.id, origin)
                assert known == origin, (
                    f"{node.id}: rename it in {known} or in {origin}"
                )
                self.imports[origin].add(node.id)
        return Text(ast.unparse(tree))

    def head(self):
        """Return the imports."""
        lines = [
            f"from {module} import {', '.join(sorted(names))}\n"
            for module, names in sorted(self.imports.items())
        ]
        return HEAD + "".join(lines)


class Text(str):
    """Python code, which a signature prints without quotes."""

    __repr__ = str.__str__


def _is_literal(value):
    return value in (None, inspect.Parameter.empty) or isinstance(
        value, bool | int | float | str
    )


def _defining(name, module):
    """Return the name of the module from which a module has imported ``name``."""
    source = inspect.getsource(sys.modules[module])
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and name in {a.name for a in node.names}:
            assert not node.level, f"{module}: import {name} by its full path"
            inside = node.module.startswith("plugrad")
            return _defining(name, node.module) if inside else node.module
    return module


def methods():
    """Return the text of ``methods.pyi``."""
    signatures = Signatures()
    body = OPERATORS
    for name, op in operators.TABLE.items():
        if name in NOT_LISTED:
            continue
        if name.startswith("__r") and (forward := f"__{name[3:]}") in operators.TABLE:
            op = operators.TABLE[forward]
        body += signatures.method(name, op)
    text = signatures.head() + body
    command = [sys.executable, "-m", "ruff"]
    for step in (["check", "--select=I", "--fix"], ["format"]):
        done = subprocess.run(
            [*command, *step, "--quiet", f"--stdin-filename={STUB}", "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        )
        text = done.stdout
    return text


# --- the ops that only plugrad has -----------------------------------------------


def plugrad_only_rows(theirs):
    """Yield the rows of ops that the TensorFlow.js table does not mention."""
    for name, op in sorted(ops().items()):
        if f"`pg.{name}`" not in theirs:
            first = inspect.getdoc(op).partition("\n")[0].removeprefix("Return ")
            text = first.replace("|", r"\|").replace("``", "`")
            yield f"| `pg.{name}` | {text} |\n"


LIBRARIES = {"NumPy": "np.", "PyTorch": "torch.", "JAX": "jax.", "TensorFlow.js": "tf."}
VARIANT = re.compile(r"\d[dD]`$")  # such as tf.concat1d


def other_libraries_table(theirs):
    """Return the table of other libraries' names for plugrad's functions.

    ``theirs`` is the table of TensorFlow.js ops.
    """
    tfjs = defaultdict(list)
    for line in theirs.splitlines():
        if line.startswith("| `tf."):
            name, ours, *_ = (cell.strip() for cell in line.split("|")[1:])
            tfjs[ours].append(name)
    rows = []
    for row in OTHERS:
        here = f"`pg.{row.here}`" if row.here else "none"
        cells = [
            [f"`{prefix}{name}`".replace("jax.jnp", "jnp") for name in names]
            for prefix, names in zip(LIBRARIES.values(), row[1:5], strict=True)
        ]
        same = [name for name in tfjs[here] if row.here and not VARIANT.search(name)]
        cells[-1] += [name for name in same if name not in cells[-1]]
        columns = [here, *map(", ".join, cells), row.remark]
        rows.append(f"| {' | '.join(columns)} |\n".replace("  ", " "))
    head = " | ".join(["plugrad", *LIBRARIES, "remark"])
    return (
        f"{OTHER_LIBRARIES}\n\n"
        "Functions that have one name everywhere are left out. If you ask plugrad for "
        "a name\nof another library, the AttributeError says what to use.\n\n"
        f"| {head} |\n|{' --- |' * 6}\n{''.join(rows)}"
    )


def names():
    """Return the text of ``docs/names.md`` with its derived tables up to date."""
    text = NAMES.read_text()
    theirs, ours = text.split(ONLY_HERE)
    head = ours[: ours.index(RULE)] + RULE
    ours = "".join(plugrad_only_rows(theirs))
    return f"{theirs}{ONLY_HERE}{head}{ours}\n{other_libraries_table(theirs)}"


# --- how to install --------------------------------------------------------------

# <!-- install: plugrad-cpu --> marks the place; the instructions end with a code block.
INSTALL = re.compile(r"^<!-- install: ([\w -]+) -->\n.*?^```sh\n.*?^```$", re.M | re.S)


def installation(marker):
    """Return the install instructions of a page, with their marker."""
    names = marker[1].split()
    head = f"<!-- install: {marker[1]} -->\n"
    if not install.RELEASED:
        head += "plugrad is not on a package index yet. In a checkout, run:\n"
    return f"{head}\n```sh\n{install.command(*names)}\n```"


# --- benchmarks ------------------------------------------------------------------


@functools.cache
def results():
    """Return the records of the benchmarks."""
    return records.read_all()


@functools.cache
def charts():
    """Return the charts of the benchmarks by path."""
    return report.chart_files(results())


def page(path):
    """Return the text of a page with install instructions and figures up to date."""
    text = INSTALL.sub(installation, path.read_text())
    return report.fill(text, path.relative_to(ROOT).as_posix(), results())


# --- translations ----------------------------------------------------------------


def translated(path):
    """Return the text of a translation with the code blocks of the English page."""
    english = (ROOT / translations.original(path)).read_text()
    return translations.with_code((ROOT / path).read_text(), english)


FILES = {STUB: methods, NAMES: names}
FILES |= {
    ROOT / path: partial(page, ROOT / path)
    for path, text in texts().items()
    if "<!-- install: " in text or "<!-- results: " in text
}
FILES |= {path: lambda path=path: charts()[path] for path in report.chart_paths()}
FILES |= {ROOT / path: partial(translated, path) for path in translations.pages()}
FILES |= {path: partial(diagrams.derive, path) for path in diagrams.FILES}

if __name__ == "__main__":
    for path, derive in FILES.items():
        path.write_text(derive())
