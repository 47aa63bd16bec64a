"""A custom kernel: somebody else makes an op fast on one backend."""

from typing import Any

import numpy as np
import plugrad as pg
from plugrad.plugin import Backend, Kernel, Runtime, Spec, decomposition, run

Array = np.ndarray[Any, np.dtype[Any]]

# --- one author: a contract, its op, and what the kernel means -------------------


def _shortened(x: Spec, *, window: int) -> Spec:
    return Spec((*x.shape[:-1], x.shape[-1] - window + 1), x.dtype)


AVERAGE = Kernel("guide.MovingAverage(x; window)", out=_shortened)


def moving_average(x: pg.Tensor, /, *, window: int) -> pg.Tensor:
    """Return the mean of every ``window`` neighbours along the last axis."""
    return run(AVERAGE, pg.asarray(x), window=window)


@decomposition(AVERAGE)
def _(x: pg.Tensor, *, window: int) -> pg.Tensor:
    places = x.shape[-1] - window + 1
    return pg.add_n([x[..., i : i + places] for i in range(window)]) / window


# --- another author: an implementation for the backend "cpu" ---------------------


def by_windows(x: Array, *, window: int) -> Array:
    """Return it by one call of NumPy; kernels see native arrays, never tensors."""
    windows = np.lib.stride_tricks.sliding_window_view(x, window, axis=-1)
    return windows.mean(axis=-1, dtype=x.dtype)


pg.register_kernel(AVERAGE, "cpu", by_windows)

# --- a third: another implementation, for a backend of their own -----------------


class Copies:
    """How values move in and out of a backend whose native arrays are NumPy's."""

    def upload(self, values: Array) -> Array:
        """Return a native copy."""
        return values.copy()

    def download(self, native: Array) -> Array:
        """Return the values of a native array."""
        return native.copy()

    def nbytes(self, native: Array) -> int:
        """Return the memory that it holds."""
        return native.nbytes


def by_sums(x: Array, *, window: int) -> Array:
    """Return it from differences of running sums: fast, and less exact."""
    sums = np.cumsum(x, axis=-1, dtype=np.float64)
    sums[..., window:] -= sums[..., :-window].copy()
    return (sums[..., window - 1 :] / window).astype(x.dtype)


runtime = Runtime(arrays=Copies(), kernels={"guide.MovingAverage": by_sums})
pg.register_backend(Backend("summing", open=lambda: runtime, priority=-1))

# --- everybody: the op, on whatever backend is active ----------------------------

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
with pg.use_backend("cpu"):  # by the decomposition now
    print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]
