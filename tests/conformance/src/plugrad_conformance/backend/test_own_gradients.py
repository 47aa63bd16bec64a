"""A backend's own gradients equal the core's gradients.

The gradients in ``Runtime(gradients=...)`` may compute derivatives by other formulas.
The reference is the core's gradient, or the decomposition of a kernel without one, on
the same backend. Kernels with one input are tested with several shapes, axes and
special values; every kernel is tested with its call from ``misuse/rows``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import contracts, runtime

from ..backends import distribution_of
from ..misuse import right_calls

Array = np.ndarray[Any, Any]
FLOATING = ("float16", "float32", "float64", "complex64")
SHAPES = [(), (1,), (7,), (3, 129), (2, 3, 17), (1, 1000), (2000, 3), (0, 3), (3, 0)]
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 1e-30]


@pytest.fixture
def own_kernels(backend: str) -> list[str]:
    """Return the kernels for which the backend has its own gradients."""
    kernels = sorted(runtime(backend).gradients)
    if not kernels:
        pytest.skip(f"{backend} has no gradients of its own")
    return kernels


def calls(kernel: str, dtype: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Yield valid calls of a kernel with inputs of a dtype."""
    inputs, attrs, _ = right_calls()[kernel]
    yield [_recast(x, dtype) for x in inputs], attrs
    if len(contracts()[kernel].inputs) > 1 or {*attrs} - {"axis"}:
        return
    rng = np.random.default_rng(0)
    special = np.array(SPECIAL, dtype)
    xs = [(rng.standard_normal(shape) * 2).astype(dtype) for shape in SHAPES]
    # a NaN must not hide the results for other values, so each has a row of its own
    xs += [special, np.repeat(special, 3).reshape(-1, 3), special[:, None] + xs[2]]
    for x in xs:
        axes = [{"axis": i} for i in range(x.ndim) if x.shape[i]] if attrs else [{}]
        yield from (([x], axis) for axis in axes)


def _recast(x: Any, dtype: str) -> Any:
    floating = isinstance(x, np.ndarray) and x.dtype.kind == "f"
    return x.astype(dtype) if floating else x


def derivatives(
    kernel: str, inputs: list[Any], attrs: dict[str, Any], core: bool
) -> list[Array]:
    """Return the first and second derivatives with respect to the inputs.

    With ``core``, use the core's gradient, or the decomposition if there is none.
    """
    contract = contracts()[kernel]
    rules, decomposition = contract.gradient, contract.decomposition
    xs = [x if x is None else pg.asarray(x) for x in inputs]
    differentiable = [
        i for i, x in enumerate(xs) if x is not None and x.dtype.kind in "fc"
    ]

    def f(*given: pg.Tensor) -> Any:
        all_inputs = [
            given[differentiable.index(i)] if i in differentiable else x
            for i, x in enumerate(xs)
        ]
        if core and not rules and decomposition is not None:
            return decomposition(*all_inputs, **attrs)
        return pg.run_kernel(kernel, all_inputs, attrs)

    def pull_back(dy: Any, *given: pg.Tensor) -> Any:
        return pg.vjp(f, *given)[1](dy)

    given = [xs[i] for i in differentiable]
    functions = {name: rule and rule.function for name, rule in rules.items()}
    override = pg.override_gradient(kernel, functions) if core and rules else None
    with override or contextlib.nullcontext():
        dy = _cotangents(f(*given))
        first, pull_back_again = pg.vjp(pull_back, dy, *given)
        second = pull_back_again(_cotangents(first))
    return [dx.numpy() for dx in _flat([first, second])]


def _cotangents(ys: Any) -> Any:
    if isinstance(ys, pg.Tensor):
        dy = np.random.default_rng(1).uniform(-1.5, 1.5, ys.shape)
        return pg.asarray(dy.astype(ys.dtype))
    return type(ys)(_cotangents(y) for y in ys)


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in _flat(part)]
    return [] if tree is None else [tree]


@pytest.mark.parametrize("dtype", FLOATING)
def test_own_gradients_equal_those_of_the_core(
    dtype: str, own_kernels: list[str], backend: str
) -> None:
    """First and second derivatives agree, including where they are NaN or infinite."""
    if dtype not in runtime(backend).dtypes:
        pytest.skip(f"{backend} has no {dtype}")
    eps = float(np.finfo(dtype).eps)
    for kernel in own_kernels:
        kind = contracts()[kernel].kinds[contracts()[kernel].inputs[0]]
        if dtype == "complex64" and kind not in ("inexact", "number", ""):
            continue
        for inputs, attrs in calls(kernel, dtype):
            found = derivatives(kernel, inputs, attrs, core=False)
            wanted = derivatives(kernel, inputs, attrs, core=True)
            for i, (dx, expected) in enumerate(zip(found, wanted, strict=True)):
                assert (dx.shape, dx.dtype) == (expected.shape, expected.dtype)
                largest = np.abs(expected[np.isfinite(expected)]).max(initial=0)
                np.testing.assert_allclose(
                    dx, expected, rtol=64 * eps, atol=64 * eps * float(largest),
                    err_msg=f"{kernel}, result {i}, of {inputs}, {attrs}: the "
                    "backend's own gradient differs from the core's",
                )  # fmt: skip


def test_the_origin_of_own_gradients_is_reported(
    own_kernels: list[str], backend: str
) -> None:
    distribution, _ = distribution_of(backend)
    for kernel in own_kernels:
        for name, rule in pg.get_gradient(kernel).items():
            if name in runtime(backend).gradients[kernel] and rule is not None:
                assert distribution.partition(" ")[0] in rule.origin, kernel


def test_overrides_take_precedence_over_own_gradients(
    own_kernels: list[str], backend: str
) -> None:
    for kernel in own_kernels:
        no_rules = dict.fromkeys(runtime(backend).gradients[kernel])
        with pg.override_gradient(kernel, no_rules):
            assert not any(pg.get_gradient(kernel)[name] for name in no_rules)
        pg.register_gradient(kernel, no_rules)
        try:
            assert not any(pg.get_gradient(kernel)[name] for name in no_rules)
        finally:
            pg.unregister_gradient(kernel)
        assert any(pg.get_gradient(kernel)[name] for name in no_rules)


def test_own_gradients_apply_only_on_their_backend(
    own_kernels: list[str], backend: str
) -> None:
    own_rules = {kernel: pg.get_gradient(kernel) for kernel in own_kernels}
    for other in {"cpu"} & {*pg.backends()} - {backend}:
        with pg.use_backend(other):
            for kernel in own_kernels:
                other_rules = pg.get_gradient(kernel)
                for name in runtime(backend).gradients[kernel]:
                    assert other_rules.get(name) != own_rules[kernel][name], kernel
