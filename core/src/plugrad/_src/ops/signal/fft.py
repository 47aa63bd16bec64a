"""Discrete Fourier transforms, public as ``plugrad.fft``. Kernels: ``FFT IFFT``.

The kernels transform the last axis of complex tensors; the ops move axes, pad and
scale. With ``w = e^(-2πi/n)`` the transform is ``y[k] = Σ_t x[t] · w^(kt)``, and its
inverse is ``x[t] = 1/n · Σ_k y[k] · w^(-kt)``.

Common to all ops: ``n`` (``s`` for several axes) is the size of the transform; the
input is cropped or padded with zeros at its end. ``norm`` determines which transform is
divided by n: the inverse one ("backward"), the forward one ("forward"), or both, by √n
("ortho"). float64 gives complex128, or float64 for a real result; other real dtypes
give complex64, or float32.

Contents: kernels; decompositions in real numbers; complex signals; real signals;
frequencies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, Unpack

import numpy as np

from plugrad import geometry
from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.ops.array import rearrange, slicing
from plugrad._src.ops.basis import _convert, binary, complexes, shape, unary
from plugrad._src.ops.basis.complexes import Pair
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import (
    Ints,
    choice,
    finite,
    integer,
    integers,
    misfit,
    sizes,
)
from plugrad._src.tensor.dtypes import FLOAT32, canonical, dtype_kind
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Norm = Literal["backward", "ortho", "forward"]
Numbers = np.ndarray[Any, Any]
MAX_DIRECT_SIZE = 64  # up to this axis size, a matrix product is cheapest

# --- kernels ---------------------------------------------------------------------


def _fft_spec(op: str, input: Spec) -> Spec:
    if not input.shape or not input.shape[-1]:
        raise misfit(op, "the kernel needs a last axis of size 1 or more", input)
    return input


FFT = Kernel(
    "FFT(input: complexfloating)",
    out=functools.partial(_fft_spec, "fft"),
    op="fft.fft",
    doc="""``y[..., k] = Σ input[..., t] · e^(-2πi kt/n)``, where n is the size of the
    last axis.

    If a row contains NaN or an infinity, no element of its result is finite; which
    parts are infinite and which are NaN is unspecified. A row of one element is
    returned unchanged.""",
)


@decomposition(FFT)
def _(input: Tensor) -> Tensor:
    z = _reshaped(complexes.parts(input), math.prod(input.shape[:-1]), input.shape[-1])
    return run(complexes.COMPLEX, *_reshaped(_dft(z), *input.shape))


gradients(FFT, input=lambda dy: run(IFFT, dy) * dy.shape[-1])


IFFT: Kernel = Kernel(
    "IFFT(input: complexfloating)",
    out=functools.partial(_fft_spec, "ifft"),
    op="fft.ifft",
    doc="""``y[..., t] = 1/n · Σ input[..., k] · e^(2πi kt/n)``; all else as in
    ``FFT``.""",
)


@decomposition(IFFT)  # FFT with real and imaginary parts swapped, before and after
def _(input: Tensor) -> Tensor:
    re, im = complexes.parts(input)
    im, re = complexes.parts(run(FFT, run(complexes.COMPLEX, im, re)))
    return run(complexes.COMPLEX, re / input.shape[-1], im / input.shape[-1])


gradients(IFFT, input=lambda dy: run(FFT, dy) * (1 / dy.shape[-1]))


# --- decompositions in real numbers ----------------------------------------------


def _dft(z: Pair) -> Pair:
    """Transform the last axis of both parts, ``[batch, n]``.

    A single element is returned unchanged. Small sizes are transformed by a matrix
    product. Other sizes ``n = f·m`` use the Cooley-Tukey algorithm with t = f·t' + t″
    and k = m·k' + k″: transform t' to k″, multiply by w^(t″k″), transform t″ to k'.
    """
    batch, n = z[0].shape
    if n <= MAX_DIRECT_SIZE:
        return z if n == 1 else _times(z, _upload(_roots(n, n, n), z), products.matmul)
    factors = [f for f in range(2, MAX_DIRECT_SIZE + 1) if n % f == 0]
    if not factors:
        return _bluestein(z)
    f = min(factors, key=lambda f: f + n // f)
    m = n // f
    z = _reshaped(z, batch, m, f)
    z = _map_parts(z, lambda v: run(shape.TRANSPOSE, v, axes=(0, 2, 1)))
    z = _reshaped(_dft(_reshaped(z, batch * f, m)), batch, f, m)
    z = _times(z, _upload(_roots(f, m, n), z), binary.multiply)
    z = _times(_upload(_roots(f, f, f), z), z, products.matmul)
    return _reshaped(z, batch, n)


def _bluestein(z: Pair) -> Pair:
    """Transform an axis whose size has no small factor.

    Bluestein's algorithm: 2kt = k² + t² - (k-t)² turns the transform into a
    convolution, which is computed by transforms whose size is a power of two.
    """
    n = z[0].shape[1]
    chirp, spectrum = (_upload(numbers, z) for numbers in _chirps(n))
    size = spectrum[0].shape[0]
    z = _times(z, chirp, binary.multiply)
    z = _map_parts(z, lambda v: slicing.pad(v, [(0, 0), (0, size - n)]))
    re, im = _times(_dft(z), spectrum, binary.multiply)
    im, re = _dft((im, re))  # the inverse, as in the decomposition of IFFT
    z = _map_parts((re, im), lambda v: slicing.along(v, 1, 0, n))
    return _times(z, chirp, binary.multiply)


def _map_parts(z: Pair, f: Callable[[Tensor], Tensor]) -> Pair:
    return f(z[0]), f(z[1])


def _reshaped(z: Pair, *sizes: int) -> Pair:
    return _map_parts(z, lambda v: run(shape.RESHAPE, v, shape=sizes))


def _times(a: Pair, b: Pair, product: Callable[[Tensor, Tensor], Tensor]) -> Pair:
    re = product(a[0], b[0]) - product(a[1], b[1])
    return re, product(a[0], b[1]) + product(a[1], b[0])


def _upload(numbers: Numbers, z: Pair) -> Pair:
    """Return the real and imaginary parts of constants in the dtype of ``z``."""
    re, im = (part.astype(z[0].dtype) for part in (numbers.real, numbers.imag))
    return _convert.tensor_of(re, copy=False), _convert.tensor_of(im, copy=False)


@functools.lru_cache(maxsize=64)
def _roots(rows: int, columns: int, n: int) -> Numbers:
    """Return ``e^(-2πi · row · column / n)``."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % n
    return np.exp(-2j * np.pi / n * turns)


