"""The exceptions that plugrad raises, with their messages and conditions.

The exceptions are found in the source. Each is constructed where it is raised, or by a
helper (``raise misfit(op, ...)``); then the arguments of the call complete the message.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .links import ROOT

SOURCES = ("core/src/plugrad", "plugins/*/src/*")
PLUGRAD_EXCEPTIONS = {
    "BackendError",
    "BackendUnavailable",
    "BudgetError",
    "GradientNotFound",
    "KernelNotFound",
    "StaleReplay",
}
EXCEPTIONS = PLUGRAD_EXCEPTIONS | {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception)
}
MAX_CELL_CHARACTERS = 160  # of a message or a condition; the rest is cut off
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Row(NamedTuple):
    """One ``raise`` statement.

    Attributes:
        path: The source file, in the repository.
        line: The line of ``raise``.
        error: The name of the exception, or the call that makes it.
        message: The message; ``{x.dtype}`` stands for a value.
        cause: The condition under which it is raised, as code.

    """

    path: str
    line: int
    error: str
    message: str
    cause: str


@functools.cache
def rows() -> list[Row]:
    """Return every ``raise`` of the core and of the plugins."""
    modules = {}
    for pattern in SOURCES:
        for folder in sorted(ROOT.glob(pattern)):
            for path in sorted(folder.rglob("*.py")):
                modules[path.relative_to(ROOT).as_posix()] = path.read_text()
    return extract_rows(modules)


def extract_rows(modules: dict[str, str]) -> list[Row]:
    """Return the rows of source code by path."""
    trees = {path: ast.parse(text) for path, text in modules.items()}
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]
    helpers: dict[str, tuple[Function, ast.Call]] = {}
    for _ in range(2):  # a helper may call another one
        for function in functions:
            if (made := _helper_exception(function, helpers)) is not None:
                helpers[function.name] = function, made
    found: list[Row] = []
    for path, tree in trees.items():
        found += _Reader(path, helpers).read(tree)
    return found


def _helper_exception(function: Function, helpers: Container[str]) -> ast.Call | None:
    """Return the exception that a helper returns, or None if it returns none."""
    returned = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    names = {value.id for value in returned if isinstance(value, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names:
            returned.append(node.value)
    for value in returned:
        if isinstance(value, ast.Call) and (
            _exception_name(value) or ast.unparse(value.func) in helpers
        ):
            return value
    return None


def _exception_name(node: ast.expr | None) -> str | None:
    """Return the name of the exception that an expression constructs."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        name = ast.unparse(node.func).rpartition(".")[2]
        return name if name in EXCEPTIONS or name.endswith("Error") else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.IfExp):
        return f"{ast.unparse(node.func.body)} or {ast.unparse(node.func.orelse)}"
    return None


@dataclass
class _Reader:
    """Collects the ``raise`` statements of a module with their conditions."""

    path: str
    helpers: dict[str, tuple[Function, ast.Call]]
    found: list[Row] = field(default_factory=list)

    def read(self, tree: ast.Module) -> list[Row]:
        self._walk(tree.body, "", _texts(tree.body))
        return self.found

    def _walk(self, body: list[ast.stmt], cause: str, texts: dict[str, str]) -> None:
        for node in body:
            if isinstance(node, ast.Raise):
                self._add(node, cause, texts)
            elif isinstance(node, Function | ast.ClassDef):
                self._walk(node.body, "", texts | _texts(node.body))
            else:
                for inner, why in _branches(node, cause):
                    self._walk(inner, why, texts)

    def _add(self, node: ast.Raise, cause: str, texts: dict[str, str]) -> None:
        if not isinstance(node.exc, ast.Call):
            return  # a caught exception, raised again
        error, message = self._resolve(node.exc, texts)
        self.found.append(Row(self.path, node.lineno, error, message, cause))

    def _resolve(self, call: ast.Call, texts: dict[str, str]) -> tuple[str, str]:
        """Return the name and the message of the exception that a call constructs."""
        if name := _exception_name(call):
            message = _text(call.args[0], texts) if call.args else ""
            return name, message
        name = ast.unparse(call.func).rpartition(".")[2]
        if name not in self.helpers:
            return name, ""
        helper, made = self.helpers[name]
        passed = _passed_texts(helper, call, texts)
        return self._resolve(made, _texts(helper.body, passed) | passed)


def _passed_texts(
    helper: Function, call: ast.Call, texts: dict[str, str]
) -> dict[str, str]:
    """Return the texts that a call passes to a helper, by parameter."""
    names = [a.arg for a in (*helper.args.posonlyargs, *helper.args.args)]
    names = [name for name in names if name != "self"]
    pairs = [*zip(names, call.args, strict=False)]
    pairs += [(word.arg, word.value) for word in call.keywords if word.arg]
    return {name: _text(value, texts) for name, value in pairs}


