"""The exceptions that plugrad raises, with their messages and links.

This module finds them in the source. An exception is constructed where it is raised, or
before (``error = ...; raise explained(error, "section")``), or by a helper (``raise
misfit(op, ...)``). For a helper, the arguments of the call complete the message.
"""

from __future__ import annotations

import ast
import builtins
import functools
import re
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from .links import ROOT, source_url

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
MAX_MESSAGE_CHARACTERS = 110  # in a table; longer messages are cut off
MAX_VALUE_CHARACTERS = 24  # in an expression in braces; longer ones become {…}
MAX_FAMILIES = 1  # messages in more families are listed once, under EVERYWHERE
WRAPPERS = {"explained": 0, "replacing": 1}  # functions that return this argument
# Headings for the messages of the core, by folder.
FAMILIES = {
    "autodiff": "Gradients",
    "batching": "vmap",
    "engine": "Running kernels",
    "ops": "Calls by name, and gradients of functions",
    "ops/array": "Slices, padding, ranges and gather",
    "ops/basis": "Creation, arithmetic, comparison, reductions and shapes",
    "ops/elementwise": "Element-wise functions",
    "ops/image": "Images",
    "ops/indexing": "Indexing, scatter, search and sorting",
    "ops/linalg": "Products and matrices",
    "ops/nn": "Networks",
    "ops/random": "Random numbers",
    "ops/reduction": "Cumulative sums, extremes and NaN",
    "ops/signal": "Signals and Fourier transforms",
    "ops/sparse": "Sparse and ragged tensors",
    "ops/statistics": "Statistics",
    "ops/text": "Strings",
    "registry": "Plugins, backends and contracts",
    "tensor": "Tensors, dtypes and arguments",
    "tools": "Tools and files",
    "tracing": "jit",
    "": "Axes, shapes, trees and importers",
}
EVERYWHERE = "In many functions"
# The possible exceptions of a call whose class is in an attribute, by the expression.
CLASSES = {"self.error": "BackendUnavailable or ValueError"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
ExceptionCall = tuple[ast.Call, str]  # an exception, and the section that explains it
Helpers = dict[str, tuple[Function, list[ExceptionCall]]]


class Row(NamedTuple):
    """One ``raise`` statement.

    Attributes:
        path: The source file, in the repository.
        line: The line of ``raise``.
        error: The name of the exception, or the call that makes it.
        message: The message; ``{x.dtype}`` stands for a value.
        section: The section of ``docs/errors.md`` that explains it, or "".

    """

    path: str
    line: int
    error: str
    message: str
    section: str = ""


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
    """Return the rows of modules, whose source code is given by path."""
    trees = {path: ast.parse(text) for path, text in modules.items()}
    functions = [
        node
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, Function)
    ]
    helpers: Helpers = {}
    for _ in range(2):  # a helper may call another one
        for function in functions:
            if exceptions := _returned_exceptions(function, helpers):
                helpers[function.name] = function, exceptions
    found: list[Row] = []
    for path, tree in trees.items():
        found += _Reader(path, helpers).read(tree)
    return found


def _returned_exceptions(
    function: Function, helpers: Container[str]
) -> list[ExceptionCall]:
    """Return the exceptions that a function returns; none if it is not a helper."""
    assigned: dict[str, list[ast.expr]] = defaultdict(list)
    returned: list[tuple[ast.expr | None, str]] = []
    for node in _scope_nodes(function.body):
        if isinstance(node, ast.Assign):
            assigned[ast.unparse(node.targets[0])].append(node.value)
        elif isinstance(node, ast.Return):
            returned.append(_unwrapped(node.value))
    found: list[ExceptionCall] = []
    for value, section in returned:
        name = value.id if isinstance(value, ast.Name) else ""
        found += [
            (call, section)
            for call in (assigned[name] if name else [value])
            if isinstance(call, ast.Call)
            and (_exception_name(call) or _called_name(call) in helpers)
        ]
    return found