@functools.lru_cache(maxsize=16)
def _chirps(n: int) -> tuple[Numbers, Numbers]:
    """Return ``c = e^(-πi t²/n)``, and the transform of conj(c) divided by its size."""
    chirp = np.exp(-1j * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    size = 1 << (2 * n - 2).bit_length()
    back = chirp.conj()
    ring = np.concatenate([back, np.zeros(size - 2 * n + 1), back[:0:-1]])
    return chirp, np.fft.fft(ring) / size


# --- complex signals -------------------------------------------------------------

Axes = Ints | None
Steps = list[tuple[int, int]]  # axes, counted from 0, and the sizes of their transforms


def fft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the discrete Fourier transform ``y[k] = Σ x[t] · e^(-2πi kt/n)``.

    The transform is along one axis.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        n: The size of the transform: ``x`` is cropped or padded with zeros at its end.
            By default the size of the axis.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n`` along the axis: complex128 for float64 and complex128,
        complex64 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.fft([1.0, 2.0, 3.0, 4.0])
        Tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(fft, unknown)
    return _transformed("fft", FFT, x, n, axis, norm)


def ifft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the inverse transform ``y[t] = 1/n · Σ x[k] · e^(2πi kt/n)``.

    It is the inverse of ``fft`` with the same ``norm``.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        n: The size of the transform: ``x`` is cropped or padded with zeros at its end.
            By default the size of the axis.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n`` along the axis: complex128 for float64 and complex128,
        complex64 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.real(pg.fft.ifft(pg.fft.fft([1.0, 2.0, 4.0, 8.0])))
        Tensor([1., 2., 4., 8.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ifft, unknown)
    return _transformed("ifft", IFFT, x, n, axis, norm)


def fftn(
    x: TensorLike,
    /,
    *,
    s: Axes = None,
    axes: Axes = None,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the discrete Fourier transform along several axes.

    It applies ``fft`` along one axis after the other.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        s: The size of the transform along each of ``axes``: ``x`` is cropped or padded
            with zeros. -1 stands for the size of the axis.
        axes: The axes to transform; by default all; required with ``s``.
        norm: Which transform is divided by the product of all sizes: the inverse one
            ("backward"), the forward one ("forward"), or both, by its square root
            ("ortho").

    Returns:
        A tensor with the sizes ``s``: complex128 for float64 and complex128, complex64
        for all other dtypes.

    Raises:
        ValueError: A size is not positive, ``s`` and ``axes`` differ in length, an axis
            is repeated or out of range, or ``norm`` is unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.fftn([[1.0, 2.0], [3.0, 4.0]])
        Tensor([[10.+0.j, -2.+0.j],
                [-4.+0.j,  0.+0.j]], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(fftn, unknown)
    return _transformed("fftn", FFT, x, s, axes, norm)


def ifftn(
    x: TensorLike,
    /,
    *,
    s: Axes = None,
    axes: Axes = None,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the inverse of the transform along several axes.

    It is the inverse of ``fftn`` with the same arguments.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        s: The size of the transform along each of ``axes``: ``x`` is cropped or padded
            with zeros. -1 stands for the size of the axis.
        axes: The axes to transform; by default all; required with ``s``.
        norm: Which transform is divided by the product of all sizes: the inverse one
            ("backward"), the forward one ("forward"), or both, by its square root
            ("ortho").

    Returns:
        A tensor with the sizes ``s``: complex128 for float64 and complex128, complex64
        for all other dtypes.

    Raises:
        ValueError: A size is not positive, ``s`` and ``axes`` differ in length, an axis
            is repeated or out of range, or ``norm`` is unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.ifftn([[10.0, -2.0], [-4.0, 0.0]])
        Tensor([[1.+0.j, 2.+0.j],
                [3.+0.j, 4.+0.j]], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ifftn, unknown)
    return _transformed("ifftn", IFFT, x, s, axes, norm)


def _transformed(
    op: str, kernel: Kernel, x: TensorLike, s: Axes, axes: Axes, norm: Norm
) -> Tensor:
    x = complexes.as_complex(_convert.floating(op, x))
    steps = _steps(op, x.shape, s, axes, half=False)
    return _scaled(op, _along(kernel, x, steps), norm, steps, kernel is IFFT)


def _steps(op: str, dims: geometry.Shape, s: Axes, axes: Axes, half: bool) -> Steps:
    """Return axes and sizes; with ``half``, the last axis is half of a spectrum."""
    rank, name = len(dims), "n" if isinstance(axes, int | np.integer) else "s"
    if axes is None and s is not None:
        raise ValueError(f"{op}: s {s} needs axes; give one for each size")
    given = tuple(range(rank)) if axes is None else integers(op, "axes", axes)
    geometry.axes(op, given, rank)
    order = [axis % rank for axis in given]
    usual = [dims[axis] for axis in order]
    if half:
        usual[-1:] = [2 * (n - 1) for n in usual[-1:]]
    wanted = usual if s is None else list(integers(op, name, s))
    if len(wanted) != len(order):
        raise ValueError(f"{op}: s {s} and axes {axes} differ in length")
    if name == "s":
        wanted = [m if n == -1 else n for n, m in zip(wanted, usual, strict=True)]
    if min(wanted, default=1) < 1:
        raise misfit(op, f"the size {min(wanted)} is not positive; give {name}", dims)
    return list(zip(order, sizes(op, wanted, "the size of a transform"), strict=True))


def _along(kernel: Kernel, x: Tensor, steps: Steps) -> Tensor:
    """Crop or pad each axis, swap it with the last one, and transform it."""
    last = len(x.shape) - 1
    for axis, n in reversed(steps):
        x = _resized(x, axis, n)
        if axis == last:
            x = run(kernel, x)
            continue
        swap = (*range(axis), last, *range(axis + 1, last), axis)
        y = run(kernel, run(shape.TRANSPOSE, x, axes=swap))
        x = run(shape.TRANSPOSE, y, axes=swap)
    return x


def _resized(x: Tensor, axis: int, n: int, value: complex = 0) -> Tensor:
    """Return ``x`` with an axis cropped to size ``n``, or padded at its end."""
    size = x.shape[axis]
    if n <= size:
        return x if n == size else slicing.along(x, axis, 0, n)
    paddings = tuple([(0, n - size if i == axis else 0) for i in range(len(x.shape))])
    filler = slicing.constant("pad", value, x.dtype)
    return run(slicing.PAD_V2, x, paddings=paddings, constant_values=filler)


_SIZE_EXPONENTS = {"backward": 0.0, "ortho": 0.5, "forward": 1.0}
_INVERSE_NORM: dict[str, Norm] = {"backward": "forward", "forward": "backward"}


def _swapped(op: str, norm: Norm) -> Norm:
    return _INVERSE_NORM.get(choice(op, "norm", norm, *_SIZE_EXPONENTS), norm)


def _scaled(op: str, y: Tensor, norm: Norm, steps: Steps, inverse: bool) -> Tensor:
    power = _SIZE_EXPONENTS[choice(op, "norm", norm, *_SIZE_EXPONENTS)]
    count = math.prod([n for _, n in steps])
    return unary.times_real(y, count ** (power if inverse else -power)) if power else y


# --- real signals ----------------------------------------------------------------


def rfft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the first ``n // 2 + 1`` elements of the transform of real numbers.

    The other elements are their conjugates in reverse order.

    Args:
        x: A tensor of real numbers; integers and bool become float32.
        n: The size of the transform: ``x`` is cropped or padded with zeros at its end.
            By default the size of the axis.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n // 2 + 1`` along the axis: complex128 for float64,
        complex64 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` is complex or contains strings.

    Example:
        >>> pg.fft.rfft([1.0, 2.0, 3.0, 4.0])
        Tensor([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(rfft, unknown)
    return _halved("rfft", x, n, axis, norm)


def irfft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the ``n`` real numbers whose transform begins with ``x``.

    It is the inverse of ``rfft``. Only the real parts of the first element and of
    element n/2 are used.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        n: The size of the result; by default ``2·(m - 1)``, where m is the size of the
            axis. Pass ``n`` if the size is odd.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n`` along the axis: float64 for float64 and complex128,
        float32 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.irfft(pg.fft.rfft([1.0, 2.0, 4.0, 8.0]))
        Tensor([1., 2., 4., 8.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(irfft, unknown)
    return _doubled("irfft", x, n, axis, norm)


def rfftn(
    x: TensorLike,
    /,
    *,
    s: Axes = None,
    axes: Axes = None,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the transform of real numbers along several axes.

    The last of ``axes`` has only the first ``n // 2 + 1`` elements, as in ``rfft``.

    Args:
        x: A tensor of real numbers; integers and bool become float32.
        s: The size of the transform along each of ``axes``: ``x`` is cropped or padded
            with zeros. -1 stands for the size of the axis.
        axes: The axes to transform; by default all; required with ``s``.
        norm: Which transform is divided by the product of all sizes: the inverse one
            ("backward"), the forward one ("forward"), or both, by its square root
            ("ortho").

    Returns:
        A tensor: complex128 for float64, complex64 for all other dtypes.

    Raises:
        ValueError: A size is not positive, ``s`` and ``axes`` differ in length, an axis
            is repeated or out of range, or ``norm`` is unknown.
        TypeError: ``x`` is complex or contains strings.

    Example:
        >>> pg.fft.rfftn([[1.0, 2.0], [3.0, 4.0]])
        Tensor([[10.+0.j, -2.+0.j],
                [-4.+0.j,  0.+0.j]], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(rfftn, unknown)
    return _halved("rfftn", x, s, axes, norm)


def irfftn(
    x: TensorLike,
    /,
    *,
    s: Axes = None,
    axes: Axes = None,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the real numbers whose transform along several axes is ``x``.

    It is the inverse of ``rfftn``. Along the last of ``axes``, ``x`` has only the first
    half of the spectrum, as in ``irfft``.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        s: The size of the transform along each of ``axes``: ``x`` is cropped or padded
            with zeros. -1 stands for the size of the axis. By default the last size is
            ``2·(m - 1)``, where m is the size of the axis; pass ``s`` if the last size
            is odd.
        axes: The axes to transform; by default all; required with ``s``.
        norm: Which transform is divided by the product of all sizes: the inverse one
            ("backward"), the forward one ("forward"), or both, by its square root
            ("ortho").

    Returns:
        A tensor with the sizes ``s``: float64 for float64 and complex128, float32 for
        all other dtypes.

    Raises:
        ValueError: A size is not positive, ``s`` and ``axes`` differ in length, an axis
            is repeated or out of range, or ``norm`` is unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.irfftn(pg.fft.rfftn([[1.0, 2.0], [3.0, 4.0]]))
        Tensor([[1., 2.],
                [3., 4.]], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(irfftn, unknown)
    return _doubled("irfftn", x, s, axes, norm)


def hfft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the real transform of a Hermitian signal whose first half is ``x``.

    In the signal, ``x[n-t] = conj(x[t])``.

    Args:
        x: A tensor of numbers; integers and bool become float32.
        n: The size of the result; by default ``2·(m - 1)``, where m is the size of the
            axis. Pass ``n`` if the size is odd.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n`` along the axis: float64 for float64 and complex128,
        float32 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.fft.hfft([1.0, 2.0, 3.0])
        Tensor([ 8., -2.,  0., -2.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(hfft, unknown)
    return _doubled("hfft", complexes.conj(x), n, axis, _swapped("hfft", norm))


def ihfft(
    x: TensorLike,
    /,
    *,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the first ``n // 2 + 1`` elements of a real signal's inverse transform.

    It is the inverse of ``hfft``.

    Args:
        x: A tensor of real numbers; integers and bool become float32.
        n: The size of the transform: ``x`` is cropped or padded with zeros at its end.
            By default the size of the axis.
        axis: The axis to transform.
        norm: Which transform is divided by n: the inverse one ("backward"), the forward
            one ("forward"), or both, by √n ("ortho").

    Returns:
        A tensor with size ``n // 2 + 1`` along the axis: complex128 for float64,
        complex64 for all other dtypes.

    Raises:
        ValueError: ``n`` is not positive, the axis is out of range, or ``norm`` is
            unknown.
        TypeError: ``x`` is complex or contains strings.

    Example:
        >>> pg.real(pg.fft.ihfft(pg.fft.hfft([1.0, 2.0, 3.0])))
        Tensor([1., 2., 3.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ihfft, unknown)
    return complexes.conj(_halved("ihfft", x, n, axis, _swapped("ihfft", norm)))


def _real(op: str, x: TensorLike) -> Tensor:
    """Return ``x`` as a real floating tensor; raise if it is complex."""
    x = _convert.asarray(x)
    if dtype_kind(x.dtype) == "c":
        raise TypeError(f"{op}: takes real numbers, got {x.dtype}; use real or abs")
    return _convert.floating(op, x)


def _halved(op: str, x: TensorLike, s: Axes, axes: Axes, norm: Norm) -> Tensor:
    x = complexes.as_complex(_real(op, x))
    steps = _steps(op, x.shape, s, axes, half=False)
    axis, n = _last_step(op, steps)
    y = slicing.along(_along(FFT, x, steps[-1:]), axis, 0, n // 2 + 1)
    return _scaled(op, _along(FFT, y, steps[:-1]), norm, steps, False)


def _doubled(op: str, x: TensorLike, s: Axes, axes: Axes, norm: Norm) -> Tensor:
    """Return the real inverse transform of the first half of a spectrum.

    Elements with a conjugate in the second half count twice.
    """
    x = complexes.as_complex(_convert.floating(op, x))
    steps = _steps(op, x.shape, s, axes, half=True)
    axis, n = _last_step(op, steps)
    x = _resized(_along(IFFT, x, steps[:-1]), axis, n // 2 + 1)
    weights = np.full(n // 2 + 1, 2, x.dtype)
    weights[0] = weights[n - n // 2 :] = 1
    weights = weights.reshape([-1 if i == axis else 1 for i in range(len(x.shape))])
    y = _along(IFFT, x * _convert.tensor_of(weights, copy=False), steps[-1:])
    return _scaled(op, run(complexes.REAL, y), norm, steps, True)


def _last_step(op: str, steps: Steps) -> tuple[int, int]:
    if not steps:
        raise ValueError(f"{op}: there is no axis to transform; axes must name one")
    return steps[-1]


# --- frequencies -----------------------------------------------------------------


def fftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the frequencies of the elements of ``fft``.

    They are ``k / (n·d)``, where k is negative from the middle on. They are in cycles
    per unit of ``d``.

    Args:
        n: The size of the transform.
        d: The spacing of the samples.
        dtype: A real floating dtype; float32 by default.
        device: The backend on which to create the tensor; by default the active one.

    Returns:
        A tensor ``[n]`` of the given dtype.

    Raises:
        ValueError: ``n`` is less than 1, or ``d`` is 0 or not finite.
        TypeError: The dtype is not a real floating dtype, or the backend lacks it.

    Example:
        >>> pg.fft.fftfreq(4, d=0.5)
        Tensor([ 0. ,  0.5, -1. , -0.5], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(fftfreq, unknown)
    if device is not None:
        return _convert.call_on_device(device, fftfreq, n, d=d, dtype=dtype)
    return _frequencies("fftfreq", n, d, dtype, False)


def rfftfreq(
    n: int,
    /,
    *,
    d: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the frequencies of the elements of ``rfft``.

    They are the ``n // 2 + 1`` non-negative numbers ``k / (n·d)``, for k from 0.

    Args:
        n: The size of the transform.
        d: The spacing of the samples.
        dtype: A real floating dtype; float32 by default.
        device: The backend on which to create the tensor; by default the active one.

    Returns:
        A tensor ``[n // 2 + 1]`` of the given dtype.

    Raises:
        ValueError: ``n`` is less than 1, or ``d`` is 0 or not finite.
        TypeError: The dtype is not a real floating dtype, or the backend lacks it.

    Example:
        >>> pg.fft.rfftfreq(4, d=0.5)
        Tensor([0. , 0.5, 1. ], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(rfftfreq, unknown)
    if device is not None:
        return _convert.call_on_device(device, rfftfreq, n, d=d, dtype=dtype)
    return _frequencies("rfftfreq", n, d, dtype, True)


def _frequencies(op: str, n: int, d: float, dtype: Any, half: bool) -> Tensor:
    size, step = integer(op, "n", n, 1), finite(op, "d", d)
    if not step:
        raise ValueError(f"{op}: d {d} must not be 0")
    middle, indices = size // 2, np.arange(size)
    indices = indices[: middle + 1] if half else (indices + middle) % size - middle
    return _floats(op, indices / (size * step), dtype)


def _floats(op: str, values: Numbers, dtype: Any) -> Tensor:
    """Return values as a tensor, float32 by default."""
    wanted = require_dtype(op, FLOAT32 if dtype is None else canonical(dtype))
    if dtype_kind(wanted) != "f":
        raise TypeError(f"{op}: dtype must be real floating, got {wanted}")
    return _convert.tensor_of(values.astype(wanted), copy=False)


def fftshift(x: TensorLike, /, axes: Axes = None, **unknown: Unpack[Nothing]) -> Tensor:
    """Return ``x`` rolled so that frequency 0 is in the middle, at index ``n // 2``.

    Args:
        x: A tensor of any dtype.
        axes: The axes to roll; by default all.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: An axis is repeated or out of range.

    Example:
        >>> pg.fft.fftshift(pg.fft.fftfreq(4))
        Tensor([-0.5 , -0.25,  0.  ,  0.25], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(fftshift, unknown)
    return _rolled("fftshift", x, axes, 1)


def ifftshift(
    x: TensorLike, /, axes: Axes = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return ``x`` rolled so that frequency 0 is first: the inverse of ``fftshift``.

    Args:
        x: A tensor of any dtype.
        axes: The axes to roll; by default all.

    Returns:
        A tensor of the shape and dtype of ``x``.

    Raises:
        ValueError: An axis is repeated or out of range.

    Example:
        >>> pg.fft.ifftshift([-0.5, -0.25, 0.0, 0.25])
        Tensor([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    if unknown:
        raise unexpected(ifftshift, unknown)
    return _rolled("ifftshift", x, axes, -1)


def _rolled(op: str, x: TensorLike, axes: Axes, sign: int) -> Tensor:
    x = _convert.asarray(x)
    found = geometry.axes(op, axes, len(x.shape))
    return rearrange.roll(x, [x.shape[i] // 2 * sign for i in found], axis=found)
