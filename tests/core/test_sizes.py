"""No file and no function is too long."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OTHER_ROOTS = [ROOT / name for name in ("benchmarks", "examples", "tests")]
FAMILY = "one file has all tests of a family of ops, most of them tables"
LONG_FILES = {
    "benchmarks/ops.py": "a row for each op",
    "ops/test_random_inputs.py": "a row for each op",
    "native/rows.py": "a row for each op",
    "ops/test_gradients_everywhere.py": "a row for each kernel",
    "ops/test_binary.py": FAMILY,
    "ops/test_creation.py": FAMILY,
    "ops/test_random.py": FAMILY,
    "ops/test_resize.py": FAMILY,
}
LONG_FUNCTIONS: dict[str, str] = {}  # function: reason


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


@functools.cache
def tree(path):
    return ast.parse(path.read_text())


@functools.cache
def nodes(path):
    return [*ast.walk(tree(path))]


def docstrings(path):
    """Return the line numbers of docstrings."""
    return {
        line
        for node in nodes(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }


def contract_docs(path):
    """Return the line numbers of the ``doc=`` arguments of contracts."""
    return {
        line
        for node in nodes(path)
        if isinstance(node, ast.Call)
        for word in node.keywords
        if word.arg == "doc"
        for line in range(word.value.lineno, word.value.end_lineno + 1)
    }


def wrapped_imports(path):
    """Return the lines of imports and of ``__all__`` except the first line of each."""
    return {
        line
        for node in tree(path).body
        if isinstance(node, ast.ImportFrom)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for line in range(node.lineno + 1, node.end_lineno + 1)
    }


@functools.cache
def lengths(root):
    """Return the counted lines of each file and of each function."""
    files, functions = {}, {}
    for path in sorted(root.rglob("*.py")):
        if "node_modules" in path.parts:
            continue
        text = path.read_text()
        name = str(path.relative_to(ROOT))
        files[name] = text.count("\n")
        files[name] -= len(contract_docs(path) | wrapped_imports(path))
        files[name] -= len(docstrings(path))
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                doc = node.body[0] if ast.get_docstring(node) is not None else None
                lines = node.end_lineno - node.lineno + 1
                lines -= doc.end_lineno - doc.lineno + 1 if doc else 0
                functions[f"{name}:{node.name}"] = lines
    return files, functions


ROOTS = [ROOT / "core/src", *sorted(ROOT.glob("plugins/*/src")), *OTHER_ROOTS]


@pytest.mark.parametrize("root", ROOTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_are_short(root):
    files, functions = lengths(root)
    assert files
    ends = tuple(LONG_FILES)
    names = tuple(f":{name}" for name in LONG_FUNCTIONS)
    assert [
        n for n, lines in files.items() if lines > 450 and not n.endswith(ends)
    ] == []
    long = [f"{n} {lines}" for n, lines in functions.items() if lines > 40]
    assert [name for name in long if not name.split()[0].endswith(names)] == []


def test_every_exception_is_needed():
    """An unneeded exception would allow another file with the same name to grow."""
    files, functions = {}, {}
    for root in ROOTS:
        for known, found in zip((files, functions), lengths(root), strict=True):
            known |= found
    long = [name for name, lines in files.items() if lines > 450]
    assert [n for n in LONG_FILES if not any(x.endswith(n) for x in long)] == []
    long = [name for name, lines in functions.items() if lines > 40]
    assert [
        n for n in LONG_FUNCTIONS if not any(x.endswith(f":{n}") for x in long)
    ] == []