def _called_name(call: ast.Call) -> str:
    """Return the name of the function or method that is called."""
    return ast.unparse(call.func).rpartition(".")[2]


def _exception_name(node: ast.expr | None) -> str | None:
    """Return the name of the exception that an expression constructs."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
        if ast.unparse(node.func) in CLASSES:
            return CLASSES[ast.unparse(node.func)]
        name = _called_name(node)
        return name if name in EXCEPTIONS or name.endswith("Error") else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.IfExp):
        return f"{ast.unparse(node.func.body)} or {ast.unparse(node.func.orelse)}"
    return None


def _unwrapped(node: ast.expr | None) -> tuple[ast.expr | None, str]:
    """Return the exception inside wrappers such as ``explained``, and its section."""
    section = ""
    while isinstance(node, ast.Call) and ast.unparse(node.func) in WRAPPERS:
        name = ast.unparse(node.func)
        if name == "explained" and _is_text(node.args[1]):
            section = ast.literal_eval(node.args[1])
        node = node.args[WRAPPERS[name]]
    return node, section


@dataclass
class _Reader:
    """Collects the ``raise`` statements of a module."""

    path: str
    helpers: Helpers
    found: list[Row] = field(default_factory=list)

    def read(self, tree: ast.Module) -> list[Row]:
        self._walk(tree.body, _texts(tree.body), {})
        return self.found

    def _walk(
        self,
        body: list[ast.stmt],
        texts: dict[str, str],
        exceptions: dict[str, ast.Call],
    ) -> None:
        """Read statements; ``exceptions`` are those assigned so far, by name."""
        for node in body:
            if isinstance(node, ast.Raise):
                self._add(node, texts, exceptions)
            elif isinstance(node, Function | ast.ClassDef):
                self._walk(node.body, texts | _texts(node.body), {})
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                exceptions[ast.unparse(node.targets[0])] = node.value
            else:
                for inner in _branches(node):
                    self._walk(inner, texts, exceptions)

    def _add(
        self, node: ast.Raise, texts: dict[str, str], exceptions: dict[str, ast.Call]
    ) -> None:
        if not isinstance(node.exc, ast.Call):
            return  # a caught exception, raised again
        call, section = _unwrapped(node.exc)
        if isinstance(call, ast.Name):
            call = exceptions.get(call.id)
        if isinstance(call, ast.Call):
            self.found += [
                Row(self.path, node.lineno, error, message, section or explained)
                for error, message, explained in self._resolve(call, texts)
            ]

    def _resolve(
        self, call: ast.Call, texts: dict[str, str]
    ) -> Iterator[tuple[str, str, str]]:
        """Yield the name, the message and the section of a call's exceptions."""
        if name := _exception_name(call):
            yield name, _text(call.args[0], texts) if call.args else "", ""
        elif _called_name(call) not in self.helpers:
            yield _called_name(call), "", ""
        else:
            helper, exceptions = self.helpers[_called_name(call)]
            passed = _passed_texts(helper, call, texts)
            known = _texts(helper.body, passed) | passed
            for inner, section in exceptions:
                for error, message, explained in self._resolve(inner, known):
                    yield error, message, section or explained


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
    reassigned = set()
    for node in _scope_nodes(body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            reassigned |= {name} & texts.keys()
            if isinstance(node.value, ast.JoinedStr) or _is_text(node.value):
                texts[name] = _text(node.value, known or {})
    return {name: text for name, text in texts.items() if name not in reassigned}


def _scope_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a body, but not those of its functions and classes."""
    stack: list[ast.AST] = [*reversed(body)]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, Function | ast.ClassDef):
            stack += reversed([*ast.iter_child_nodes(node)])


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _branches(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of a statement."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        yield part.body


def _text(node: ast.expr, texts: dict[str, str]) -> str:
    """Return the text of a string expression; values become expressions in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, texts) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, texts)
    if isinstance(node, ast.BinOp) and _is_joined(node):
        return _text(node.left, texts) + _text(node.right, texts)
    if isinstance(node, ast.Name) and node.id in texts:
        return texts[node.id]
    if isinstance(node, ast.List) and len(node.elts) == 1:  # a list with one problem
        return _text(node.elts[0], texts)
    return f"{{{ast.unparse(_joined_items(node))}}}"


