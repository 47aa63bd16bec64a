"""Files and modules that pages name exist."""

import functools
import importlib
import re

import pytest

from tests.docs.blocks import ROOT, texts

# Decisions and the changelog are frozen: they name files that existed then.
FROZEN = ("CHANGELOG.md", "docs/decisions/0")
PAGES = {page: text for page, text in texts().items() if not page.startswith(FROZEN)}
FOLDERS = "benchmarks|core|docs|examples|native|plugins|release|tests|[.]github|[.]ci"
PATH = re.compile(rf"(?:{FOLDERS})/[\w./*-]+")
# Excluded are the entry point group, file names, and the plugin that a reader writes.
MODULE = re.compile(r"plugrad(?!\.v\d)(?!_mine)(?:_\w+)?(?:\.(?!py$|h$|c$|so$)\w+)+")
# Files that readers create.
MADE_BY_READERS = {"tests/test_backend.py"}


def spans(text):
    """Return the texts in backticks, outside of code blocks."""
    plain = re.sub(r"(?sm)^```.*?^```", "", text)
    return re.findall(r"`([^`\n]+)`", plain)


def paths(text):
    return [s for s in spans(text) if PATH.fullmatch(s) and s not in MADE_BY_READERS]


def modules(text):
    return [span for span in spans(text) if MODULE.fullmatch(span)]


@functools.cache
def exists(name):
    """Return whether a dotted name is a module, or an attribute below one."""
    words = name.split(".")
    for end in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:end]))
        except ModuleNotFoundError:
            continue
        for word in words[end:]:
            found = getattr(found, word, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", sorted(PAGES))
def test_files_exist(page):
    missing = [path for path in paths(PAGES[page]) if not [*ROOT.glob(path)]]
    assert missing == []


@pytest.mark.parametrize("page", sorted(PAGES))
def test_modules_exist(page):
    assert [name for name in modules(PAGES[page]) if not exists(name)] == []


def test_missing_files_and_modules_are_found():
    text = "`docs/gone.md` `docs/guide.md` `plugrad.nothing.at_all` `plugrad.relu`"
    assert [path for path in paths(text) if not [*ROOT.glob(path)]] == ["docs/gone.md"]
    names = [name for name in modules(text) if not exists(name)]
    assert names == ["plugrad.nothing.at_all"]


@pytest.mark.parametrize("name", sorted(p.name for p in (ROOT / "plugins").iterdir()))
def test_the_reading_order_names_existing_modules(name):
    """The README of each distribution says in which order to read its modules."""
    text = (ROOT / "plugins" / name / "README.md").read_text()
    section = text.partition("\n## Read the code in this order\n")[2]
    steps = section.partition("1. ")[2]
    source = ROOT / "plugins" / name / "src" / f"plugrad_{name}"
    modules = re.findall(r"`([a-z_]+(?:/[a-z_]+)?)`", steps)
    read = {module for module in modules if (source / f"{module}.py").exists()}
    other = {"jit", "src_c", "cl", "load", "save", "fit", "onnx"}
    assert {*modules} - read - other == set()
    top = {p.stem for p in source.glob("*.py") if not p.name.startswith("_")}
    listed = {module for module in read if "/" not in module}
    assert len(listed) >= 0.8 * len(top), sorted(top - listed)
