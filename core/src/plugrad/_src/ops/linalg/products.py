"""Products of vectors and matrices, and their diagonals.

Kernels: ``BatchMatMul MatMulInteger MixedMatMul``.

``matmul matrix_transpose tensordot vecdot`` are public at the top level, where the
array API standard has them; all other ops are public in ``linalg``.

Contents: products; parts and transposes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.array import slicing
from plugrad._src.ops.basis import _convert, complexes, creation, reduce, shape
from plugrad._src.ops.basis.variable import Variable
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import entries, flag, integer, integers, misfit
from plugrad._src.tensor.dtypes import (
    BFLOAT16,
    BOOL,
    FLOAT32,
    INT32,
    STRING,
    canonical,
    dtype_kind,
    named,
)
from plugrad._src.tensor.explained import explained
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Shape

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]

# --- products --------------------------------------------------------------------


def factors(op: str, a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor]:
    """Return ``a`` and ``b`` in their promoted dtype; bool becomes int32."""
    a = a.value if type(a) is Variable else a
    b = b.value if type(b) is Variable else b
    if not (type(a) is Tensor and type(b) is Tensor and a.dtype is b.dtype):
        a, b = _convert.promote_all(op, a, b)
    if a.dtype is BOOL:
        return creation.cast(a, INT32), creation.cast(b, INT32)
    if a.dtype is STRING:
        _convert.numbers(op, a)
    return a, b


def _matmul_spec(a: Spec, b: Spec, *, transpose_a: bool, transpose_b: bool) -> Spec:
    if min(len(a.shape), len(b.shape)) < 2:
        raise misfit("matmul", "the kernel needs matrices; reshape vectors", a, b)
    return Spec(_matmul_shapes(a.shape, b.shape, transpose_a, transpose_b)[2], a.dtype)


BATCH_MATMUL = Kernel(
    "BatchMatMul(a: number, b: a; transpose_a: bool, transpose_b: bool)",
    out=_matmul_spec,
    broadcasts=True,
    op="matmul",
    doc="""``y[..., i, j] = Σ a[..., i, k] · b[..., k, j]``; the first axes broadcast.

    With ``transpose_a``, ``a`` is ``[..., k, i]``; with ``transpose_b``, ``b`` is
    ``[..., j, k]``. Complex numbers are not conjugated. The sum of no elements is 0.
    Integers wrap. The order of summation is free; float16 is summed in float32.""",
)


def _integer_matmul_spec(
    a: Spec, b: Spec, *, transpose_a: bool, transpose_b: bool
) -> Spec:
    found = _matmul_spec(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return Spec(found.shape, INT32)


MAT_MUL_INTEGER = Kernel(
    "MatMulInteger(a: int8 | uint8, b: int8; transpose_a: bool, transpose_b: bool)",
    out=_integer_matmul_spec,
    op="matmul",
    doc="""``BatchMatMul`` of both inputs as int32; sums that overflow wrap.""",
)


@decomposition(MAT_MUL_INTEGER)
def _(a: Tensor, b: Tensor, *, transpose_a: bool, transpose_b: bool) -> Tensor:
    a = creation.cast(a, INT32)
    b = creation.cast(b, INT32)
    return run(BATCH_MATMUL, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _mixed_spec(a: Spec, b: Spec, *, transpose_a: bool, transpose_b: bool) -> Spec:
    found = _matmul_spec(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return Spec(found.shape, FLOAT32)


MIXED_MATMUL = Kernel(
    "MixedMatMul(a: float32 | bfloat16, b: bfloat16;"
    " transpose_a: bool, transpose_b: bool)",
    out=_mixed_spec,
    op="matmul",
    doc="""``BatchMatMul`` of ``a`` and ``b`` as float32.

    A backend can read ``b``, such as weights that are stored in 16 bits, without a copy
    in float32.""",
)


@decomposition(MIXED_MATMUL)
def _(a: Tensor, b: Tensor, *, transpose_a: bool, transpose_b: bool) -> Tensor:
    a = creation.cast(a, FLOAT32)
    b = creation.cast(b, FLOAT32)
    return run(BATCH_MATMUL, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _factors_and_kernel(a: TensorLike, b: TensorLike) -> tuple[Tensor, Tensor, Kernel]:
    """Return both arguments, promoted unless a kernel reads a bfloat16 matrix ``b``."""
    a = a.value if type(a) is Variable else a
    b = b.value if type(b) is Variable else b
    if (
        type(b) is Tensor
        and b.dtype is BFLOAT16
        and len(b.shape) == 2
        and type(a) is Tensor
        and a.dtype is FLOAT32
    ):
        return a, b, MIXED_MATMUL
    return *factors("matmul", a, b), BATCH_MATMUL


def _convert_to_preferred(
    a: TensorLike, b: TensorLike, dtype: Any
) -> tuple[Tensor, Tensor, Kernel]:
    """Return both arguments, converted, and the kernel whose product has ``dtype``."""
    a = _convert.asarray(a)
    b = _convert.asarray(b)
    dtype = canonical(dtype)
    if dtype_kind(dtype) not in "iufc":
        rule = f"preferred_element_type must be a numeric dtype, got {named(dtype)}"
        raise TypeError(f"matmul: {rule}")
    names = a.dtype.name, b.dtype.name
    if dtype is INT32 and names in (("int8", "int8"), ("uint8", "int8")):
        return a, b, MAT_MUL_INTEGER
    if dtype is FLOAT32 and names == ("bfloat16", "bfloat16") and len(b.shape) == 2:
        return a, b, MIXED_MATMUL
    return creation.cast(a, dtype), creation.cast(b, dtype), BATCH_MATMUL


def matmul(
    a: TensorLike,
    b: TensorLike,
    /,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    preferred_element_type: Any = None,
) -> Tensor:
    """Return the matrix product, ``y[..., i, j] = Σ a[..., i, k] · b[..., k, j]``.

    A vector ``a`` is treated as a row and a vector ``b`` as a column, and the result
    lacks that axis. All axes before the last two broadcast. Integers wrap, and the sum
    of no elements is 0. The product of float32 with a bfloat16 matrix is float32; for
    up to 4 rows, cpu, wasm and opencl read the matrix without converting it in memory.

    Args:
        a: ``[..., i, k]`` or ``[k]``.
        b: ``[..., k, j]`` or ``[k]``.
        transpose_a: Whether ``a`` is ``[..., k, i]``.
        transpose_b: Whether ``b`` is ``[..., j, k]``.
        preferred_element_type: The dtype of the result, in which products are computed
            and summed. If it is int32, the product of int8 or uint8 with int8 uses the
            processor's int8 instructions; if it is float32, the product of bfloat16
            with a bfloat16 matrix uses its bfloat16 instructions.

    Returns:
        ``[..., i, j]``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: An argument is a scalar, or the shapes are incompatible.
        TypeError: No dtype can represent both arguments, one contains strings, or
            the backend lacks ``preferred_element_type``.

    Example:
        >>> pg.matmul([[1.0, 2.0], [3.0, 4.0]], [[1.0], [10.0]])
        Tensor([[21.],
                [43.]], dtype=float32, backend='cpu')
        >>> a = pg.asarray([[100, 100]], dtype="int8")
        >>> pg.matmul(a, a, transpose_b=True, preferred_element_type="int32")
        Tensor([[20000]], dtype=int32, backend='cpu')

    """
    if preferred_element_type is None:
        a, b, kernel = _factors_and_kernel(a, b)
    else:
        a, b, kernel = _convert_to_preferred(a, b, preferred_element_type)
    if transpose_a is not False or transpose_b is not False:
        transpose_a = flag("matmul", "transpose_a", transpose_a)
        transpose_b = flag("matmul", "transpose_b", transpose_b)
    plain = len(a.shape) == 2 == len(b.shape)
    if plain and a.shape[1 - transpose_a] == b.shape[transpose_b]:
        return run(kernel, a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    left, right, sizes = _matmul_shapes(a.shape, b.shape, transpose_a, transpose_b)
    a = shape.shaped(a, left)
    b = shape.shaped(b, right)
    y = run(kernel, a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return shape.shaped(y, sizes)


def _matmul_shapes(a: Shape, b: Shape, turn_a: bool, turn_b: bool) -> tuple[Shape, ...]:
    """Return the shapes to which ``a``, ``b`` and their product are reshaped.

    A batch of matrices times a single matrix becomes one product with a large matrix,
    and so does its gradient.
    """
    if not a or not b or (turn_a and len(a) == 1) or (turn_b and len(b) == 1):
        rule = "a scalar is not a matrix, use multiply; a vector cannot be transposed"
        raise misfit("matmul", rule, a, b)
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    inner = left[-1 - turn_a]
    other = right[-2 + turn_b]
    if inner != other:
        turned = " and ".join(["a"] * turn_a + ["b"] * turn_b)
        turned = f" ({turned} transposed)" if turned else ""
        rule = f"inner sizes {inner} and {other}{turned} must be equal"
        raise explained(misfit("matmul", rule, a, b), "inner-sizes-differ")
    batch = left[:-2]
    if len(right) > 2:
        batch = geometry.broadcast("matmul", batch, right[:-2])
    rows = () if len(a) == 1 else (left[-2 + turn_a],)
    columns = () if len(b) == 1 else (right[-1 - turn_b],)
    sizes = (*batch, *rows, *columns)
    if len(left) > 2 and len(right) == 2 and not turn_a:
        left = (math.prod(left[:-1]), left[-1])
    return left, right, sizes


def _gradient_a(dy: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    b = complexes.conjugate(b)
    if transpose_a:
        return run(BATCH_MATMUL, b, dy, transpose_a=transpose_b, transpose_b=True)
    return run(BATCH_MATMUL, dy, b, transpose_a=False, transpose_b=not transpose_b)


def _gradient_b(dy: Tensor, a: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    a = complexes.conjugate(a)
    if transpose_b:
        return run(BATCH_MATMUL, dy, a, transpose_a=True, transpose_b=transpose_a)
    return run(BATCH_MATMUL, a, dy, transpose_a=not transpose_a, transpose_b=False)


gradients(BATCH_MATMUL, a=_gradient_a, b=_gradient_b)


def _mixed_gradient_a(
    dy: Tensor, a_spec: Spec, b: Tensor, transpose_a: bool, transpose_b: bool
) -> Tensor:
    if transpose_a:
        b = creation.cast(b, FLOAT32)
        found = _gradient_a(dy, b, transpose_a, transpose_b)
    else:
        turned = not transpose_b
        found = run(MIXED_MATMUL, dy, b, transpose_a=False, transpose_b=turned)
    return creation.cast(found, a_spec.dtype)


def _mixed_gradient_b(
    dy: Tensor, a: Tensor, b_spec: Spec, transpose_a: bool, transpose_b: bool
) -> Tensor:
    a = creation.cast(a, FLOAT32)
    return creation.cast(_gradient_b(dy, a, transpose_a, transpose_b), b_spec.dtype)


gradients(MIXED_MATMUL, a=_mixed_gradient_a, b=_mixed_gradient_b)


def _vectors(
    op: str, a: TensorLike, b: TensorLike, axis: int
) -> tuple[Tensor, Tensor, int]:
    """Return ``a`` and ``b`` in one dtype, and the vector axis counted from the end."""
    a, b = factors(op, a, b)
    rank = min(len(a.shape), len(b.shape))
    axis = integer(op, "axis", axis)
    if axis >= 0 and len(a.shape) != len(b.shape):
        rule = f"axis {axis} is ambiguous where ranks differ; count from the end"
        raise misfit(op, rule, a, b)
    return a, b, geometry.axes(op, axis, rank)[0] - rank


def vecdot(
    a: TensorLike, b: TensorLike, /, *, axis: int = -1, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the inner products of vectors along ``axis``, ``Σ conj(a) · b``.

    The other axes broadcast.

    Args:
        a: A tensor of numbers, conjugated if it is complex.
        b: A tensor with the same size along ``axis``.
        axis: The axis of the vectors. If the ranks differ, it must be negative, and is
            then counted from the end.

    Returns:
        A tensor without ``axis``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: The sizes along ``axis`` differ, or the other axes do not broadcast.
        TypeError: No dtype can represent both arguments, or one contains strings.

    Example:
        >>> pg.vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0])
        Tensor([21., 43.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(vecdot, unknown)
    a, b, last_axis = _vectors("vecdot", a, b, axis)
    if a.shape[last_axis] != b.shape[last_axis]:
        raise misfit("vecdot", f"sizes along axis {axis} must be equal", a, b)
    y = complexes.conjugate(a) * b
    return run(reduce.SUM, y, axis=(len(y.shape) + last_axis,), keepdims=False)


Axes = int | tuple[Sequence[int], Sequence[int]]


def tensordot(
    a: TensorLike, b: TensorLike, /, axes: Axes = 2, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the sum of products over several axes at once.

    Args:
        a: A tensor of numbers.
        b: A tensor of numbers.
        axes: The axes to sum over, whose sizes must agree: an int n for the last n axes
            of ``a`` and the first n of ``b``; or two sequences, the axes of ``a`` and
            the matching axes of ``b``.

    Returns:
        A tensor with the remaining axes of ``a`` and then those of ``b``, of the
        promoted dtype; int32 for bool.

    Raises:
        ValueError: An axis is out of range, or the sizes or numbers of axes differ.
        TypeError: No dtype can represent both arguments, or one contains strings.

    Example:
        >>> pg.tensordot([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0], axes=1)
        Tensor([21., 43.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(tensordot, unknown)
    a, b = factors("tensordot", a, b)
    axes_a, axes_b = _contracted_axes(axes, len(a.shape), len(b.shape))
    sizes_a = [a.shape[i] for i in axes_a]
    sizes_b = [b.shape[i] for i in axes_b]
    if sizes_a != sizes_b:
        rule = f"sizes {sizes_a} and {sizes_b} of axes {axes} must be equal"
        raise misfit("tensordot", rule, a, b)
    rows = [i for i in range(len(a.shape)) if i not in axes_a]
    columns = [i for i in range(len(b.shape)) if i not in axes_b]
    left = [a.shape[i] for i in rows]
    right = [b.shape[i] for i in columns]
    m = math.prod(left)
    inner = math.prod(sizes_a)
    n = math.prod(right)
    a = run(shape.RESHAPE, shape.permute_dims(a, rows + axes_a), shape=(m, inner))
    b = run(shape.RESHAPE, shape.permute_dims(b, axes_b + columns), shape=(inner, n))
    y = run(BATCH_MATMUL, a, b, transpose_a=False, transpose_b=False)
    return run(shape.RESHAPE, y, shape=(*left, *right))


def _contracted_axes(axes: Any, rank: int, other: int) -> tuple[list[int], list[int]]:
    """Return the axes of both arguments, in the given order and non-negative."""
    given = entries(axes)
    if given is None:
        axes = integer("tensordot", "axes", axes)
        if not 0 <= axes <= min(rank, other):
            raise ValueError(
                f"tensordot: cannot contract {axes} axes of ranks {rank} and {other}"
            )
        return list(range(rank - axes, rank)), list(range(axes))
    given = [integers("tensordot", "axes", one) for one in given]
    if len(given) != 2 or len(given[0]) != len(given[1]):
        rule = "must be an int or two sequences of the same length"
        raise ValueError(f"tensordot: axes {axes} {rule}")
    for one, n in zip(given, (rank, other), strict=True):
        geometry.axes("tensordot", one, n)
    return [i % rank for i in given[0]], [i % other for i in given[1]]


def outer(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return all products of two vectors, ``y[i, j] = a[i] · b[j]``.

    Args:
        a: ``[m]``, numbers.
        b: ``[n]``, numbers.

    Returns:
        ``[m, n]``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: An argument is not a vector.
        TypeError: No dtype can represent both arguments, or one contains strings.

    Example:
        >>> pg.linalg.outer([1.0, 2.0], [3.0, 4.0])
        Tensor([[3., 4.],
                [6., 8.]], dtype=float32, backend='cpu')

    """
    a, b = factors("outer", a, b)
    if len(a.shape) != 1 or len(b.shape) != 1:
        raise misfit("outer", "takes vectors; reshape, or use tensordot(axes=0)", a, b)
    return run(shape.RESHAPE, a, shape=(*a.shape, 1)) * b


