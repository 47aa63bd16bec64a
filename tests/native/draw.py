"""Random shapes and arrays, including arrays with negative, zero and huge strides."""

import functools
import math
import mmap
import zlib

import numpy as np
import plugrad as pg

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130)
SMALL_MAX_ELEMENTS = 4096
MIDDLE_MIN_ELEMENTS = 20_000
LARGE_MIN_ELEMENTS = 140_000
LAYOUTS = ("C", "C", "permuted", "reversed", "strided", "broadcast", "shifted", "far")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 1e-40, 88.8, -104.0)
HUGE_STRIDE = 1 << 32  # bytes; does not fit into 32 bits


NORESERVE = 0x4000  # on Linux; the mmap module has this constant from Python 3.13 on


@functools.cache
def address_space() -> mmap.mmap:
    """Return a memory map; only the pages that are written use memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    return mmap.mmap(-1, 4 * HUGE_STRIDE, flags=flags)


class Draw:
    """Random arguments for one call, determined by the row, the dtype and the seed.

    Attributes:
        min_elements: The minimum size of arrays. With ``large``, kernels use threads
            for arrays of this size. For every fourth seed, arrays are large enough for
            every C kernel to run instead of NumPy.

    """

    def __init__(
        self,
        row: str,
        dtype: str,
        seed: int,
        large: bool = False,
        special: bool = False,
    ) -> None:
        self.rng = np.random.default_rng([zlib.crc32(f"{row} {dtype}".encode()), seed])
        self.dtype = dtype
        self.min_elements = (
            LARGE_MIN_ELEMENTS if large else MIDDLE_MIN_ELEMENTS if seed % 4 == 3 else 0
        )
        self.special = special and self.rng.random() < 0.3

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, probability=0.5) -> bool:
        return bool(self.rng.random() < probability)

    def up_to(self, n: int) -> int:
        """Return a number from 1 to n."""
        return int(self.rng.integers(1, n + 1))

    # --- shapes ------------------------------------------------------------------

    def shape(self, min_rank: int = 0, max_rank: int = 4) -> tuple[int, ...]:
        """Return a shape of ``min_rank`` to ``max_rank`` axes."""
        min_rank = max(min_rank, bool(self.min_elements))
        rank = int(self.rng.integers(min_rank, max_rank + 1))
        shape = []
        for _ in range(rank):
            limit = SMALL_MAX_ELEMENTS // max(1, math.prod(shape))
            shape.append(int(self.rng.choice([n for n in SIZES if n <= limit])))
        if self.min_elements:
            shape = [max(n, 1) for n in shape]
            i = int(self.rng.integers(rank))
            shape[i] *= -(-self.min_elements // math.prod(shape))
        return tuple(shape)

    def nonempty(self, min_rank: int = 1, max_rank: int = 4) -> tuple[int, ...]:
        """Return a shape without empty axes."""
        return tuple(max(n, 1) for n in self.shape(min_rank, max_rank))

    def pair(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return two shapes that broadcast."""
        shape = self.shape()
        smaller = tuple(1 if self.chance(0.3) else n for n in shape)
        smaller = (
            smaller[int(self.rng.integers(len(shape) + 1)) :]
            if self.chance(0.4)
            else smaller
        )
        return (shape, smaller) if self.chance() else (smaller, shape)

    def image(self, rank: int = 2, channels: int | None = None) -> tuple[int, ...]:
        """Return the shape of a batch of images."""
        c = channels or self.pick(1, 2, 3, 4, 5, 8, 12, 16, 19, 32)
        if self.min_elements:
            side = math.ceil((self.min_elements / 2 / c) ** (1 / rank)) + 4
            return (2, *(side + self.up_to(3) for _ in range(rank)), c)
        return (self.pick(0, 1, 1, 2, 3), *(self.up_to(9) + 4 for _ in range(rank)), c)

    def axis(self, x) -> int:
        return int(self.rng.integers(-x.ndim, x.ndim))

    def axes(self, x):
        """Return an axis, several, or None."""
        some = tuple(i for i in range(x.ndim) if self.chance())
        return self.pick(None, some, self.axis(x) if x.ndim else None)

    # --- arrays ------------------------------------------------------------------

    def array(self, *shape: int, dtype=None, whole=False, low=None, high=None):
        """Return a tensor over an array with a random layout.

        With ``low`` and ``high``, the numbers are between these limits. With ``whole``,
        they are integers, so that some are equal.
        """
        dtype = np.dtype(dtype or self.dtype)
        x = self.rng.normal(size=shape) * 2.0
        if low is not None:
            x = low + (high - low) * self.rng.random(shape)
        elif dtype.kind in "iu":
            x = np.abs(x) * 10 if dtype.kind == "u" else x * 10
        x = np.asarray(np.round(x) if whole else x)
        if self.special and dtype.kind == "f" and low is None and x.size:
            x.flat[self.rng.integers(0, x.size, 1 + x.size // 8)] = self.pick(*SPECIAL)
        with np.errstate(over="ignore"):
            x = x > 0.5 if dtype.kind == "b" else x.astype(dtype)
        layout = "C" if self.min_elements and self.chance() else self.pick(*LAYOUTS)
        y = getattr(self, f"_{layout.lower()}")(x)
        assert (y.shape, y.dtype) == (shape, dtype)
        return pg.asarray(y, copy=False)

    def like(self, x, **options):
        return self.array(*x.shape, **options)

    def indices(self, n: int, *shape: int):
        return pg.asarray(self.rng.integers(0, n, shape).astype(np.int32))

    def _c(self, x):
        return x

    def _permuted(self, x):
        axes = self.rng.permutation(x.ndim)
        return x.transpose(axes).copy().transpose(np.argsort(axes))

    def _reversed(self, x):
        reverse = tuple(slice(None, None, self.pick(1, -1)) for _ in x.shape)
        return x[reverse].copy()[reverse]

    def _strided(self, x):
        steps = tuple(slice(0, None, self.pick(1, 2, 3)) for _ in x.shape)
        shape = [n * s.step for n, s in zip(x.shape, steps, strict=True)]
        buffer = np.zeros(shape, x.dtype)
        buffer[steps] = x
        return buffer[steps]

    def _broadcast(self, x):
        first = tuple(slice(0, self.pick(1, n)) for n in x.shape)
        return np.broadcast_to(x[first], x.shape) if x.size else x

    def _shifted(self, x):
        start = self.up_to(15)
        return np.concatenate([np.zeros(start, x.dtype), x.ravel()])[start:].reshape(
            x.shape
        )

    def _far(self, x):
        """Return the array with a stride of 2**32 bytes along the first axis."""
        if x.ndim == 0 or not 0 < x.shape[0] <= 3:
            return x
        strides = (HUGE_STRIDE, *x[:1].strides[1:])
        y = np.ndarray(x.shape, x.dtype, address_space(), strides=strides)
        y[...] = x
        return y
