"""bfloat16: conversion, and kernels, which give the rounded result of float32.

NumPy has no bfloat16; that of the package ml_dtypes is the reference for conversion.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes
from ..excuses import excuse
from ..fixtures import backends, parametrize_once
from ..golden import cases, judge, reach

BFLOAT16 = np.dtype(pg.bfloat16)
FLOAT32 = np.dtype("float32")
# Kernels whose results are random, or whose results float32 cannot stand for.
LEFT_OUT = ("Bitcast", "Multinomial", "RandomUniform", "StatelessRandom")
MAX_CASES = 3  # per kernel


@pytest.fixture(autouse=True)
def _needs_bfloat16(backend: str) -> None:
    require_dtypes(backend, BFLOAT16)


def bits(x: Any) -> Any:
    """Return the bits of bfloat16 numbers; all NaN are the same."""
    values = x.numpy() if isinstance(x, pg.Tensor) else x
    assert values.dtype == BFLOAT16
    wide = values.astype(FLOAT32)
    return np.where(np.isnan(wide), np.uint16(0x7FC0), values.view(np.uint16))


EVERY = np.arange(2**16, dtype=np.uint16).view(BFLOAT16)


# --- conversion ------------------------------------------------------------------


def test_every_number_becomes_float32_and_back(backend: str) -> None:
    wide = pg.asarray(EVERY).astype(FLOAT32)
    np.testing.assert_array_equal(wide.numpy(), EVERY.astype(FLOAT32))
    np.testing.assert_array_equal(bits(wide.astype(BFLOAT16)), bits(EVERY))


def test_rounding_is_to_nearest_and_ties_are_to_even(backend: str) -> None:
    """Each number is compared with those at, next to and around the middle."""
    upper = np.arange(2**16, dtype=np.uint32) << 16
    lower = [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    wide = np.concatenate([upper + n for n in lower]).astype(np.uint32).view(FLOAT32)
    with np.errstate(all="ignore"):
        expected = wide.astype(BFLOAT16)
    np.testing.assert_array_equal(
        bits(pg.asarray(wide).astype(BFLOAT16)), bits(expected)
    )


DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float64", "complex64", "complex128"),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_pass_through_float32(dtype: str, backend: str) -> None:
    require_dtypes(backend, dtype)
    numbers = np.array([0, 1, 2.5, 3, 100, 257])
    x = pg.asarray(numbers.astype(dtype))
    through = x.astype(FLOAT32).astype(BFLOAT16)
    np.testing.assert_array_equal(bits(x.astype(BFLOAT16)), bits(through))
    y = pg.asarray(numbers.astype(BFLOAT16))
    back = y.astype(FLOAT32).astype(dtype).numpy()
    np.testing.assert_array_equal(y.astype(dtype).numpy(), back)


def test_bits_are_kept_by_bitcast(backend: str) -> None:
    require_dtypes(backend, "uint16")
    numbers = pg.bitcast(pg.asarray(EVERY), "uint16")
    np.testing.assert_array_equal(numbers.numpy(), EVERY.view(np.uint16))
    back = pg.bitcast(numbers, BFLOAT16).numpy()
    np.testing.assert_array_equal(back.view(np.uint16), EVERY.view(np.uint16))


# --- promotion -------------------------------------------------------------------

PROMOTED = {
    "bool": "bfloat16",
    "int8": "bfloat16",
    "int32": "bfloat16",
    "uint8": "bfloat16",
    "float16": "float32",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
}


@pytest.mark.parametrize("other", PROMOTED)
def test_promotion_is_that_of_jax(other: str, backend: str) -> None:
    require_dtypes(backend, other)
    x = pg.ones((2,), dtype=BFLOAT16)
    y = pg.ones((2,), dtype=other)
    assert pg.result_type(BFLOAT16, other).name == PROMOTED[other]
    assert [(x * y).dtype.name, (y * x).dtype.name] == [PROMOTED[other]] * 2


@pytest.mark.parametrize("number", [True, 2, 0.1, np.float64(0.1)])
def test_numbers_are_weak(number: Any, backend: str) -> None:
    y = pg.asarray([1.0, 2.0], dtype=BFLOAT16) + number
    expected = (np.array([1.0, 2.0], FLOAT32) + FLOAT32.type(number)).astype(BFLOAT16)
    np.testing.assert_array_equal(bits(y), bits(expected))


def test_numbers_that_are_too_large_are_refused(backend: str) -> None:
    x = pg.ones((2,), dtype=BFLOAT16)
    assert (x * 3.3e38).dtype == BFLOAT16
    with pytest.raises(OverflowError, match=r"1e\+39 does not fit into bfloat16"):
        x * 1e39


# --- kernels ---------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests of kernels once for each kernel with float32 cases."""
    if "backend" not in metafunc.fixturenames:
        return
    if "kernel" not in metafunc.fixturenames:
        parametrize_once(metafunc, "backend", backends(metafunc.config))
        return
    rows = [
        (kernel, name)
        for kernel in sorted({*reach.KERNELS} - {*LEFT_OUT})
        if floating_cases(kernel)
        for name in backends(metafunc.config)
    ]
    parametrize_once(metafunc, "kernel, backend", rows)


