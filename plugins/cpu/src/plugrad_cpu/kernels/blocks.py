"""Spatial blocks: moving them to and from the batch or the channels."""

import math

from plugrad.plugin import KernelTable

from ..arrays import Array
from .slicing import Pairs, Sizes, pad

kernels = KernelTable()


@kernels("DepthToSpace")
def depth_to_space(x: Array, *, block_size: int, data_format: str) -> Array:
    """Split the channels into block rows, block columns and output channels."""
    b = block_size
    if data_format == "NCHW":
        n, c, h, w = x.shape
        c //= b * b
        x = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c, h * b, w * b)
    n, h, w, c = x.shape
    c //= b * b
    x = x.reshape(n, h, w, b, b, c).transpose(0, 1, 3, 2, 4, 5)
    return x.reshape(n, h * b, w * b, c)


@kernels("SpaceToBatchND")
def space_to_batch(x: Array, *, block_shape: Sizes, paddings: Pairs) -> Array:
    """Split spatial axes into blocks; positions in a block move into the batch."""
    m = len(block_shape)
    if any(map(any, paddings)):
        pairs = ((0, 0), *paddings, *[(0, 0)] * (x.ndim - 1 - m))
        x = pad(x, paddings=pairs, constant_values=b"" if x.dtype.hasobject else 0)
    space = [n // b for n, b in zip(x.shape[1:], block_shape, strict=False)]
    cut = [p for pair in zip(space, block_shape, strict=True) for p in pair]
    y = x.reshape(x.shape[0], *cut, *x.shape[m + 1 :])
    inner = range(2, 2 * m + 1, 2)
    outer = range(1, 2 * m + 1, 2)
    y = y.transpose(*inner, 0, *outer, *range(2 * m + 1, y.ndim))
    return y.reshape(x.shape[0] * math.prod(block_shape), *space, *x.shape[m + 1 :])


@kernels("BatchToSpaceND")
def batch_to_space(x: Array, *, block_shape: Sizes, crops: Pairs) -> Array:
    """Move the positions within blocks next to the block axes, merge, and crop."""
    m = len(block_shape)
    batch = x.shape[0] // math.prod(block_shape)
    space = x.shape[1 : m + 1]
    rest = x.shape[m + 1 :]
    y = x.reshape(*block_shape, batch, *space, *rest)
    mixed = [i for axis in range(m) for i in (m + 1 + axis, axis)]
    y = y.transpose(m, *mixed, *range(2 * m + 1, y.ndim))
    wide = [n * b for n, b in zip(space, block_shape, strict=True)]
    y = y.reshape(batch, *wide, *rest)
    pairs = zip(wide, crops, strict=True)
    return y[(slice(None), *[slice(a, n - b) for n, (a, b) in pairs])]