def _is_joined(node: ast.expr) -> bool:
    """Return whether an expression is a string, or a sum that contains one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _is_joined(node.left) or _is_joined(node.right)
    return isinstance(node, ast.JoinedStr) or _is_text(node)


def _joined_items(node: ast.expr) -> ast.expr:
    """Return the ``names`` in ``", ".join(map(str, names)) or "none"``."""
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
    """Return the tables of all messages: one for each family of modules."""
    return "\n".join(
        f"## {title}\n\n{_table(found)}" for title, found in _tables().items()
    )


def _tables() -> dict[str, list[Row]]:
    """Return the rows of each table by its heading, each message once in a table."""
    rows_by_message: dict[tuple[str, str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows():
        if message := _shortened(row.message):
            package, family = _family(row.path)
            found = rows_by_message[package, message, row.error]
            if family not in found or (row.section and not found[family].section):
                found[family] = row
    tables: dict[str, list[Row]] = defaultdict(list)
    for (package, message, _), by_family in rows_by_message.items():
        if len(by_family) > MAX_FAMILIES:
            by_family = {EVERYWHERE: next(iter(by_family.values()))}
        for family, row in by_family.items():
            title = f"{package}: {family}" if family else package
            tables[title].append(row._replace(message=message))
    return {title: tables[title] for title in sorted(tables, key=_sort_key)}


def _family(path: str) -> tuple[str, str]:
    """Return the distribution of a module, and the heading of its family."""
    package, *inner = Path(path.partition("src/")[2]).parent.parts
    folder = "/".join(name for name in inner if name != "_src")
    if package == "plugrad":
        return package, FAMILIES[folder]
    return package.replace("_", "-"), folder.replace("/", " ")


def _sort_key(title: str) -> tuple[bool, str, bool, str]:
    """Return a sort key: the core first, and EVERYWHERE first in the core."""
    package, _, family = title.partition(": ")
    return package != "plugrad", package, family != EVERYWHERE, family


def _shortened(message: str) -> str:
    """Return a message without its advice and without long expressions.

    Examples:
        >>> _shortened("{op}: {x} is {', '.join(names) if names else 'none'}; cast")
        '{op}: {x} is {…}'

    """
    text = " ".join(message.split()).partition("; ")[0]
    text = re.sub(rf"{{[^{{}}]{{{MAX_VALUE_CHARACTERS + 1},}}}}", "{…}", text)
    if not re.search(r"[a-z]{2}", re.sub(r"{[^{}]*}", "", text)):
        return ""  # the text comes from another module or library
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return f"{text[:MAX_MESSAGE_CHARACTERS].rpartition(' ')[0]} …"


def _table(found: list[Row]) -> str:
    """Return a table sorted by message; those that begin with a value come last."""
    ordered = sorted(found, key=lambda row: (row.message[0] == "{", row.message))
    lines = [f"| {_message_cell(row)} | {_exception_cell(row)} |\n" for row in ordered]
    return f"| message | exception |\n| --- | --- |\n{''.join(lines)}"


def _message_cell(row: Row) -> str:
    """Return a message as code, linked to the section that explains it."""
    escaped = "".join(
        c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in row.message
    )
    code = f"<code>{escaped}</code>"
    return f"[{code}](errors.md#{row.section})" if row.section else code


def _exception_cell(row: Row) -> str:
    """Return the name of an exception, linked to the line that raises it."""
    return f"[{row.error}]({source_url(ROOT / row.path, row.line)})"


if __name__ == "__main__":
    print(page())