def _texts(body: list[ast.stmt], known: dict[str, str] | None = None) -> dict[str, str]:
    """Return the texts that a body assigns exactly once, by name."""
    texts: dict[str, str] = {}
    twice = set()
    for node in (n for statement in body for n in ast.walk(statement)):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            twice |= {name} & texts.keys()
            if isinstance(node.value, ast.JoinedStr) or _is_text(node.value):
                texts[name] = _text(node.value, known or {})
    return {name: text for name, text in texts.items() if name not in twice}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _branches(node: ast.stmt, cause: str) -> Iterator[tuple[list[ast.stmt], str]]:
    """Yield the bodies of a statement, each with its condition."""
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        yield node.body, test
        yield node.orelse, f"not ({test})"
    elif isinstance(node, ast.Try):
        for inner in (node.body, node.orelse, node.finalbody):
            yield inner, cause
        for handler in node.handlers:
            kind = ast.unparse(handler.type) if handler.type else "Exception"
            yield handler.body, f"except {kind}"
    elif isinstance(node, ast.For | ast.While | ast.With):
        yield node.body, cause
        yield getattr(node, "orelse", []), cause
    elif isinstance(node, ast.Match):
        for case in node.cases:
            yield case.body, f"case {ast.unparse(case.pattern)}"


def _text(node: ast.expr, texts: dict[str, str]) -> str:
    """Return a message in which values are expressions in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, texts) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, texts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left, texts) + _text(node.right, texts)
    if isinstance(node, ast.Name) and node.id in texts:
        return texts[node.id]
    return f"{{{ast.unparse(_joined_items(node))}}}"


def _joined_items(node: ast.expr) -> ast.expr:
    """Return ``names`` of ``", ".join(map(str, names)) or "none"``."""
    if isinstance(node, ast.BoolOp):
        return _joined_items(node.values[0])
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return node
    if node.func.attr != "join" or not _is_text(node.func.value):
        return node
    (items,) = node.args
    if isinstance(items, ast.GeneratorExp | ast.ListComp):
        return items.generators[0].iter
    return items.args[-1] if isinstance(items, ast.Call) and items.args else items


# --- the page --------------------------------------------------------------------


def page() -> str:
    """Return the tables of all messages."""
    return "\n".join(
        f"### {package}\n\n{_table(found)}" for package, found in _tables().items()
    )


def index() -> str:
    """Return links to the pages of the distributions."""
    lines = [
        f"- [{package}](reference/errors/{package}.md): {len(found)} messages\n"
        for package, found in _tables().items()
    ]
    return "".join(lines)


def pages() -> dict[str, str]:
    """Return one page for each distribution; the pages hide the table of contents."""
    return {
        f"reference/errors/{package}.md": (
            f"---\nhide:\n  - toc\n---\n\n# Messages of {package}\n\n"
            "What stands in braces is a value. Which exception means what stands in "
            f"[Troubleshooting](../../troubleshooting.md).\n\n{_table(found)}"
        )
        for package, found in _tables().items()
    }


def _tables() -> dict[str, set[tuple[str, ...]]]:
    """Return the cells of all messages by distribution."""
    tables: dict[str, set[tuple[str, ...]]] = {}
    for row in rows():
        package, *inner = Path(row.path.partition("src/")[2]).with_suffix("").parts
        inner = [name for name in inner if name != "_src"]
        module = ".".join(inner).removesuffix("__init__")
        said, _, cure = row.message.partition("; ")
        if cure.startswith("got "):
            said, cure = row.message, ""
        cells = said, row.error, row.cause, cure, module
        tables.setdefault(_title(package, inner), set()).add(cells)
    return dict(sorted(tables.items()))


def _title(package: str, inner: list[str]) -> str:
    """Return the table of a module: that of its distribution, or of a part of the core.

    Each folder of ops has a table.
    """
    if package != "plugrad" or inner[0] not in ("ops", "registry", "tensor"):
        return package.replace("_", "-")
    return ".".join([package, *inner[:2]] if len(inner) > 2 else [package, inner[0]])


def _table(found: set[tuple[str, ...]]) -> str:
    """Return a table in the order of messages, those that begin with a value last."""
    ordered = sorted(found, key=lambda cells: (cells[0][:1] in ("", "{"), cells))
    lines = [f"| {' | '.join(map(_code, cells))} |\n" for cells in ordered]
    head = "| message | exception | raised if | what to do | module |\n"
    table = f"{head}|{' --- |' * 5}\n{''.join(lines)}"
    return f'<div class="errors" markdown>\n\n{table}\n</div>\n'


def _code(text: str) -> str:
    """Return a cell of a table, as code."""
    text = " ".join(text.split())
    if len(text) > MAX_CELL_CHARACTERS:
        text = text[: MAX_CELL_CHARACTERS - 1] + "…"
    escaped = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in text)
    return f"<code>{escaped}</code>" if text else ""


if __name__ == "__main__":
    print(page())
