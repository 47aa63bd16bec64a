"""The entry-point module is light: `open` imports the heavy modules of a backend."""

from __future__ import annotations

import json

import plugrad as pg
import pytest

from ..backends import distribution_of
from .processes import program

MAX_OWN_MODULES = 12  # an entry point needs one or two
# Modules that plugrad itself imports when it looks for plugins.
CORE = {"plugrad", "importlib_metadata", "ml_dtypes", "numpy", "pluggy", "packaging"}
CORE |= {"lazy_importer", "zipp"}

MEASURE = """
import json, sys, time
import plugrad as pg
import plugrad.plugin
before, start = {{*sys.modules}}, time.perf_counter()
assert {name!r} in pg.backends()
seconds = time.perf_counter() - start
print(json.dumps([sorted({{*sys.modules}} - before), seconds]))
print(json.dumps(sorted(sys.stdlib_module_names)))
"""


def top_level(module: str) -> str:
    return module.partition(".")[0]


def entry_point_module(backend: str) -> str:
    distribution, _ = distribution_of(backend)
    modules = [p.module for p in pg.engine().plugins if p.distribution == distribution]
    return modules[0].partition(":")[0]


def test_the_entry_point_imports_nothing_heavy(
    backend: str, request: pytest.FixtureRequest
) -> None:
    """The module imports only a few of its own modules and the standard library."""
    distribution, version = distribution_of(backend)
    if not version:
        pytest.skip(f"{backend} has no entry point")
    result = program(backend, "", start=MEASURE, PLUGRAD_PLUGINS=distribution)
    first, second = result.stdout.splitlines()[-2:]
    modules, seconds = json.loads(first)
    standard = {*json.loads(second)}
    own = [m for m in modules if top_level(m) == top_level(entry_point_module(backend))]
    others = {top_level(m) for m in modules} - standard - CORE - {*map(top_level, own)}
    measured = {"modules": len(modules), "seconds": seconds}
    request.node.user_properties.append(("plugrad-imports", measured))
    assert not others, f"import these in open(): {', '.join(sorted(others))}"
    assert len(own) <= MAX_OWN_MODULES, (
        f"import most of these in open(): {', '.join(own)}"
    )


def test_importing_plugrad_imports_no_plugin(backend: str) -> None:
    if not distribution_of(backend)[1]:
        pytest.skip(f"{backend} has no entry point")
    start = "import plugrad, sys\n"
    program(
        backend,
        f"assert {entry_point_module(backend)!r} not in sys.modules",
        start=start,
    )


def test_looking_up_its_name_does_not_open_it(backend: str) -> None:
    if not distribution_of(backend)[1]:
        pytest.skip(f"{backend} has no entry point")
    program(
        backend,
        "assert name in pg.backends(); assert name not in pg.engine().opened",
        start="import plugrad as pg\nname = {name!r}\n",
    )
