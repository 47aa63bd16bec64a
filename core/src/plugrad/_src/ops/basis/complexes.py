"""Complex numbers and their parts. Kernels: ``Complex ComplexAbs Imag Real``.

Cotangents of complex numbers are defined by the inner product Re(conj(a)·b), so that a
step along ``-dz`` decreases a real function of z. Gradients of real inputs are real,
and a function with the complex derivative f' has the gradient ``dy · conj(f')``.
``abs`` is in ``unary``.
"""

from __future__ import annotations

from plugrad import geometry
from plugrad._src.engine.dispatch import require_dtype, run
from plugrad._src.registry.contract import (
    Kernel,
    Spec,
    decomposition,
    gradients,
    one_shape,
)
from plugrad._src.tensor.dtypes import COMPLEX64, DTYPES, FLOAT32, dtype_kind
from plugrad._src.tensor.tensor import Tensor, TensorLike

from . import _convert, binary, compare, creation, shape, unary

__all__ = ["angle", "complex", "conj", "imag", "real"]

# The real dtype of each complex dtype, and the reverse.
REAL_DTYPES = {COMPLEX64: FLOAT32, DTYPES["complex128"]: DTYPES["float64"]}
COMPLEX_DTYPES = {part: whole for whole, part in REAL_DTYPES.items()}


def _complex_spec(real: Spec, imag: Spec) -> Spec:
    return Spec(one_shape(real, imag).shape, COMPLEX_DTYPES[real.dtype])


COMPLEX = Kernel(
    "Complex(real: float32 | float64, imag: real)",
    out=_complex_spec,
    op="complex",
    doc="""``real + i · imag``: complex64 for float32 parts, complex128 for float64.

    The shapes are equal. Both parts are copied: a signed zero, NaN or infinity in one
    does not change the other.""",
)


def complex(real: TensorLike, imag: TensorLike, /) -> Tensor:
    """Return the complex number ``real + i·imag`` for each pair of elements.

    The parts are copied: a signed zero, NaN or infinity in one does not change the
    other.

    Args:
        real: A tensor of real numbers or bool.
        imag: A tensor of real numbers or bool; the shapes broadcast.

    Returns:
        A tensor of the broadcast shape: complex128 if the promoted dtype is float64,
        complex64 otherwise.

    Raises:
        TypeError: A part is complex or contains strings, or the backend lacks the
            complex dtype.
        ValueError: The shapes do not broadcast.

    Example:
        >>> pg.complex([1.0, 2.0], [0.5, -1.0])
        Tensor([1.+0.5j, 2.-1.j ], dtype=complex64, backend='cpu')

    Source:
        The semantics are those of ``tf.complex`` in TensorFlow.js.

    """
    parts = _convert.promote_and_broadcast("complex", real, imag)
    a, b = (_convert.numbers("complex", x) for x in parts)
    if dtype_kind(a.dtype) == "c":
        raise TypeError(f"complex: the parts must be real, got {a.dtype}; take real(x)")
    if a.dtype not in COMPLEX_DTYPES:
        a = creation.cast(a, FLOAT32)
        b = creation.cast(b, FLOAT32)
    require_dtype("complex", COMPLEX_DTYPES[a.dtype])
    if a.shape != b.shape:
        sizes = geometry.broadcast("complex", a.shape, b.shape)
        a, b = (run(shape.BROADCAST_TO, x, shape=sizes) for x in (a, b))
    return run(COMPLEX, a, b)


gradients(COMPLEX, real=lambda dy: run(REAL, dy), imag=lambda dy: run(IMAG, dy))


def as_complex(x: Tensor) -> Tensor:
    """Return a floating tensor as a complex one; float16 becomes complex64."""
    if dtype_kind(x.dtype) == "c":
        return x
    return creation.cast(x, COMPLEX_DTYPES.get(x.dtype, COMPLEX64))


Pair = tuple[Tensor, Tensor]  # real and imaginary parts


def parts(z: Tensor) -> Pair:
    """Return the real and the imaginary parts of a complex tensor."""
    return run(REAL, z), run(IMAG, z)


def _part_spec(x: Spec) -> Spec:
    return Spec(x.shape, REAL_DTYPES[x.dtype])


REAL: Kernel = Kernel(
    "Real(input: complexfloating)",
    out=_part_spec,
    op="real",
    doc="The real part: float32 for complex64, float64 for complex128.",
)


