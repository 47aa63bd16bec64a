"""Random numbers from plugrad; other runtimes draw different ones for the same seed."""

from __future__ import annotations

from typing import Any

import plugrad as pg

from ..dtypes import dtype_of
from ..registry import Value, op

Ints = tuple[int, ...]


def _seed(seed: float | None) -> int | None:
    return None if seed is None else int(seed)


def _normal(
    shape: Ints, kind: Any, mean: float, scale: float, seed: float | None
) -> Value:
    y = pg.random.normal(shape, mean=mean, stddev=scale, seed=_seed(seed))
    return pg.astype(y, kind)


def _uniform(
    shape: Ints, kind: Any, low: float, high: float, seed: float | None
) -> Value:
    y = pg.random.uniform(shape, minval=low, maxval=high, seed=_seed(seed))
    return pg.astype(y, kind)


@op("RandomNormal", random=True)
def random_normal(
    *,
    shape: Ints,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    return _normal(shape, dtype_of(dtype), mean, scale, seed)


@op("RandomNormalLike", random=True)
def random_normal_like(
    x: Value,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Value:
    return _normal(x.shape, dtype_of(dtype) if dtype else x.dtype, mean, scale, seed)


@op("RandomUniform", random=True)
def random_uniform(
    *,
    shape: Ints,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Value:
    return _uniform(shape, dtype_of(dtype), low, high, seed)


@op("RandomUniformLike", random=True)
def random_uniform_like(
    x: Value,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Value:
    return _uniform(x.shape, dtype_of(dtype) if dtype else x.dtype, low, high, seed)


@op("Bernoulli", since=15, random=True)
def bernoulli(
    x: Value, *, dtype: int | None = None, seed: float | None = None
) -> Value:
    drawn = pg.random.uniform(x.shape, seed=_seed(seed))
    return pg.astype(drawn < x, dtype_of(dtype) if dtype else x.dtype)


@op("Multinomial", since=7, random=True)
def multinomial(
    x: Value, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Value:
    return pg.astype(
        pg.random.multinomial(x, sample_size, seed=_seed(seed)), dtype_of(dtype)
    )