def kron(a: TensorLike, b: TensorLike, /) -> Tensor:
    """Return the Kronecker product: copies of ``b``, each times an element of ``a``.

    The tensor of lower rank gets leading axes of size 1.

    Args:
        a: A tensor of numbers.
        b: A tensor of numbers.

    Returns:
        A tensor of the promoted dtype; int32 for bool. Its size along each axis is the
        product of the sizes of ``a`` and ``b``.

    Raises:
        TypeError: No dtype can represent both arguments, or one contains strings.

    Example:
        >>> pg.linalg.kron([[1.0, 2.0]], [[1.0, 1.0], [0.0, 1.0]])
        Tensor([[1., 1., 2., 2.],
                [0., 1., 0., 2.]], dtype=float32, backend='cpu')

    """
    a, b = factors("kron", a, b)
    rank = max(len(a.shape), len(b.shape))
    left = [1] * (rank - len(a.shape)) + list(a.shape)
    right = [1] * (rank - len(b.shape)) + list(b.shape)
    coarse = tuple([size for n in left for size in (n, 1)])
    fine = tuple([size for n in right for size in (1, n)])
    a = run(shape.RESHAPE, a, shape=coarse)
    b = run(shape.RESHAPE, b, shape=fine)
    sizes = tuple([n * m for n, m in zip(left, right, strict=True)])
    return run(shape.RESHAPE, a * b, shape=sizes)


