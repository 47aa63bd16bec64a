"""How the golden cases reach the ops of ``conv``."""

import plugrad as pg


def spatial(pad, data_format="NHWC"):
    """Drop the padding of batch and channels, which TensorFlow.js includes."""
    if not isinstance(pad, list):
        return pad
    return pad[2:] if data_format.endswith("CHW") else pad[1:-1]


def conv2d(
    x, filter, strides, pad, dataFormat="NHWC", dilations=1, dimRoundingMode=None
):
    return pg.conv2d(
        x,
        filter,
        strides=strides,
        pad=spatial(pad, dataFormat),
        data_format=dataFormat,
        dilations=dilations,
        dim_rounding_mode=dimRoundingMode,
    )


def conv2d_input(
    dy, filter, strides, pad, inputShape, dataFormat="NHWC", dimRoundingMode=None
):
    return pg.conv2d_transpose(
        dy,
        filter,
        inputShape,
        strides=strides,
        pad=spatial(pad, dataFormat),
        data_format=dataFormat,
        dim_rounding_mode=dimRoundingMode,
    )


def conv2d_filter(
    x, dy, strides, pad, filterShape, dataFormat="NHWC", dimRoundingMode=None
):
    if dataFormat == "NCHW":
        x, dy = (pg.permute_dims(t, (0, 2, 3, 1)) for t in (x, dy))
    given = {"strides": strides, "pad": spatial(pad, dataFormat)}
    given |= {"filter_shape": filterShape, "dim_rounding_mode": dimRoundingMode}
    return pg.run_kernel("Conv2DBackpropFilter", [x, dy], given)


def conv3d(x, filter, strides, pad, dataFormat="NDHWC", dilations=1):
    return pg.conv3d(
        x,
        filter,
        strides=strides,
        pad=pad,
        data_format=dataFormat,
        dilations=dilations,
    )


def conv3d_input(dy, filter, strides, pad, inputShape):
    return pg.conv3d_transpose(dy, filter, inputShape, strides=strides, pad=pad)


def conv3d_filter(x, dy, strides, pad, filterShape):
    given = {"strides": strides, "pad": pad, "filter_shape": filterShape}
    return pg.run_kernel("Conv3DBackpropFilterV2", [x, dy], given)


def conv1d(x, filter, stride, pad, dataFormat="NWC", dilation=1, dimRoundingMode=None):
    return pg.conv1d(
        x,
        filter,
        strides=stride,
        pad=spatial(pad),
        data_format=dataFormat,
        dilations=dilation,
        dim_rounding_mode=dimRoundingMode,
    )


def conv2d_transpose(x, filter, outputShape, strides, pad, dimRoundingMode=None):
    return conv2d_input(
        x, filter, strides, pad, outputShape, dimRoundingMode=dimRoundingMode
    )


KERNELS = {
    "Conv2D": conv2d,
    "Conv2DBackpropInput": conv2d_input,
    "Conv2DBackpropFilter": conv2d_filter,
    "Conv3D": conv3d,
    "Conv3DBackpropInputV2": conv3d_input,
    "Conv3DBackpropFilterV2": conv3d_filter,
}

OPS = {
    "conv1d": conv1d,
    "conv2d": conv2d,
    "conv2dTranspose": conv2d_transpose,
    "conv3d": conv3d,
}
