"""Resizing along one axis at a time, by tables of indices and weights.

Interpolation and both gradients are weighted sums; nearest-neighbor resizing only reads
pixels. Boxes are sampled position by position.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from plugrad.geometry import Resizing
from plugrad.plugin import KernelTable

from ..arrays import DType, Shape, WasmArray, describe, empty, upload
from ..launch import FLOAT32, Exports, wider
from ..runtime import Machine, cache_size
from .gather import check_axis, gather, int32_indices, new_flag

kernels = KernelTable()
_mix = Exports("mix")


class Terms(NamedTuple):
    """The terms of one axis from ``Resizing.terms``, in the machine's memory."""

    size: int
    starts: WasmArray
    indices: WasmArray
    weights: WasmArray


@cache_size(256)
def _terms(
    machine: Machine, geometry: Resizing, dtype: DType, linear: bool, back: bool
) -> list[Terms]:
    """Return the terms of rows and columns, with weights in ``dtype``."""
    found = []
    for starts, read, weights in geometry.terms(linear=linear, back=back):
        arrays = [upload(machine, x) for x in (starts, read, weights.astype(dtype))]
        found.append(Terms(len(starts) - 1, *arrays))
    return found


def _weighted_sums(x: WasmArray, geometry: Resizing, linear: bool, back: bool) -> Any:
    """Compute weighted sums along both axes, first the one that shrinks more."""
    export, machine = _mix[x.dtype], x.machine
    if export is None:
        return wider(lambda x: _weighted_sums(x, geometry, linear, back), None, (x,))
    tables = machine.cached[_terms](geometry, x.dtype, linear, back)
    gain = [terms.size / max(x.shape[axis], 1) for axis, terms in enumerate(tables, 1)]
    for axis in (1, 2) if gain[0] <= gain[1] else (2, 1):
        shape = x.shape
        terms = tables[axis - 1]
        if shape[axis] == terms.size:
            continue
        y = empty(machine, (*shape[:axis], terms.size, *shape[axis + 1 :]), x.dtype)
        sizes = prod(shape[:axis]), shape[axis], terms.size, prod(shape[axis + 1 :])
        how = terms.starts.pointer, terms.indices.pointer, terms.weights.pointer
        if y.size:
            machine.callers[export](x.pointer, y.pointer, *sizes, *how)
        x = y
    return x


@kernels("ResizeBilinear")
def resize_bilinear(images: WasmArray, *, geometry: Resizing) -> Any:
    """Interpolate; a position exactly on a pixel reads only that pixel."""
    return _weighted_sums(images, geometry, True, False)


@kernels("ResizeBilinearGrad")
def resize_bilinear_grad(
    images: WasmArray | None, dy: WasmArray, *, geometry: Resizing
) -> Any:
    """Add the weighted cotangent of each position to its neighboring pixels."""
    return _weighted_sums(dy, geometry, True, True)


@kernels("ResizeNearestNeighborGrad")
def resize_nearest_neighbor_grad(
    images: WasmArray | None, dy: WasmArray, *, geometry: Resizing
) -> Any:
    """Add each cotangent to the pixel that was read."""
    return _weighted_sums(dy, geometry, False, True)


@cache_size(256)
def _nearest(machine: Machine, geometry: Resizing) -> list[WasmArray]:
    return [upload(machine, rows) for rows in geometry.nearest]


@kernels("ResizeNearestNeighbor")
def resize_nearest_neighbor(images: WasmArray, *, geometry: Resizing) -> Any:
    """Read rows, then columns."""
    if images.dtype.hasobject:
        return NotImplemented
    for axis, indices in enumerate(images.machine.cached[_nearest](geometry), 1):
        images = gather(images, indices, axis=axis, batch_dims=0)
    return images


@kernels("CropAndResize")
def crop_and_resize(
    image: WasmArray,
    boxes: WasmArray,
    box_ind: WasmArray,
    *,
    crop_size: Shape,
    method: str,
    extrapolation_value: float,
) -> Any:
    """Sample boxes of float32 images; other dtypes are decomposed."""
    if image.dtype is not FLOAT32 or boxes.dtype is not FLOAT32:
        return NotImplemented
    machine = image.machine
    count, batch = boxes.shape[0], image.shape[0]
    y = empty(machine, (count, *crop_size, image.shape[3]), FLOAT32)
    which = int32_indices(box_ind)
    bad = new_flag(machine)
    sizes = machine.cached[describe]((*image.shape, *crop_size))
    pointers = (t.pointer for t in (image, boxes, which, y, bad))
    how = (count, sizes.pointer, method == "nearest", extrapolation_value)
    machine.callers["crop_f32"](*pointers, *how)
    check_axis("image.crop_and_resize", bad, box_ind, 0, batch)
    return y
