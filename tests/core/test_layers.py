"""The diagram of the layers in docs/development.md agrees with the import graph."""

import re
from collections import defaultdict
from pathlib import Path

import grimp
import pytest

from tests.surface import namespaces

# Small modules that several layers share.
SHARED = {"polynomials", "public", "rationals"}
MODULE_GROUPS = dict.fromkeys(["window_numbers", "resampling", "windows"], "geometry")
PAGE = Path(__file__).parents[2] / "docs/development.md"


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


def imports_in_diagram():
    """Return the imports that the diagram shows for each folder of the core."""
    rows = re.findall(r"^(\w+) +->(.*)$", PAGE.read_text(), re.MULTILINE)
    return {name: set(imported.split()) for name, imported in rows}


def folder_of(module):
    """Return the folder or the top-level module of the core that contains a module."""
    return f"{module.replace('._src', '')}.".split(".")[1]


def actual_imports():
    """Return the imports that the code of each folder of the core contains."""
    graph = grimp.build_graph("plugrad", exclude_type_checking_imports=True)
    found = defaultdict(set)
    for module in graph.modules:
        for other in graph.find_modules_directly_imported_by(module):
            names = [folder_of(name) for name in (module, other)]
            if all(names) and names[0] != names[1]:
                found[names[0]].add(MODULE_GROUPS.get(names[1], names[1]))
    found["geometry"] -= {"geometry"}
    return {name: others - SHARED for name, others in found.items()}


def test_the_diagram_shows_every_import():
    found = actual_imports()
    rows = imports_in_diagram()
    assert rows == {name: found.get(name, set()) for name in rows}
    spaces = {*namespaces()} - {""}  # such as plugrad.linalg
    assert found["tree"] == {"tensor"}
    assert all(found.get(name) == {"ops"} for name in spaces - {"tree"})
    others = {"__main__", *MODULE_GROUPS} | SHARED | spaces
    assert {*found, "tensor"} - others == set(rows)


def test_the_diagram_has_no_cycle():
    seen = set()
    for name, others in reversed(imports_in_diagram().items()):
        assert others <= seen
        seen.add(name)
