"""Convolutions. Kernels: ``Conv2D Conv3D`` and the two transposes of each.

A convolution is linear in ``x`` and in ``filter``. Its two transposes are separate
kernels, so that a backend can implement each of them efficiently. The gradients of each
of the three are the other two, so derivatives of all orders work.
``geometry.convolution`` computes the windows once; kernels always see a batch axis and
channels last.

Contents: contracts in two and three dimensions; ops; gradients; decompositions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Unpack

from plugrad import geometry
from plugrad._src.engine.dispatch import run
from plugrad._src.ops.basis import complexes, shape
from plugrad._src.ops.linalg import products
from plugrad._src.registry.contract import Kernel, Spec, decomposition, gradients
from plugrad._src.tensor.arguments import Ints, choice, integers, misfit, sizes
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike
from plugrad.geometry import Padding, Rounding, Shape, Sizes

from . import _windows
from ._windows import Options

if TYPE_CHECKING:
    from plugrad.geometry import Windows

__all__ = [
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
]

# --- contracts -------------------------------------------------------------------


def forward_attributes(
    rule: Any, x: Spec, filter: Spec, *_: Any, **given: Any
) -> Options:
    """Canonicalize attributes of the op, such as strides and pad.

    ``rule`` is the ``geometry`` function that computes the windows.
    """
    return _windows.to_contract(given, rule, x.shape, filter.shape)


def backward_attributes(
    rule: Any, x: Spec, filter: Spec, dy: Spec, **given: Any
) -> Options:
    """Canonicalize attributes of a transpose; ``dy`` determines the output sizes."""
    return _windows.to_contract(given, rule, x.shape, filter.shape, dy=dy)


def _input_gradient_attributes(
    rule: Any, dy: Spec, filter: Spec, *, in_shape: Ints, **o: Any
) -> Options:
    x = Spec(sizes("run_kernel", in_shape, "in_shape"), dy.dtype)
    return backward_attributes(rule, x, filter, dy, **o)


def _filter_gradient_attributes(
    rule: Any, x: Spec, dy: Spec, *, filter_shape: Ints, **o: Any
) -> Options:
    filter = Spec(sizes("run_kernel", filter_shape, "filter_shape"), dy.dtype)
    return backward_attributes(rule, x, filter, dy, **o)


def rules(rule: Any, spatial: int, filter_shape: Callable[[Windows], Shape]) -> Any:
    """Return ``canonicalize`` and ``out`` of a convolution and its two transposes.

    ``filter_shape`` returns the shape of the filter for given windows.
    """

    def out(first: str, second: str, result: str) -> Callable[..., Spec]:
        def spec(a: Spec, b: Spec, *, geometry: Windows) -> Spec:
            shapes = {"x": geometry.in_shape, "dy": geometry.out_shape}
            shapes["filter"] = filter_shape(geometry)
            rows = (first, a, shapes[first]), (second, b, shapes[second])
            _windows.check(geometry, spatial, *rows)
            return Spec(shapes[result], a.dtype)

        return spec

    found: list[tuple[Any, Any]] = [
        (forward_attributes, out("x", "filter", "dy")),
        (_input_gradient_attributes, out("dy", "filter", "x")),
        (_filter_gradient_attributes, out("x", "dy", "filter")),
    ]
    return [{"canonicalize": functools.partial(f, rule), "out": o} for f, o in found]


_filter_shape = attrgetter("filter_shape")
IN_2D = functools.partial(geometry.convolution, spatial=2)
IN_3D = functools.partial(geometry.convolution, spatial=3)

_2D, _2D_X, _2D_FILTER = rules(IN_2D, 2, _filter_shape)
CONV2D = Kernel(
    "Conv2D(x: number, filter: x; geometry: Windows)",
    op="conv2d",
    doc="""``y[n, p, q, k] = Σ x[n, i, j, c] filter[h, w, c, k]`` over h, w and c, where
    ``i = s·p + d·h - top`` and ``j = s·q + d·w - left``, with strides s and dilations
    d; x is 0 outside. With several groups, c counts from the first channel of the group
    to which k belongs.

    Integers wrap. float16 is summed in float32. Infinite and NaN elements of ``filter``
    may be multiplied by the zeros outside, or skipped.""",
    **_2D,
)
CONV2D_INPUT = Kernel(
    "Conv2DBackpropInput(dy: number, filter: dy; geometry: Windows) -> dx",
    op="conv2d_transpose",
    doc="""The transpose of ``Conv2D`` with respect to x:
    ``dx[n, i, j, c] = Σ dy[n, p, q, k] filter[h, w, c, k]`` over all p, q, k, h and w
    for which ``Conv2D`` multiplies ``x[n, i, j, c]`` by ``filter[h, w, c, k]``.

    Nothing is conjugated. Integers wrap. float16 is summed in float32. Infinite and NaN
    elements of ``filter`` may be multiplied by zeros around and between the elements of
    ``dy``, or skipped.""",
    **_2D_X,
)
CONV2D_FILTER = Kernel(
    "Conv2DBackpropFilter(x: number, dy: x; geometry: Windows) -> dfilter",
    doc="""The transpose of ``Conv2D`` with respect to filter:
    ``dfilter[h, w, c, k] = Σ x[n, i, j, c] dy[n, p, q, k]`` over n, p and q, with i, j
    and c as in ``Conv2D``; x is 0 outside.

    Nothing is conjugated. Integers wrap. float16 is summed in float32. Infinite and NaN
    elements of ``dy`` may be multiplied by the zeros outside, or skipped.""",
    **_2D_FILTER,
)

_3D, _3D_X, _3D_FILTER = rules(IN_3D, 3, _filter_shape)
CONV3D = Kernel(
    "Conv3D(x: number, filter: x; geometry: Windows)",
    op="conv3d",
    doc="""``Conv2D`` with three spatial axes.""",
    **_3D,
)
CONV3D_INPUT = Kernel(
    "Conv3DBackpropInputV2(dy: number, filter: dy; geometry: Windows) -> dx",
    op="conv3d_transpose",
    doc="""``Conv2DBackpropInput`` with three spatial axes.""",
    **_3D_X,
)
CONV3D_FILTER = Kernel(
    "Conv3DBackpropFilterV2(x: number, dy: x; geometry: Windows) -> dfilter",
    doc="""``Conv2DBackpropFilter`` with three spatial axes.""",
    **_3D_FILTER,
)


# --- ops -------------------------------------------------------------------------


def conv1d(
    x: TensorLike,
    filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of ``x`` and ``filter`` along one spatial axis.

    ``y[n, p, k] = Σ x[n, s·p + d·w - left, c] · filter[w, c, k]`` over w and c; see
    ``conv2d``.

    Args:
        x: ``[batch, width, channels]``, or without the batch.
        filter: ``[width, channels / groups, out_channels]``.
        strides: The step between adjacent windows, a number.
        pad: ``"same"`` adds zeros so that each size becomes ``ceil(size / stride)``;
            ``"valid"`` adds nothing; a number adds that many zeros at each end; pairs,
            ``[(left, right)]``, give the number of zeros at each end.
        dilations: Steps between adjacent elements of one window.
        data_format: "NWC" or "NCW", for ``x`` and the result; the layout of the filter
            is fixed.
        dim_rounding_mode: How to handle a partial last step, as in ``conv2d``.
        groups: The number of groups into which the channels are split; each group of
            output channels depends only on its own group of input channels.

    Returns:
        A tensor ``[batch, out_width, out_channels]`` in the format of ``x``, of the
        promoted dtype; int32 for bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x = pg.reshape(pg.arange(5.0), (1, 5, 1))
        >>> pg.conv1d(x, [[[1.0]], [[-1.0]]], strides=2).tolist()
        [[[-1.0], [-1.0]]]

    Source:
        The semantics are those of ``tf.conv1d`` in TensorFlow.js, with groups.

    """
    if unknown:
        raise unexpected(conv1d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    x, filter = _windows.numbers("conv1d", x, filter)
    x, restore_layout = _windows.channels_last("conv1d", x, 1, data_format)
    windows = geometry.convolution(
        "conv1d", x.shape, filter.shape, 1, **given
    ).with_leading_axis()
    x = shape.reshape(x, windows.in_shape)
    filter = shape.reshape(filter, windows.filter_shape)
    y = run(CONV2D, x, filter, geometry=windows)
    return restore_layout(shape.reshape(y, (y.shape[0], *y.shape[2:])))


def conv2d(
    x: TensorLike,
    filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of ``x`` and ``filter``: an inner product for each window.

    ``y[n, p, q, k] = Σ x[n, s·p + d·h - top, s·q + d·w - left, c] filter[h, w, c, k]``
    over h, w and c, with stride s and dilation d, where ``x`` is zero outside. With
    several groups, c counts from the first channel of the group to which k belongs. The
    filter is not flipped. Integers wrap.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch.
        filter: ``[height, width, channels / groups, out_channels]``.
        strides: Steps between adjacent windows: one number for both axes or one for
            each.
        pad: ``"same"`` adds zeros so that each size becomes ``ceil(size / stride)``;
            ``"valid"`` adds nothing; a number adds that many zeros at each end; pairs,
            ``[(top, bottom), (left, right)]``, give the number of zeros at each end.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result; the layout of the
            filter is fixed.
        dim_rounding_mode: How to handle a partial last step if ``pad`` is a number or
            pairs: "floor" (or None) drops it, "ceil" keeps it, "round" keeps it if at
            least half of it fits; "ceil_inside" keeps a window that begins before the
            end of the input.
        groups: The number of groups into which the channels are split; each group of
            output channels depends only on its own group of input channels.

    Returns:
        A tensor ``[batch, out_height, out_width, out_channels]`` in the format of
        ``x``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x = pg.reshape(pg.arange(9.0), (1, 3, 3, 1))
        >>> pg.conv2d(x, pg.ones((2, 2, 1, 1)))[0, :, :, 0]
        Tensor([[ 8., 12.],
                [20., 24.]], dtype=float32, backend='cpu')
        >>> pg.conv2d(x, pg.ones((2, 2, 1, 1)), strides=2, pad="same").shape
        (1, 2, 2, 1)

    Source:
        The semantics are those of ``tf.conv2d`` in TensorFlow.js, with groups.

    """
    if unknown:
        raise unexpected(conv2d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    return convolved(CONV2D, IN_2D, 2, data_format, given, x, filter)


def conv3d(
    x: TensorLike,
    filter: TensorLike,
    /,
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NDHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the convolution of ``x`` and ``filter`` along three spatial axes.

    The formula is that of ``conv2d`` with one more axis.

    Args:
        x: ``[batch, depth, height, width, channels]``, or without the batch.
        filter: ``[depth, height, width, channels / groups, out_channels]``.
        strides: Steps between adjacent windows: one number for all axes or one for
            each.
        pad: ``"same"`` adds zeros so that each size becomes ``ceil(size / stride)``;
            ``"valid"`` adds nothing; a number adds that many zeros at each end; pairs,
            one for each axis, give the number of zeros at each end.
        dilations: Steps between adjacent elements of one window.
        data_format: "NDHWC" or "NCDHW", for ``x`` and the result; the layout of the
            filter is fixed.
        dim_rounding_mode: How to handle a partial last step if ``pad`` is a number or
            pairs: "floor" (or None) drops it, "ceil" keeps it, "round" keeps it if at
            least half of it fits; "ceil_inside" keeps a window that begins before the
            end of the input.
        groups: The number of groups into which the channels are split; each group of
            output channels depends only on its own group of input channels.

    Returns:
        A tensor ``[batch, out_depth, out_height, out_width, out_channels]`` in the
        format of ``x``, of the promoted dtype; int32 for bool.

    Raises:
        ValueError: The shapes or attributes are incompatible.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> y = pg.conv3d(pg.ones((1, 3, 3, 3, 2)), pg.ones((2, 2, 2, 2, 1)))
        >>> y.shape, y[0, 0, 0, 0, 0].item()
        ((1, 2, 2, 2, 1), 16.0)

    Source:
        The semantics are those of ``tf.conv3d`` in TensorFlow.js, with groups.

    """
    if unknown:
        raise unexpected(conv3d, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    return convolved(CONV3D, IN_3D, 3, data_format, given, x, filter)


def convolved(
    kernel: Kernel, rule: Any, spatial: int, data_format: str, given: Options, *xs: Any
) -> Tensor:
    """Convolve the two tensors ``xs``; ``rule`` computes the windows."""
    x, filter = _windows.numbers(kernel.op, *xs)
    x, restore_layout = _windows.channels_last(kernel.op, x, spatial, data_format)
    windows = rule(kernel.op, x.shape, filter.shape, **given)
    return restore_layout(run(kernel, x, filter, geometry=windows))


def conv1d_transpose(
    x: TensorLike,
    filter: TensorLike,
    /,
    output_shape: Sequence[int],
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the transpose of ``conv1d``, which maps output to input cotangents.

    Args:
        x: ``[batch, width, channels]``, or without the batch: the layout of the result
            of the ``conv1d`` that is transposed.
        filter: ``[width, out_channels / groups, channels]``: the filter of the
            ``conv1d``.
        output_shape: The shape of the result, with the rank and format of ``x``.
        strides: The strides of the ``conv1d``; the arguments below are also those of
            the ``conv1d``.
        pad: "same", "valid", a number, or ``[(left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NWC" or "NCW", for ``x`` and the result.
        dim_rounding_mode: "floor", "ceil" or "round"; None selects the mode that
            matches the shapes.
        groups: The number of groups into which the channels are split.

    Returns:
        A tensor of ``output_shape`` and the promoted dtype; int32 for bool.

    Raises:
        ValueError: ``conv1d`` does not map ``output_shape`` to the shape of ``x``.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x, filter = pg.ones((1, 3, 1)), pg.ones((2, 1, 1))
        >>> pg.conv1d_transpose(x, filter, (1, 4, 1))[0, :, 0]
        Tensor([1., 2., 2., 1.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.nn.conv1d_transpose`` in TensorFlow, with
        groups.

    """
    if unknown:
        raise unexpected(conv1d_transpose, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    return _conv_transpose(CONV2D_INPUT, 1, output_shape, data_format, given, x, filter)


def conv2d_transpose(
    x: TensorLike,
    filter: TensorLike,
    /,
    output_shape: Sequence[int],
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the transpose of ``conv2d``, which maps output to input cotangents.

    It is also known as deconvolution. Nothing is conjugated.

    Args:
        x: ``[batch, height, width, channels]``, or without the batch: the layout of the
            result of the ``conv2d`` that is transposed.
        filter: ``[height, width, out_channels / groups, channels]``: the filter of the
            ``conv2d``.
        output_shape: The shape of the result, with the rank and format of ``x``;
            strides and padding alone do not determine it.
        strides: The strides of the ``conv2d``; the arguments below are also those of
            the ``conv2d``.
        pad: "same", "valid", a number, or ``[(top, bottom), (left, right)]``.
        dilations: Steps between adjacent elements of one window.
        data_format: "NHWC" or "NCHW", for ``x`` and the result.
        dim_rounding_mode: "floor", "ceil" or "round"; None selects the mode that
            matches the shapes.
        groups: The number of groups into which the channels are split.

    Returns:
        A tensor of ``output_shape`` and the promoted dtype; int32 for bool.

    Raises:
        ValueError: ``conv2d`` does not map ``output_shape`` to the shape of ``x``.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x, filter = pg.ones((1, 2, 2, 1)), pg.ones((2, 2, 1, 1))
        >>> pg.conv2d_transpose(x, filter, (1, 3, 3, 1))[0, :, :, 0]
        Tensor([[1., 2., 1.],
                [2., 4., 2.],
                [1., 2., 1.]], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.conv2dTranspose`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(conv2d_transpose, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    return _conv_transpose(CONV2D_INPUT, 2, output_shape, data_format, given, x, filter)


def conv3d_transpose(
    x: TensorLike,
    filter: TensorLike,
    /,
    output_shape: Sequence[int],
    *,
    strides: Sizes = 1,
    pad: Padding = "valid",
    dilations: Sizes = 1,
    data_format: str = "NDHWC",
    dim_rounding_mode: Rounding | None = None,
    groups: int = 1,
    **unknown: Unpack[Nothing],
) -> Tensor:
    """Return the transpose of ``conv3d``, which maps output to input cotangents.

    Args:
        x: ``[batch, depth, height, width, channels]``, or without the batch: the layout
            of the result of the ``conv3d`` that is transposed.
        filter: ``[depth, height, width, out_channels / groups, channels]``: the filter
            of the ``conv3d``.
        output_shape: The shape of the result, with the rank and format of ``x``;
            strides and padding alone do not determine it.
        strides: The strides of the ``conv3d``; the arguments below are also those of
            the ``conv3d``.
        pad: "same", "valid", a number, or one pair for each axis.
        dilations: Steps between adjacent elements of one window.
        data_format: "NDHWC" or "NCDHW", for ``x`` and the result.
        dim_rounding_mode: "floor", "ceil" or "round"; None selects the mode that
            matches the shapes.
        groups: The number of groups into which the channels are split.

    Returns:
        A tensor of ``output_shape`` and the promoted dtype; int32 for bool.

    Raises:
        ValueError: ``conv3d`` does not map ``output_shape`` to the shape of ``x``.
        TypeError: An argument contains strings, or no dtype can represent both.

    Example:
        >>> x, filter = pg.ones((1, 1, 1, 2, 1)), pg.ones((1, 1, 2, 1, 1))
        >>> pg.conv3d_transpose(x, filter, (1, 1, 1, 3, 1))[0, 0, 0, :, 0]
        Tensor([1., 2., 1.], dtype=float32, backend='cpu')

    Source:
        The semantics are those of ``tf.conv3dTranspose`` in TensorFlow.js.

    """
    if unknown:
        raise unexpected(conv3d_transpose, unknown)
    given = _windows.window_options(strides, pad, dilations, dim_rounding_mode, groups)
    return _conv_transpose(CONV3D_INPUT, 3, output_shape, data_format, given, x, filter)


def _conv_transpose(
    kernel: Kernel, spatial: int, wanted: Ints, data_format: str, given: Any, *xs: Any
) -> Tensor:
    op = f"conv{spatial}d_transpose"
    x, filter = _windows.numbers(op, *xs)
    wanted = integers(op, "output_shape", wanted)
    if len(wanted) != len(x.shape):
        raise misfit(op, f"output_shape {wanted} must have the rank of x", x)
    wanted = (1, *wanted) if len(wanted) == spatial + 1 else wanted
    last, first = _windows.FORMATS[spatial]
    if choice(op, "data_format", data_format, last, first) == first:
        wanted = (wanted[0], *wanted[2:], wanted[1])
    x, restore_layout = _windows.channels_last(op, x, spatial, data_format)
    given["output_sizes"] = x.shape[1:-1]
    windows = geometry.convolution(op, wanted, filter.shape, spatial, **given)
    _windows.check_shape(op, "x", x.shape, windows.out_shape)
    if spatial > 1:
        return restore_layout(run(kernel, x, filter, geometry=windows))
    windows = windows.with_leading_axis()
    x = shape.reshape(x, windows.out_shape)
    filter = shape.reshape(filter, windows.filter_shape)
    y = run(kernel, x, filter, geometry=windows)
    return restore_layout(shape.reshape(y, wanted))


# --- gradients -------------------------------------------------------------------


def linear(conv: Kernel, to_x: Kernel, to_filter: Kernel) -> None:
    """Register the gradients of a convolution and its two transposes."""
    conj = complexes.conjugate
    gradients(
        conv,
        x=lambda dy, filter, geometry: run(to_x, dy, conj(filter), geometry=geometry),
        filter=lambda dy, x, geometry: run(to_filter, conj(x), dy, geometry=geometry),
    )
    gradients(
        to_x,
        dy=lambda dz, filter, geometry: run(conv, dz, conj(filter), geometry=geometry),
        filter=lambda dz, dy, geometry: run(to_filter, dz, conj(dy), geometry=geometry),
    )
    gradients(
        to_filter,
        x=lambda dz, dy, geometry: run(to_x, conj(dy), dz, geometry=geometry),
        dy=lambda dz, x, geometry: run(conv, conj(x), dz, geometry=geometry),
    )


linear(CONV2D, CONV2D_INPUT, CONV2D_FILTER)
linear(CONV3D, CONV3D_INPUT, CONV3D_FILTER)


# --- decompositions --------------------------------------------------------------


@decomposition(CONV3D)
@decomposition(CONV2D)
def _(x: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    """Multiply the matrix of the values in all windows by the filter."""
    y = _windows.columns(x, geometry) @ _windows.grouped(filter, geometry.groups)
    return _windows.ungrouped(y, geometry.out_shape)


@decomposition(CONV3D_FILTER)
@decomposition(CONV2D_FILTER)
def _(x: Tensor, dy: Tensor, *, geometry: Windows) -> Tensor:
    seen = _windows.columns(x, geometry)
    dy = _windows.grouped(dy, geometry.groups)
    y = products.matmul(seen, dy, transpose_a=True)
    return _windows.ungrouped(y, geometry.filter_shape)


@decomposition(CONV3D_INPUT)
@decomposition(CONV2D_INPUT)
def _(dy: Tensor, filter: Tensor, *, geometry: Windows) -> Tensor:
    """Insert zeros into the cotangent, and convolve it with the flipped filter."""
    *window, c, k = filter.shape
    n = len(window)
    g = geometry.groups
    turned = shape.flip(filter, axis=range(n))
    turned = shape.reshape(turned, (*window, c, g, k // g))
    turned = shape.permute_dims(turned, (*range(n), n + 2, n + 1, n))
    turned = shape.reshape(turned, (*window, k // g, g * c))
    kernel = CONV2D if n == 2 else CONV3D
    spread = _windows.insert_zeros(dy, geometry)
    return run(kernel, spread, turned, geometry=geometry.transposed)