def floating_cases(kernel: str) -> list[cases.Case]:
    """Return the first cases of a kernel with float32 inputs."""
    found = [handle.load() for handle in cases.handles("kernels", kernel)[:MAX_CASES]]
    return [
        case
        for case in found
        if not case.random and FLOAT32 in {x.dtype for x in case.given}
    ]


def test_kernels_give_the_rounded_result_of_float32(kernel: str, backend: str) -> None:
    for case in floating_cases(kernel):
        narrow = judge.recast(case.inputs, FLOAT32, BFLOAT16)
        wide = judge.recast(narrow, BFLOAT16, FLOAT32)
        found = judge.outcome(replace(case, inputs=narrow), reach.KERNELS[kernel])
        wanted = judge.outcome(replace(case, inputs=wide), reach.KERNELS[kernel])
        if isinstance(found, Exception) and (reason := excuse(found, backend, kernel)):
            pytest.skip(reason)
        if isinstance(wanted, Exception) or isinstance(found, Exception):
            assert type(found) is type(wanted), f"{found!r} instead of {wanted!r}"
            continue
        for y, z in zip(found, wanted, strict=True):
            if y.dtype == BFLOAT16:
                with np.errstate(all="ignore"):
                    np.testing.assert_array_equal(bits(y), bits(z.astype(BFLOAT16)))
            else:
                np.testing.assert_array_equal(y, z)


# --- products --------------------------------------------------------------------


def product(rows: int, turn_a: bool, turn_b: bool) -> tuple[Any, Any, Any]:
    """Return factors, the second in bfloat16, and their product in float64."""
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((67, rows) if turn_a else (rows, 67)).astype(FLOAT32)
    b = rng.standard_normal((45, 67) if turn_b else (67, 45)).astype(BFLOAT16)
    left, right = a.astype(float), b.astype(float)
    return a, b, (left.T if turn_a else left) @ (right.T if turn_b else right)


@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("turn_a", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 9])
def test_products(rows: int, turn_a: bool, turn_b: bool, backend: str) -> None:
    """A float32 factor makes the product float32; with two, it is rounded once."""
    a, b, expected = product(rows, turn_a, turn_b)
    how = {"transpose_a": turn_a, "transpose_b": turn_b}
    mixed = pg.matmul(pg.asarray(a), pg.asarray(b), **how)
    assert mixed.dtype == FLOAT32
    np.testing.assert_allclose(mixed.numpy(), expected, rtol=1e-5, atol=1e-4)
    narrow = pg.asarray(a.astype(BFLOAT16))
    y = pg.matmul(narrow, pg.asarray(b), **how)
    assert y.dtype == BFLOAT16
    wide = pg.matmul(narrow.astype(FLOAT32), pg.asarray(b.astype(FLOAT32)), **how)
    # The sums may differ in their last bits, and then be rounded to neighbors.
    atol = 2**-8 * np.abs(wide.numpy()) + 1e-4
    assert (np.abs(y.astype(FLOAT32).numpy() - wide.numpy()) <= atol).all()