def cross(
    a: TensorLike, b: TensorLike, /, *, axis: int = -1, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the cross product ``a × b`` of vectors of size 3 along ``axis``.

    The other axes broadcast.

    Args:
        a: A tensor of numbers with size 3 along ``axis``.
        b: A tensor of numbers with size 3 along ``axis``.
        axis: The axis of the vectors. If the ranks differ, it must be negative, and is
            then counted from the end.

    Returns:
        A tensor of the broadcast shape and the promoted dtype; int32 for bool.

    Raises:
        ValueError: The size along ``axis`` is not 3, or the other axes do not
            broadcast.
        TypeError: No dtype can represent both arguments, or one contains strings.

    Example:
        >>> pg.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
        Tensor([0., 0., 1.], dtype=float32, backend='cpu')

    """
    if unknown:
        raise unexpected(cross, unknown)
    a, b, last_axis = _vectors("cross", a, b, axis)
    if not a.shape[last_axis] == b.shape[last_axis] == 3:
        raise misfit("cross", f"axis {axis} must have size 3", a, b)
    x, y, z = shape.split(a, [1, 1, 1], axis=last_axis)
    u, v, w = shape.split(b, [1, 1, 1], axis=last_axis)
    return shape.concat([y * w - z * v, z * u - x * w, x * v - y * u], axis=last_axis)


# --- parts and transposes --------------------------------------------------------


def as_matrices(op: str, x: TensorLike) -> Tensor:
    """Return ``x`` as a tensor; raise ValueError if it has fewer than two axes."""
    x = _convert.asarray(x)
    if len(x.shape) < 2:
        raise ValueError(f"{op}: expected matrices, got shape {x.shape}; reshape")
    return x


def matrix_transpose(x: TensorLike, /) -> Tensor:
    """Return each matrix transposed: ``y[..., i, j] = x[..., j, i]``.

    Complex numbers are not conjugated.

    Args:
        x: ``[..., i, j]``, of any dtype.

    Returns:
        ``[..., j, i]``, of the dtype of ``x``.

    Raises:
        ValueError: ``x`` has fewer than two axes.

    Example:
        >>> pg.matrix_transpose([[1, 2, 3], [4, 5, 6]])
        Tensor([[1, 4],
                [2, 5],
                [3, 6]], dtype=int32, backend='cpu')

    """
    x = as_matrices("matrix_transpose", x)
    *batch, row, column = range(len(x.shape))
    return shape.permute_dims(x, [*batch, column, row])


def diagonal(
    x: TensorLike, /, *, offset: int = 0, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the diagonal of each matrix, ``y[..., i] = x[..., i, i + offset]``.

    Args:
        x: ``[..., rows, columns]``, of any dtype.
        offset: 0 is the main diagonal; positive offsets are above it, negative offsets
            below. A diagonal outside the matrix has no elements.

    Returns:
        ``[..., size]``, of the dtype of ``x``.

    Raises:
        ValueError: ``x`` has fewer than two axes.

    Example:
        >>> pg.linalg.diagonal([[1, 2, 3], [4, 5, 6]], offset=1)
        Tensor([2, 6], dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(diagonal, unknown)
    x = as_matrices("diagonal", x)
    offset = integer("diagonal", "offset", offset)
    *batch, rows, columns = x.shape
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    start = (offset if offset >= 0 else -offset * columns) if size else 0
    flat = run(shape.RESHAPE, x, shape=(*batch, rows * columns))
    return slicing.along(flat, len(batch), start, size, columns + 1)


def trace(
    x: TensorLike, /, *, offset: int = 0, dtype: Any = None, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return the sum of the diagonal of each matrix, ``Σ x[..., i, i + offset]``.

    Args:
        x: ``[..., rows, columns]``, numbers.
        offset: The diagonal, as in ``diagonal``.
        dtype: The dtype in which to sum; by default as in ``sum``.

    Returns:
        ``[...]``, of the dtype that ``sum`` gives.

    Raises:
        ValueError: ``x`` has fewer than two axes.
        TypeError: ``x`` contains strings, or ``dtype`` is bool.

    Example:
        >>> pg.linalg.trace([[1, 2], [3, 4]])
        Tensor(5, dtype=int32, backend='cpu')

    """
    if unknown:
        raise unexpected(trace, unknown)
    x = diagonal(as_matrices("trace", x), offset=offset)
    return reduce.sum(x, axis=-1, dtype=dtype)
