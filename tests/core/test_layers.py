"""The drawing of the layers in docs/development.md is the import graph."""

import re
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

from tests.surface import namespaces

# Modules that hold a few lines for several layers.
SHARED = {"polynomials", "public", "rationals"}
PARTS = dict.fromkeys(["window_numbers", "resampling", "windows"], "geometry")
PAGE = Path(__file__).parents[2] / "docs/development.md"


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


def drawn():
    """Return what each folder of the core imports, as the page draws it."""
    rows = re.findall(r"^(\w+) +->(.*)$", PAGE.read_text(), re.MULTILINE)
    return {name: set(imported.split()) for name, imported in rows}


def part(module):
    """Return the folder, or the module, of the core that a module belongs to."""
    return f"{module.replace('._src', '')}.".split(".")[1]


def imported():
    """Return what each folder of the core imports."""
    graph = grimp.build_graph("plugrad", exclude_type_checking_imports=True)
    found = defaultdict(set)
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            names = [part(name) for name in (module, other)]
            if all(names) and names[0] != names[1]:
                found[names[0]].add(PARTS.get(names[1], names[1]))
    found["geometry"] -= {"geometry"}
    return {name: others - SHARED for name, others in found.items()}


def test_the_drawing_shows_every_import():
    found = imported()
    rows = drawn()
    assert rows == {name: found.get(name, set()) for name in rows}
    spaces = {*namespaces()} - {""}  # plugrad.linalg, say
    assert found["tree"] == {"tensor"}
    assert all(found.get(name) == {"ops"} for name in spaces - {"tree"})
    others = {"__main__", *PARTS} | SHARED | spaces
    assert {*found, "tensor"} - others == set(rows)


def test_the_drawing_has_no_circle():
    seen = set()
    for name, others in reversed(drawn().items()):
        assert others <= seen
        seen.add(name)
