"""The fixture ``backend``, for tests that run once on each backend.

To use the fixture in a folder of tests, import both names in its ``conftest.py``::

    from plugrad_conformance.fixtures import backend, pytest_generate_tests
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import plugrad as pg
import pytest

from .backends import ensure_registered

EXTRA_BACKENDS = pytest.StashKey[list[str]]()  # in addition to the installed ones
_DONE = pytest.StashKey[bool]()


def backends(config: pytest.Config) -> list[str]:
    """Return the backends of ``--plugrad-backend``, or all that are installed."""
    chosen: list[str] = config.getoption("plugrad_backends")
    return chosen or [*pg.backends(), *config.stash.get(EXTRA_BACKENDS, [])]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that uses ``backend`` once on each backend."""
    if "backend" not in metafunc.fixturenames or _DONE in metafunc.definition.stash:
        return
    parametrize_once(metafunc, "backend", backends(metafunc.config))


def parametrize_once(
    metafunc: pytest.Metafunc, names: str, rows: Sequence[object]
) -> None:
    """Parametrize a test once, in ``backend`` together with the other names."""
    metafunc.definition.stash[_DONE] = True
    metafunc.parametrize(names, rows, indirect=["backend"])


@pytest.fixture
def backend(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Activate a backend; only its declared host kernels may run elsewhere.

    "primitives" is cpu with only its primitives.
    """
    monkeypatch.setenv("PLUGRAD_FALLBACK", "error")
    name: str = request.param
    with ensure_registered(name), pg.use_backend(name):
        yield name
