"""``import plugrad`` imports only the modules that every program needs.

``benchmarks/import_time.py`` measures what that saves.
"""

import json

import plugrad as pg
import pytest

from tests.processes import output

ALLOWED = {"__future__", "importlib", "threading"}  # in the standard library
# Modules that find and load plugins, imported when plugins are first needed.
LOADING_MODULES = {"plugrad._src.registry.discovery", "plugrad._src.registry.loading"}
LOADING_MODULES |= {"plugrad._src.registry.hooks", "pluggy", "importlib_metadata"}
# Signatures need ``inspect``, which NumPy itself imports, but not yet in 2.1.
PRINT_IMPORTED_MODULES = """
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
    """Return the modules that ``import plugrad`` adds, and those of Python itself."""
    modules, standard = json.loads(output(PRINT_IMPORTED_MODULES))
    return {*modules}, {*standard}


def test_only_allowed_modules_of_others_are_imported(imported):
    modules, standard = imported
    roots = {name.partition(".")[0] for name in modules}
    assert roots & standard <= ALLOWED
    assert roots - standard == {"plugrad", "ml_dtypes"}


def test_modules_for_a_first_use_are_not_imported(imported):
    modules, _ = imported
    later = {f"plugrad.{name}" for name in pg._NAMESPACES.split()}
    later |= {f"plugrad.{module}" for module in pg._LATER.values()}
    assert modules.isdisjoint(later | LOADING_MODULES | {"plugrad.importing"})


def test_the_first_use_of_plugins_imports_the_modules_for_loading():
    """The LOADING_MODULES exist, and the first use of plugins imports them."""
    loaded = "import json, sys, plugrad; plugrad.backends(); "
    loaded += "print(json.dumps([*sys.modules]))"
    assert {*json.loads(output(loaded))} >= LOADING_MODULES


def test_every_later_name_is_public():
    assert {*pg._NAMESPACES.split(), *pg._LATER} - {"EngineState"} <= {*pg.__all__}
    assert {*pg._NAMESPACES.split(), *pg._LATER} - {"EngineState"} <= {*dir(pg)}


COUNT_SEARCHES = """
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


def test_plugins_are_searched_for_once_at_their_first_use():
    after_import, after_first_use, after_second_use = map(
        int, output(COUNT_SEARCHES).split()
    )
    assert after_import == 0
    assert after_first_use == 1
    assert after_second_use == 2  # the second search was for plugrad's version
