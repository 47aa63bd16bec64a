"""Looks up facts about a backend by its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import plugrad as pg
from plugrad.plugin import contracts, runtime

from .primitives import DATA_DEPENDENT, HOST


@contextlib.contextmanager
def present(name: str) -> Iterator[None]:
    """Register "primitives", which is cpu with only its primitives, if named so."""
    if name == "primitives" and name not in pg.backends():
        from .toy import only_primitives

        with only_primitives():
            yield
    else:
        yield


def refusal(name: str) -> pg.BackendUnavailable | None:
    """Return why a backend does not open; None if it does."""
    with present(name):
        try:
            runtime(name)
        except pg.BackendUnavailable as error:
            return error
    return None


def distribution_of(name: str) -> tuple[str, str]:
    """Return the distribution that provides a backend, and its version."""
    home = _normal(f"plugrad-{name}")
    plugins = [plugin for plugin in pg.engine().plugins if plugin.usable]
    for plugin in plugins:
        if _normal(plugin.distribution) == home:
            return plugin.distribution, plugin.version
    for plugin in plugins:
        if plugin.name == name:
            return plugin.distribution, plugin.version
    return "registered by the user", ""


def dtypes_of(name: str) -> list[str]:
    """Return the names of the dtypes that a backend declares."""
    with present(name):
        return sorted(runtime(name).dtypes)


def ways(name: str) -> dict[str, str]:
    """Return how a backend runs each kernel of the catalog, by the kernel's name.

    "implemented", "decomposed", "host", or "missing" if it cannot run; "no dtype" for
    complex kernels on a backend that declares no complex dtype.
    """
    with present(name):
        mine = pg.get_kernels_for_backend(name)
        opened = runtime(name)
        complex_ = any(dtype.startswith("complex") for dtype in opened.dtypes)
        without = () if complex_ else ("Complex", "Imag", "Real")
        left = opened.host_kernels
        if left is None:  # a missing primitive was forgotten, not left to the host
            left = [*DATA_DEPENDENT, *HOST] if opened.host else []
        found = {}
        for kernel, contract in sorted(contracts().items()):
            if "." in kernel and kernel not in mine:
                continue  # a kernel of an op library that happens to be installed
            if kernel in mine:
                found[kernel] = "implemented"
            elif contract.decomposition is not None:
                found[kernel] = "decomposed"
            elif kernel in left:
                found[kernel] = "host"
            else:
                found[kernel] = "no dtype" if kernel in without else "missing"
        return found


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
