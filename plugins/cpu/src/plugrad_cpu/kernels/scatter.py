"""Reading and writing at indices with several coordinates.

Each index is converted to a row index of the flattened tensor.
"""

import functools
import math

import numpy as np
from plugrad.plugin import KernelTable, in_place, takes_bfloat16

from ..arrays import Array, boxed
from ..native import MAX_ELEMENTS, contiguous
from ..native import kernels as in_c
from .gather import added, out_of_range

kernels = KernelTable()

PUT = in_c("scatter_put", {None: ""}).get(None)
INT32 = np.dtype("int32")
MAX_LISTED = 16  # up to this many coordinates, a Python loop is faster


def rows_of(op: str, indices: Array, sizes: tuple[int, ...]) -> Array:
    """Return indices into axes of ``sizes`` as indices into the flattened axis."""
    coordinates = indices.astype(np.int64, copy=False)
    if (coordinates.view(np.uint64) >= np.array(sizes, np.uint64)).any():
        for axis, n in enumerate(sizes):
            found = coordinates[..., axis]
            if ((found < 0) | (found >= n)).any():
                raise out_of_range(op, found, axis, n)
    if not sizes:
        return np.zeros(coordinates.shape[:-1], np.int64)
    rows = coordinates[..., 0]
    for axis, n in enumerate(sizes[1:], 1):
        rows = rows * n + coordinates[..., axis]
    return rows


@kernels("GatherNd")
@takes_bfloat16
def gather_nd(params: Array, indices: Array) -> Array:
    """Read rows; a strided array is indexed directly, without copying all of it."""
    depth = indices.shape[-1]
    lead, rest = params.shape[:depth], params.shape[depth:]
    rows = rows_of("gather_nd", indices, lead)
    if depth and not params.flags.c_contiguous:
        return boxed(params[tuple(np.moveaxis(indices, -1, 0))])
    return boxed(params.reshape(math.prod(lead), *rest).take(rows, 0))


@kernels("ScatterNd")
def scatter_nd(indices: Array, updates: Array, *, shape: tuple[int, ...]) -> Array:
    """Sum rows by index."""
    lead = shape[: indices.shape[-1]]
    rows = rows_of("scatter_nd", indices, lead).reshape(-1)
    table = updates.reshape(len(rows), *shape[len(lead) :])
    return added(table, rows, math.prod(lead)).reshape(shape)


@kernels("TensorScatterUpdate")
@takes_bfloat16
def tensor_scatter_update(tensor: Array, indices: Array, updates: Array) -> Array:
    """Copy, and write the updates into the copy in order."""
    return written("tensor_scatter_update", tensor, indices, updates)


@in_place(tensor_scatter_update)
def tensor_scatter_update_in_place(
    tensor: Array, indices: Array, updates: Array
) -> Array:
    """Write the updates into the tensor in order, if NumPy owns its memory."""
    if not is_writable(tensor):
        return NotImplemented
    return write("tensor_scatter_update", tensor, indices, updates)


@kernels("TensorScatterExtremum")
def tensor_scatter_extremum(
    tensor: Array, indices: Array, updates: Array, *, largest: bool
) -> Array:
    """Sort updates and combine them per row; for single elements, use ``ufunc.at``."""
    lead = tensor.shape[: indices.shape[-1]]
    rows = rows_of("tensor_scatter_update", indices, lead).reshape(-1)
    y = np.array(tensor, order="C")
    table = y.reshape(math.prod(lead), *tensor.shape[len(lead) :])
    new = updates.reshape(len(rows), *table.shape[1:])
    function = np.maximum if largest else np.minimum
    if table.ndim == 1:  # ufunc.at is a C loop
        function.at(table, rows, new)
    elif rows.size:
        order = np.argsort(rows, kind="stable")
        targets, starts = np.unique(rows[order], return_index=True)
        table[targets] = function(table[targets], function.reduceat(new[order], starts))
    return y


def written(op: str, tensor: Array, indices: Array, updates: Array) -> Array:
    """Return a copy with rows written in order, so that the last update wins."""
    return write(op, np.array(tensor, order="C"), indices, updates)


def write(op: str, y: Array, indices: Array, updates: Array) -> Array:
    """Write rows into a contiguous array in order, and return it."""
    if indices.dtype == INT32 and _put(y, indices, updates):
        return y
    lead = y.shape[: indices.shape[-1]]
    if 0 < indices.size <= MAX_LISTED and _write_few(y, lead, indices, updates):
        return y
    rows = rows_of(op, indices, lead).reshape(-1)
    table = y.reshape(math.prod(lead), *y.shape[len(lead) :])
    table[rows] = updates.reshape(len(rows), *table.shape[1:])
    return y


def _put(y: Array, indices: Array, updates: Array) -> bool:
    """Write rows in C; return False if NumPy must write them or report a bad index."""
    given = contiguous(updates, indices) if PUT else None
    if (
        not PUT
        or given is None
        or y.size >= MAX_ELEMENTS
        or not y.size
        or y.dtype.hasobject
    ):
        return False
    depth = indices.shape[-1]
    sizes, width = _sizes(y.shape, depth, y.itemsize)
    if not depth or width >= MAX_ELEMENTS:
        return False
    bad = np.zeros(1, np.uint32)
    PUT(*given, y, bad, indices.size // depth, depth, sizes, width)
    return not bad[0]


@functools.lru_cache(256)
def _sizes(shape: tuple[int, ...], depth: int, itemsize: int) -> tuple[Array, int]:
    """Return the sizes of the indexed axes, and the bytes of a row."""
    return np.array(shape[:depth], np.int32), math.prod(shape[depth:]) * itemsize


def _write_few(y: Array, lead: tuple[int, ...], indices: Array, updates: Array) -> bool:
    """Write a few rows one by one; return False if an index is out of range."""
    places = [*map(tuple, indices.reshape(-1, len(lead)).tolist())]
    for place in places:
        for index, n in zip(place, lead, strict=True):
            if not 0 <= index < n:
                return False
    rows = updates.reshape(len(places), *y.shape[len(lead) :])
    for place, row in zip(places, rows, strict=True):
        y[place] = row
    return True


def is_writable(x: Array) -> bool:
    """Return whether NumPy owns the memory of an array, and rows can be written to it.

    Memory that another library, a file or a buffer owns may be visible elsewhere.
    """
    root = x if type(x) is np.ndarray and x.base is None else getattr(x, "base", None)
    is_own = type(root) is np.ndarray and root.flags.owndata
    return is_own and x.flags.writeable and x.flags.c_contiguous
