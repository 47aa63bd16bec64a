"""Named tuples of tensors, public in the namespaces whose functions return them.

The functions import this module at their first call, because Python takes 0.09 ms to
define a named tuple.
"""

from __future__ import annotations

from typing import NamedTuple

from plugrad._src.tensor.tensor import Tensor


class FilledRows(NamedTuple):
    """The result of ``fill_empty_rows``."""

    indices: Tensor
    values: Tensor
    empty_row_indicator: Tensor
    reverse_index_map: Tensor


class Pieces(NamedTuple):
    """A sparse tensor: the result of ``split``."""

    indices: Tensor
    values: Tensor
    shape: Tensor
