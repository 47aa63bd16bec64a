"""The life cycle of a backend: it is registered, opened, overridden and removed."""

from __future__ import annotations

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Backend, Kernel, contracts, runtime

from ..backends import distribution_of, ways_to_run
from .processes import program


def test_it_opens_once(backend: str) -> None:
    assert runtime(backend) is runtime(backend)
    assert pg.get_backend() == backend
    assert backend in pg.backends()


def test_a_second_backend_of_the_same_name_is_refused(backend: str) -> None:
    before = pg.get_kernels_for_backend(backend)
    with pytest.raises(ValueError, match="already registered"):
        pg.register_backend(Backend(backend, open=lambda: runtime("no such backend")))
    assert pg.get_kernels_for_backend(backend) == before
    assert pg.exp(pg.zeros((2,))).tolist() == [1.0, 1.0]


def test_a_second_backend_with_the_same_runtime(backend: str) -> None:
    """Native arrays are read through the backend, not through a global."""
    opened = runtime(backend)
    more = {k: getattr(opened, k) for k in ("dtypes", "host", "host_kernels", "wrap")}
    again = type(opened)(arrays=opened.arrays, kernels=opened.kernels, **more)
    pg.register_backend(Backend("conformance-again", open=lambda: again, priority=-99))
    try:
        with pg.use_backend("conformance-again"):
            assert pg.exp(pg.zeros((2,))).backend == "conformance-again"
    finally:
        pg.remove_backend("conformance-again")
    assert pg.exp(pg.zeros((2,))).tolist() == [1.0, 1.0]
    with pytest.raises(pg.BackendUnavailable):
        pg.use_backend("conformance-again")


def test_a_kernel_is_overridden_and_restored(backend: str) -> None:
    original = pg.get_kernel("Exp", backend)
    x = pg.asarray([0.0, 1.0])
    plain = pg.exp(x).tolist()
    disposed = []
    pg.register_kernel("Exp", backend, lambda x: x, dispose=lambda: disposed.append(1))
    try:
        assert pg.exp(x).tolist() == [0.0, 1.0]
    finally:
        pg.unregister_kernel("Exp", backend)
    assert disposed == [1]
    assert pg.get_kernel("Exp", backend) is original
    assert pg.exp(x).tolist() == plain


def test_a_kernel_of_another_distribution(backend: str) -> None:
    """A kernel with a dotted name gets native arrays, and can be removed again."""
    contract = Kernel("conformance.Same(x)", out=lambda x: x)
    pg.register_kernel(contract, backend, lambda x: x)
    try:
        y = pg.run_kernel("conformance.Same", [pg.asarray([1.0, 2.0])], {})
        assert (y.backend, y.tolist()) == (backend, [1.0, 2.0])
    finally:
        pg.unregister_kernel("conformance.Same", backend)
    with pytest.raises(pg.KernelNotFound, match=r"conformance\.Same"):
        pg.run_kernel("conformance.Same", [pg.asarray([1.0])], {})


def test_a_kernel_that_does_not_fit_changes_nothing(backend: str) -> None:
    before = pg.get_kernels_for_backend(backend)
    with pytest.raises(ValueError, match="does not fit"):
        pg.register_kernel("Add", backend, lambda x: x)
    with pytest.raises(ValueError, match="unknown kernel 'Ad'"):
        pg.register_kernel("Ad", backend, lambda a, b: a)
    assert pg.get_kernels_for_backend(backend) == before


def test_a_backend_stays_usable_after_a_kernel_raises(backend: str) -> None:
    def broken(x):
        raise RuntimeError("no such luck")

    pg.register_kernel("Exp", backend, broken)
    try:
        with pytest.raises(RuntimeError, match="no such luck"):
            pg.exp(pg.zeros((2,)))
    finally:
        pg.unregister_kernel("Exp", backend)
    assert pg.exp(pg.zeros((2,))).tolist() == [1.0, 1.0]


def test_it_is_removed(backend: str) -> None:
    """Runs in a separate process, because a closed backend must not be used again."""
    result = program(
        backend,
        """
        x = pg.asarray([1.0, 2.0])
        pg.remove_backend(name)
        assert name not in pg.backends()
        try:
            pg.set_backend(name)
        except pg.BackendUnavailable as error:
            print(error)
        """,
    )
    assert backend in result.stdout


def test_its_hosts_are_declared(backend: str) -> None:
    """The host has every kernel that the backend leaves to it."""
    opened = runtime(backend)
    left_to_host = opened.host_kernels
    if left_to_host is None:
        left_to_host = [
            kernel for kernel, way in ways_to_run(backend).items() if way == "host"
        ]
    if not left_to_host:
        pytest.skip(f"{backend} leaves nothing to a host")
    assert {*left_to_host} <= {*contracts()}
    assert opened.host is not None, "host_kernels without a host"
    host_kernels = pg.get_kernels_for_backend(opened.host)
    missing = [kernel for kernel in left_to_host if kernel not in host_kernels]
    assert not missing, f"the host {opened.host} lacks {missing}"


def test_its_distribution_depends_on_the_host(backend: str) -> None:
    import importlib.metadata
    import re

    distribution, version = distribution_of(backend)
    host = runtime(backend).host
    if host is None:
        pytest.skip(f"{backend} names no host")
    if not version:
        pytest.skip(f"{backend} has no entry point")
    needs = importlib.metadata.requires(distribution) or []
    names = [re.split(r"[^\w.-]", need)[0].lower().replace("_", "-") for need in needs]
    assert distribution_of(host)[0] in names


def test_results_belong_to_the_backend(backend: str) -> None:
    x = pg.asarray(np.ones((2, 2), np.float32))
    for y in (x + 1, pg.matmul(x, x), pg.sum(x), pg.softmax(x), pg.grad(pg.sum)(x)):
        assert y.backend == backend
