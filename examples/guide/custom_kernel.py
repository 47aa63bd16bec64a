"""Custom kernel functions: two authors implement a kernel of a third author."""

from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Backend, Kernel, Runtime, Spec, decomposition, run

Array = np.ndarray[Any, np.dtype[Any]]

# --- author A: a kernel contract, its op, and its decomposition ------------------


def _shortened(x: Spec, *, window: int) -> Spec:
    return Spec((*x.shape[:-1], x.shape[-1] - window + 1), x.dtype)


AVERAGE = Kernel("guide.MovingAverage(x; window)", out=_shortened)


def moving_average(x: pg.Tensor, /, *, window: int) -> pg.Tensor:
    """Return the means of ``window`` adjacent elements along the last axis."""
    return run(AVERAGE, pg.asarray(x), window=window)


@decomposition(AVERAGE)
def _(x: pg.Tensor, *, window: int) -> pg.Tensor:
    size = x.shape[-1] - window + 1
    return pg.add_n([x[..., i : i + size] for i in range(window)]) / window


# --- author B: a kernel function for the backend "cpu" ---------------------------


def by_windows(x: Array, *, window: int) -> Array:
    """Average all windows at once; kernel functions get native arrays, not tensors."""
    windows = np.lib.stride_tricks.sliding_window_view(x, window, axis=-1)
    return windows.mean(axis=-1, dtype=x.dtype)


pg.register_kernel(AVERAGE, "cpu", by_windows)

# --- author C: a kernel function for a new backend -------------------------------


class Copies:
    """Move values into and out of a backend whose native arrays are NumPy's."""

    def upload(self, values: Array) -> Array:
        """Return a native copy."""
        return values.copy()

    def download(self, native: Array) -> Array:
        """Return the values of a native array."""
        return native.copy()

    def nbytes(self, native: Array) -> int:
        """Return the size of a native array in bytes."""
        return native.nbytes


def by_sums(x: Array, *, window: int) -> Array:
    """Subtract cumulative sums: fast, but less exact."""
    sums = np.cumsum(x, axis=-1, dtype=np.float64)
    sums[..., window:] -= sums[..., :-window].copy()
    return (sums[..., window - 1 :] / window).astype(x.dtype)


runtime = Runtime(arrays=Copies(), kernels={"guide.MovingAverage": by_sums})
pg.register_backend(Backend("summing", open=lambda: runtime, priority=-1))

# --- users: call the op; it runs on the active backend ---------------------------

x = pg.asarray([1.0, 2.0, 6.0, 1.0])
print(pg.get_kernel("guide.MovingAverage", "cpu") is by_windows)  # True
with pg.use_backend("cpu"):
    print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]

print(pg.get_kernel("guide.MovingAverage", "summing") is by_sums)  # True
with pg.use_backend("summing"):
    print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]

pg.remove_backend("summing")
pg.unregister_kernel("guide.MovingAverage", "cpu")
print(pg.get_kernel("guide.MovingAverage", "cpu"))  # None
with pg.use_backend("cpu"):  # now the decomposition runs
    print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]
