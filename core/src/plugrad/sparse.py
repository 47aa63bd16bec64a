"""Sparse matrices, given as indices and values: conversion, segment sums."""

from ._src.ops.sparse._results import (
    FilledRows as FilledRows,
)
from ._src.ops.sparse.sparse import (
    __doc__ as __doc__,
)
from ._src.ops.sparse.sparse import (
    fill_empty_rows,
    ragged_gather,
    ragged_range,
    ragged_tensor_to_tensor,
    reshape,
    segment_mean,
    segment_sum,
    to_dense,
)
from ._src.public import publish

__all__ = [
    "fill_empty_rows",
    "ragged_gather",
    "ragged_range",
    "ragged_tensor_to_tensor",
    "reshape",
    "segment_mean",
    "segment_sum",
    "to_dense",
]

publish(globals(), FilledRows)
