"""Strings live on the host: what is done with them is done by the kernels of cpu.

They are NumPy's object arrays, also among the arrays of this backend. Kernels that take
them look at their first inputs; indices and conditions come over, results stay or go.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from plugrad_cpu.kernels import KERNELS as HOST

from .arrays import ClArrays
from .elementwise import Function

OBJECT = np.dtype(object)
# Kernels that take strings as well as numbers.
BOTH = """
    BroadcastTo Concat Equal ExpandDims Fill GatherNd GatherV2 Greater
    GreaterEqual Identity Less LessEqual MirrorPad NotEqual Pack PadV2 Reshape
    Reverse Select Slice SplitV StridedSlice TensorScatterUpdate Tile Transpose
    Unpack
"""


def with_strings(
    kernels: Mapping[str, Function], arrays: ClArrays
) -> dict[str, Function]:
    """Return the kernels, those in ``BOTH`` for strings too."""
    both = {n: _both(kernels[n], HOST[n], arrays) for n in BOTH.split() if n in kernels}
    return {**kernels, **both}


def _both(function: Function, host: Function, arrays: ClArrays) -> Function:
    def there(result: Any) -> Any:
        return (
            [arrays.upload(y) for y in result]
            if isinstance(result, tuple)
            else (arrays.upload(np.asarray(result)))
        )

    @functools.wraps(function)
    def kernel(*xs: Any, **attrs: Any) -> Any:
        if np.ndarray in map(type, xs) or attrs.get("dtype") == OBJECT:
            here = [x if x is arrays else arrays.download(x) for x in xs]
            return there(host(*here, **attrs))
        return function(*xs, **attrs)

    return kernel
