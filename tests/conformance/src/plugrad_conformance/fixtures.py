"""The fixture ``backend``, for tests that run once on each backend.

A ``conftest.py`` that imports both names makes it available to its tests::

    from plugrad_conformance.fixtures import backend, pytest_generate_tests
"""

import plugrad as pg
import pytest

from .toy import only_primitives

_DONE = pytest.StashKey[bool]()


def backends(config):
    """Return the names of ``--plugrad-backend``, or of all installed backends."""
    return config.getoption("plugrad_backends") or pg.backends()


def pytest_generate_tests(metafunc):
    """Run a test that asks for ``backend`` once on each; two conftests do it once."""
    if "backend" not in metafunc.fixturenames or _DONE in metafunc.definition.stash:
        return
    metafunc.definition.stash[_DONE] = True
    metafunc.parametrize("backend", backends(metafunc.config), indirect=True)


@pytest.fixture
def backend(request):
    """Make a backend the active one; "primitives" is what cpu would be with these."""
    if request.param == "primitives":
        with only_primitives(), pg.use_backend("primitives"):
            yield request.param
    else:
        with pg.use_backend(request.param):
            yield request.param
