"""Reproducible random numbers: distributions, keys and seeds."""

from ._src.ops.random.random import (
    __doc__ as __doc__,
)
from ._src.ops.random.random import (
    bernoulli,
    choice,
    exponential,
    fold_in,
    gamma,
    key,
    multinomial,
    normal,
    permutation,
    seed,
    shuffle,
    split,
    truncated_normal,
    uniform,
    uniform_int,
)
from ._src.public import publish

__all__ = [
    "bernoulli",
    "choice",
    "exponential",
    "fold_in",
    "gamma",
    "key",
    "multinomial",
    "normal",
    "permutation",
    "seed",
    "shuffle",
    "split",
    "truncated_normal",
    "uniform",
    "uniform_int",
]

publish(globals())
