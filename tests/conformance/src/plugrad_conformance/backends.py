"""Looks up facts about a backend by its name."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import plugrad as pg
from plugrad.plugin import contracts, runtime

from .primitives import DATA_DEPENDENT, HOST


@contextlib.contextmanager
def ensure_registered(name: str) -> Iterator[None]:
    """If "primitives" is named, register it: cpu with only its primitives."""
    if name == "primitives" and name not in pg.backends():
        from .toy import only_primitives

        with only_primitives():
            yield
    else:
        yield


def refusal(name: str) -> pg.BackendUnavailable | None:
    """Return why a backend does not open; None if it does."""
    with ensure_registered(name):
        try:
            runtime(name)
        except pg.BackendUnavailable as error:
            return error
    return None


def distribution_of(name: str) -> tuple[str, str]:
    """Return the distribution that provides a backend, and its version."""
    expected = _normal(f"plugrad-{name}")
    plugins = [plugin for plugin in pg.engine().plugins if plugin.usable]
    for plugin in plugins:
        if _normal(plugin.distribution) == expected:
            return plugin.distribution, plugin.version
    for plugin in plugins:
        if plugin.name == name:
            return plugin.distribution, plugin.version
    return "registered by the user", ""


def dtypes_of(name: str) -> list[str]:
    """Return the names of the dtypes that a backend declares."""
    with ensure_registered(name):
        return sorted(runtime(name).dtypes)


def ways_to_run(name: str) -> dict[str, str]:
    """Return how a backend runs each kernel of the catalog, by the kernel's name.

    A kernel is "implemented", "decomposed", left to the "host", or "missing" if it
    cannot run. Kernels of complex numbers have "no dtype" if the backend declares no
    complex dtype.
    """
    with ensure_registered(name):
        implemented = pg.get_kernels_for_backend(name)
        opened = runtime(name)
        complex_ = any(dtype.startswith("complex") for dtype in opened.dtypes)
        complex_kernels = () if complex_ else ("Complex", "Imag", "Real")
        left_to_host = opened.host_kernels
        if left_to_host is None:
            # The host would also run primitives that the backend lacks; here, they
            # count as missing.
            left_to_host = [*DATA_DEPENDENT, *HOST] if opened.host else []
        found = {}
        for kernel, contract in sorted(contracts().items()):
            if "." in kernel and kernel not in implemented:
                continue  # a kernel of an op library that happens to be installed
            if kernel in implemented:
                found[kernel] = "implemented"
            elif contract.decomposition is not None:
                found[kernel] = "decomposed"
            elif kernel in left_to_host:
                found[kernel] = "host"
            else:
                found[kernel] = "no dtype" if kernel in complex_kernels else "missing"
        return found


def _normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