def real(x: TensorLike, /) -> Tensor:
    """Return the real part of each element.

    Args:
        x: A tensor of numbers or bool.

    Returns:
        A tensor with the shape of ``x``: float32 for complex64, float64 for complex128.
        Other dtypes do not change.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.real(pg.complex([1.0, 2.0], [0.5, -1.0]))
        Tensor([1., 2.], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.numbers("real", x)
    return run(REAL, x) if dtype_kind(x.dtype) == "c" else creation.identity(x)


def real_part(x: Tensor) -> Tensor:
    """Return the real part of ``x``; ``x`` itself if its dtype is real."""
    return run(REAL, x) if dtype_kind(x.dtype) == "c" else x


gradients(REAL, input=lambda dy, input_spec: creation.cast(dy, input_spec.dtype))


IMAG: Kernel = Kernel(
    "Imag(input: complexfloating)",
    out=_part_spec,
    op="imag",
    doc="The imaginary part: float32 for complex64, float64 for complex128.",
)


def imag(x: TensorLike, /) -> Tensor:
    """Return the imaginary part of each element.

    Args:
        x: A tensor of numbers or bool.

    Returns:
        A tensor with the shape of ``x``: float32 for complex64, float64 for complex128.
        For other dtypes, zeros with the dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.imag(pg.complex([1.0, 2.0], [0.5, -1.0]))
        Tensor([ 0.5, -1. ], dtype=float32, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.numbers("imag", x)
    return run(IMAG, x) if dtype_kind(x.dtype) == "c" else creation.zeros_like(x)


gradients(IMAG, input=lambda dy: run(COMPLEX, creation.zeros_like(dy), dy))


def conj(x: TensorLike, /) -> Tensor:
    """Return the complex conjugate, ``Re x - i·Im x``, of each element.

    Args:
        x: A tensor of numbers or bool.

    Returns:
        A tensor with the shape and dtype of ``x``.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.conj(pg.complex([1.0, 2.0], [0.5, -1.0]))
        Tensor([1.-0.5j, 2.+1.j ], dtype=complex64, backend='cpu')

    Source:
        The array API standard.

    """
    x = _convert.numbers("conj", x)
    return conjugate(x) if dtype_kind(x.dtype) == "c" else creation.identity(x)


def conjugate(x: Tensor) -> Tensor:
    """Return the conjugate of ``x``; ``x`` itself if its dtype is real."""
    if dtype_kind(x.dtype) != "c":
        return x
    return run(COMPLEX, run(REAL, x), run(unary.NEG, run(IMAG, x)))


def angle(x: TensorLike, /) -> Tensor:
    """Return the angle of each number in the complex plane, in radians in [-π, π].

    The angle is ``atan2(imag(x), real(x))``, the imaginary part of ``log(x)``. A zero
    whose real part is -0.0 has the angle π, or -π if its imaginary part is also -0.0.
    The derivative at 0 is 0. Real numbers have the angle 0 or π.

    Args:
        x: A tensor of numbers or bool.

    Returns:
        A tensor with the shape of ``x``. Complex numbers give the dtype of their parts,
        integers and bool give float32, and floating-point numbers keep their dtype.

    Raises:
        TypeError: ``x`` contains strings.

    Example:
        >>> pg.angle(pg.complex([1.0, 0.0], [1.0, -2.0]))
        Tensor([ 0.7854, -1.5708], dtype=float32, backend='cpu')
        >>> pg.angle([2.0, -2.0])
        Tensor([0.    , 3.1416], dtype=float32, backend='cpu')

    """
    x = _convert.floating("angle", x)
    return binary.atan2(imag(x), real(x))


COMPLEX_ABS = Kernel(
    "ComplexAbs(x: complexfloating)",
    out=_part_spec,
    op="abs",
    doc="""``√(Re² + Im²)``, a real number, without overflow of the squares.

    Infinite where a part is infinite, even if the other one is NaN; else NaN where a
    part is NaN.""",
)


decomposition(COMPLEX_ABS, lambda x: binary.hypot(run(REAL, x), run(IMAG, x)))


# One kernel in place of the gradients of the decomposition; ``Sign`` is 0 at 0.
gradients(COMPLEX_ABS, x=lambda dy, x: dy * run(unary.SIGN, x))


def direction(x: Tensor, /) -> Tensor:
    """Return ``x / |x|`` for complex numbers, and 0 for 0, as ``Sign`` does."""
    u, v, _ = binary._scaled(run(REAL, x), run(IMAG, x))
    size = unary.sqrt(u * u + v * v)
    return compare.where(compare.equal(size, 0), 0, run(COMPLEX, u / size, v / size))