@pytest.mark.parametrize("turn_b", [False, True])
@pytest.mark.parametrize("turn_a", [False, True])
def test_gradients_of_mixed_products(turn_a: bool, turn_b: bool, backend: str) -> None:
    a, b, _ = product(3, turn_a, turn_b)
    how = {"transpose_a": turn_a, "transpose_b": turn_b}
    f = lambda a, b: pg.sum(pg.sin(pg.matmul(a, b, **how)))
    da, db = pg.grad(f, argnums=(0, 1))(pg.asarray(a), pg.asarray(b))
    wide = pg.asarray(b.astype(FLOAT32))
    expected_a, expected_b = pg.grad(f, argnums=(0, 1))(pg.asarray(a), wide)
    assert (da.dtype, db.dtype) == (FLOAT32, BFLOAT16)
    np.testing.assert_allclose(da.numpy(), expected_a.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        db.astype(FLOAT32).numpy(), expected_b.numpy(), rtol=2**-7, atol=1e-4
    )


def test_mixed_products_of_vectors_batches_and_nothing(backend: str) -> None:
    _, b, _ = product(1, False, True)
    w = pg.asarray(b)
    wide = pg.asarray(b.astype(FLOAT32))
    rng = np.random.default_rng(0)
    for shape in [(67,), (2, 3, 67), (0, 67), (2, 0, 67)]:
        x = pg.asarray(rng.standard_normal(shape).astype(FLOAT32))
        y = pg.matmul(x, w, transpose_b=True)
        expected = pg.matmul(x, wide, transpose_b=True)
        assert (y.shape, y.dtype) == (expected.shape, FLOAT32)
        np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-5, atol=1e-4)
    empty = pg.matmul(
        pg.ones((2, 0)), pg.ones((3, 0), dtype=BFLOAT16), transpose_b=True
    )
    assert empty.tolist() == [[0.0] * 3] * 2


def test_jit_replays_mixed_products(backend: str) -> None:
    a, b, _ = product(1, False, True)
    f = lambda x: pg.gelu(pg.matmul(x, pg.asarray(b), transpose_b=True))
    expected = f(pg.asarray(a)).numpy()
    replayed = pg.jit(f)
    for _ in range(3):
        found = replayed(pg.asarray(a)).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# --- the engine ------------------------------------------------------------------


def model(w: pg.Tensor, x: pg.Tensor) -> pg.Tensor:
    """Return a scalar that depends on several kinds of kernels."""
    y = pg.gelu(x @ w)
    y = pg.concat([y[:, ::2], y.T.T[:, 1:]], axis=1)
    return pg.sum(pg.softmax(y) * y)


