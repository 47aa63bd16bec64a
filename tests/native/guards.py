"""Arrays between guard pages, which a program can neither read nor write."""

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

EDGES = ("start", "end")  # where arrays touch a guard page
MAX_SPAN_BYTES = 1 << 26  # views with huge strides span more and are not copied

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def pages(nbytes: int, edge: str) -> np.ndarray:
    """Return ``nbytes`` bytes that start or end at a guard page."""
    page = mmap.PAGESIZE
    inside = -(-nbytes // page) * page
    whole = np.frombuffer(mmap.mmap(-1, inside + 2 * page), np.uint8)
    for start in (0, page + inside):
        if _libc.mprotect(whole.ctypes.data + start, page, 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    begin = page if edge == "start" else page + inside - nbytes
    return whole[begin : begin + nbytes]


def call_guarded(kernel: Callable[..., None], args: tuple[Any, ...], edge: str) -> None:
    """Call a kernel with copies of arrays between guard pages, and copy results back.

    If arrays share memory, so do their copies.
    """
    copies: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}

    def guarded(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        low, high = np.lib.array_utils.byte_bounds(x)
        if high - low > MAX_SPAN_BYTES or not x.nbytes:
            return x
        if (low, high) not in copies:
            copy = pages(high - low, edge)
            memory = (ctypes.c_char * (high - low)).from_address(low)
            original = np.frombuffer(memory, np.uint8)
            copy[:] = original
            copies[low, high] = (copy, original)
        start = x.__array_interface__["data"][0] - low
        return np.ndarray(x.shape, x.dtype, copies[low, high][0].data, start, x.strides)

    kernel(*map(guarded, args))
    for copy, original in copies.values():
        if not np.array_equal(copy, original):
            original[:] = copy
