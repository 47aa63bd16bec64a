"""Arrays between pages that must not be touched."""

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

EDGES = ("start", "end")  # of the pages that an array may use
MOST = 1 << 26  # bytes: what views of far steps reach over is not copied

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def pages(nbytes: int, edge: str) -> np.ndarray:
    """Return bytes next to a page that must not be touched."""
    page = mmap.PAGESIZE
    inside = -(-nbytes // page) * page
    whole = np.frombuffer(mmap.mmap(-1, inside + 2 * page), np.uint8)
    for start in (0, page + inside):
        if _libc.mprotect(whole.ctypes.data + start, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    begin = page if edge == "start" else page + inside - nbytes
    return whole[begin : begin + nbytes]


def guarded(kernel: Callable[..., None], args: tuple[Any, ...], edge: str) -> None:
    """Call a kernel with copies of arrays between guard pages, and copy results back.

    Arrays over the same memory stay so.
    """
    made: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def moved(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        low, high = np.lib.array_utils.byte_bounds(x)
        if high - low > MOST or not x.nbytes:
            return x
        if (low, high) not in made:
            place = pages(high - low, edge)
            memory = (ctypes.c_char * (high - low)).from_address(low)
            theirs = np.frombuffer(memory, np.uint8)
            place[:] = theirs
            made[low, high] = (place, theirs)
        start = x.__array_interface__["data"][0] - low
        return np.ndarray(x.shape, x.dtype, made[low, high][0].data, start, x.strides)

    kernel(*map(moved, args))
    for place, theirs in made.values():
        if not np.array_equal(place, theirs):
            theirs[:] = place
