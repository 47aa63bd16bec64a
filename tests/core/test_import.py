"""``import plugrad`` imports what every program needs, and no more.

``benchmarks/import_time.py`` measures what that saves.
"""

import json

import plugrad as pg
import pytest

from tests.processes import output

ALLOWED = {"__future__", "importlib", "threading"}  # of the standard library
# What the first question imports: who finds and loads plugins, and makes descriptors.
LOADING = {"plugrad._src.registry.discovery", "plugrad._src.registry.loading"}
LOADING |= {"plugrad._src.registry.hooks", "pluggy", "importlib_metadata"}
# Signatures need ``inspect``, which NumPy itself imports, but not yet in 2.1.
IMPORTED = """
import json, sys
import numpy, inspect
before = {*sys.modules}
import plugrad
import_of_plugrad = [name for name in sys.modules if name not in before]
print(json.dumps([import_of_plugrad, sorted(sys.stdlib_module_names)]))
"""


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


@pytest.fixture(scope="module")
def imported():
    """Return the modules that ``import plugrad`` brings, and the standard library's."""
    modules, standard = json.loads(output(IMPORTED))
    return {*modules}, {*standard}


def test_only_these_modules_of_others(imported):
    modules, standard = imported
    roots = {name.partition(".")[0] for name in modules}
    assert roots & standard <= ALLOWED
    assert roots - standard == {"plugrad"}


def test_not_what_comes_at_its_first_use(imported):
    modules, _ = imported
    later = {f"plugrad.{name}" for name in pg._NAMESPACES.split()}
    later |= {f"plugrad.{module}" for module in pg._LATER.values()}
    assert modules.isdisjoint(later | LOADING | {"plugrad.importing"})


def test_the_first_question_imports_the_rest():
    """The names above are right: these modules exist, and are imported then."""
    loaded = "import json, sys, plugrad; plugrad.backends(); "
    loaded += "print(json.dumps([*sys.modules]))"
    assert {*json.loads(output(loaded))} >= LOADING


def test_every_later_name_is_public():
    assert {*pg._NAMESPACES.split(), *pg._LATER} - {"EngineState"} <= {*pg.__all__}
    assert {*pg._NAMESPACES.split(), *pg._LATER} - {"EngineState"} <= {*dir(pg)}


FIND = """
import os, sys
searched = []

class Finder:
    def find_spec(self, *_): pass
    def find_distributions(self, context):
        searched.append(context)
        return []

sys.meta_path.append(Finder())
import plugrad as pg
print(len(searched), end=" ")
assert pg.engine().plugins
print(len(searched), end=" ")
pg.engine(), pg.backends()
print(len(searched))
"""


def test_plugins_are_searched_for_at_the_first_question_and_once():
    imported, asked, again = map(int, output(FIND).split())
    assert imported == 0
    assert asked == 1
    assert again == 2  # the version of plugrad itself