def arguments() -> tuple[pg.Tensor, pg.Tensor]:
    """Return weights and inputs of the model."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal((5, 6)).astype(BFLOAT16)
    x = rng.standard_normal((4, 5)).astype(BFLOAT16)
    return pg.asarray(w), pg.asarray(x)


def test_gradients_are_close_to_those_of_float32(backend: str) -> None:
    w, x = arguments()
    y, (dw, dx) = pg.value_and_grad(model, argnums=(0, 1))(w, x)
    assert [y.dtype, dw.dtype, dx.dtype] == [BFLOAT16] * 3
    wide = [a.astype(FLOAT32) for a in (w, x)]
    expected = pg.grad(model, argnums=(0, 1))(*wide)
    for found, wanted in zip((dw, dx), expected, strict=True):
        largest = np.abs(wanted.numpy()).max()
        error = np.abs(found.astype(FLOAT32).numpy() - wanted.numpy()).max()
        assert error < 2**-6 * largest


@pytest.mark.parametrize("rows", [2, 7])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_of_products_are_float32_on_request(
    rows: int, turned: bool, backend: str
) -> None:
    """All numbers are whole, so that the sums do not depend on the order."""
    rng = np.random.default_rng(rows)
    shapes = (rows, 33), ((20, 33) if turned else (33, 20))
    a, b = [rng.integers(-99, 100, shape).astype(FLOAT32) for shape in shapes]
    halves = [pg.asarray(x.astype(BFLOAT16)) for x in (a, b)]

    def product(a: pg.Tensor, b: pg.Tensor) -> pg.Tensor:
        how = {"transpose_b": turned, "preferred_element_type": "float32"}
        return pg.matmul(a, b, **how)

    y, pull = pg.vjp(product, *halves)
    assert y.dtype == FLOAT32
    np.testing.assert_array_equal(y.numpy(), a @ (b.T if turned else b))
    da, db = pull(pg.ones_like(y))
    wide = b.T if turned else b
    expected = np.ones(y.shape, FLOAT32) @ wide.T
    np.testing.assert_array_equal(bits(da), bits(expected.astype(BFLOAT16)))
    expected = a.T @ np.ones(y.shape, FLOAT32)
    expected = expected.T if turned else expected
    np.testing.assert_array_equal(bits(db), bits(expected.astype(BFLOAT16)))


def test_jit_gives_the_same_bits(backend: str) -> None:
    step = pg.value_and_grad(model)
    expected = step(*arguments())
    replayed = pg.jit(step)
    for _ in range(3):
        y, dw = replayed(*arguments())
        np.testing.assert_array_equal(bits(y), bits(expected[0]))
        np.testing.assert_array_equal(bits(dw), bits(expected[1]))


def test_vmap_is_a_loop(backend: str) -> None:
    w, x = arguments()
    f = lambda row: pg.exp(row) @ w
    expected = pg.stack([f(x[i]) for i in range(4)])
    np.testing.assert_array_equal(bits(pg.vmap(f)(x)), bits(expected))


def test_forward_derivatives(backend: str) -> None:
    _, x = arguments()
    y, dy = pg.jvp(pg.tanh, (x,), (pg.ones_like(x),))
    assert (y.dtype, dy.dtype) == (BFLOAT16, BFLOAT16)
    wide = x.astype(FLOAT32).numpy()
    np.testing.assert_allclose(
        dy.astype(FLOAT32).numpy(), 1 - np.tanh(wide) ** 2, atol=2**-6
    )


def test_items_can_be_assigned(backend: str) -> None:
    _, x = arguments()
    before = bits(x)
    x[1] = 2.0
    x[2, 1:3] = pg.asarray([3.0, 4.0])
    after = bits(x)
    expected = before.copy()
    expected[1] = 0x4000
    expected[2, 1:3] = 0x4040, 0x4080
    np.testing.assert_array_equal(after, expected)


def test_overrides_are_called_with_bfloat16(backend: str) -> None:
    _, x = arguments()
    seen: list[Any] = []

    def rule(dy: pg.Tensor, x: pg.Tensor) -> pg.Tensor:
        seen.extend([dy.dtype, x.dtype])
        return dy * 2

    with pg.override_gradient("Exp", x=rule):
        dx = pg.grad(lambda x: pg.sum(pg.exp(x)))(x)
    assert seen == [BFLOAT16, BFLOAT16]
    np.testing.assert_array_equal(bits(dx), np.full(x.shape, 0x4000, np.uint16))


def test_values_print_and_convert(backend: str) -> None:
    x = pg.asarray([1.0, 0.1], dtype=BFLOAT16)
    assert x.tolist() == [1.0, 0.10009765625]
    assert x[0].item() == 1.0
    assert type(x[1].item()) is float
    assert "dtype=bfloat16" in repr(x)
    assert x.numpy().dtype == BFLOAT16
