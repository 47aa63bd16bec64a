"""Each section of docs/errors.md is linked by an error, and shows how to raise it.

``pytest tests/docs/test_errors.py -k reshape`` runs one section.
"""

import ast
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass

import plugrad as pg
import pytest
from plugrad._src.tensor.explained import ERRORS_PAGE

from docs.site import dialect
from tests.docs.blocks import ROOT, blocks, promised

PAGE = ROOT / "docs" / "errors.md"
SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^##|\Z)", re.M | re.S)
NEEDS = ("opencl", "plugrad_onnx")  # a backend or a module that some sections use

# Run an example; print its errors, the last one first, and the line that raises. Then
# run the cure in place of the example.
RUNNER = """
import json, sys, traceback
import plugrad as pg
space = {"pg": pg, "__name__": "__main__"}
example, cure = sys.argv[1:]
try:
    exec(compile(example, "example.py", "exec"), space)
except Exception as error:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == "example.py"]
    chain = []
    while error is not None:
        chain.append("".join(traceback.format_exception_only(error)))
        error = error.__cause__
    print(json.dumps([lines[0], chain]))
exec(compile(cure, "cure.py", "exec"), space)
"""


@dataclass(frozen=True)
class Section:
    """A section of the page, about one error.

    Attributes:
        title: Its heading.
        text: The text below the heading.

    """

    title: str
    text: str

    @property
    def anchor(self):
        return dialect.slug(self.title, "-")

    @property
    def message(self):
        (message,) = blocks("text", self.text)
        return message

    @property
    def example(self):
        return blocks("python", self.text)[0]

    @property
    def cure(self):
        return "\n".join(blocks("python", self.text)[1:])


SECTIONS = {
    section.anchor: section
    for section in (Section(*found) for found in SECTION.findall(PAGE.read_text()))
}


@functools.cache
def uses():
    """Return the sections to which errors link, by file and line of the source."""
    found = {}
    for pattern in ("core/src", "plugins/*/src", "examples/*/src", "tests/*/src"):
        for folder in ROOT.glob(pattern):
            for path in folder.rglob("*.py"):
                for node in ast.walk(ast.parse(path.read_text())):
                    if isinstance(node, ast.Call) and is_explained(node.func):
                        place = f"{path.relative_to(ROOT)}:{node.lineno}"
                        found[place] = node.args[1]
    return found


def is_explained(function):
    return ast.unparse(function).rpartition(".")[2] == "explained"


def test_every_link_leads_to_a_section():
    assert len(uses()) > len(SECTIONS)
    for place, section in uses().items():
        assert isinstance(section, ast.Constant), (
            f"{place}: write the section's name as a literal"
        )
        assert section.value in SECTIONS, f"{place}: docs/errors.md has no such section"


def test_every_section_is_linked():
    linked = {section.value for section in uses().values()}
    assert {*SECTIONS} == linked
    assert 25 <= len(SECTIONS) <= 35


def test_the_page_begins_with_an_error_as_it_is_printed():
    shown = blocks("text", PAGE.read_text())[0]
    section = SECTIONS["shapes-do-not-broadcast"]
    link = f"See {ERRORS_PAGE}#{section.anchor}\n"
    assert shown == section.message + link


def test_the_address_is_that_of_the_documentation():
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    address = project["urls"]["Documentation"].rstrip("/")
    in_repository = f"{address}/errors.md".replace("/tree/", "/blob/")
    assert ERRORS_PAGE in (in_repository, f"{address}/errors/")


# --- the environments in which users meet some errors ----------------------------


def without_backends(folder):
    """Block all plugins."""
    names = {plugin.distribution for plugin in pg.engine().plugins}
    return {"PLUGRAD_BLOCK": ",".join(sorted(names))}


def install_metadata(folder, surface):
    """Install the metadata of a plugin, but not its package."""
    info = folder / "plugrad_far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: plugrad-far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[plugrad.{surface}]\nfar = plugrad_far\n")
    return {"PYTHONPATH": str(folder)}


ENVIRONMENTS = {
    "no-backend-is-installed": without_backends,
    "plugin-is-incompatible": functools.partial(install_metadata, surface="v2"),
    "plugin-is-installed-only-in-part": functools.partial(
        install_metadata, surface="v1"
    ),
}


def pattern(message):
    """Return a pattern for a message: the page wraps it, and ``…`` is any text."""
    words = [re.escape(word).replace("…", ".*") for word in message.split()]
    return r"\s+".join(words).replace(r"\s+.*", ".*").replace(r".*\s+", ".*")


@pytest.mark.parametrize("anchor", SECTIONS)
def test_an_error_matches_its_section(anchor, tmp_path):
    section = SECTIONS[anchor]
    for name in NEEDS:
        installed = name in pg.backends() or importlib.util.find_spec(name)
        if name in section.example and not installed:
            pytest.skip(f"{name} is not installed")
    prepare = ENVIRONMENTS.get(anchor, lambda folder: {})
    command = [sys.executable, "-W", "error", "-c", RUNNER]
    done = subprocess.run(
        [*command, section.example, section.cure],
        env=os.environ | prepare(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report, *printed = done.stdout.splitlines()
    line, chain = json.loads(report)
    assert section.example.splitlines()[line - 1].endswith("  # raises")
    wanted = rf"{pattern(section.message)}\s+See {re.escape(ERRORS_PAGE)}#{anchor}\s+"
    assert any(re.fullmatch(wanted, error, re.S) for error in chain), chain
    assert printed == promised(section.cure)


def test_a_cure_follows_every_example():
    for section in SECTIONS.values():
        python, shell = (blocks(name, section.text) for name in ("python", "sh"))
        assert python[0].count("  # raises\n") == 1, section.title
        assert promised(section.cure) or shell, section.title
