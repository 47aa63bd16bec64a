"""How the golden cases reach the ops of ``depthwise``."""

import plugrad as pg

from .conv import spatial


def depthwise_conv2d(
    x, filter, strides, pad, dataFormat="NHWC", dilations=1, dimRoundingMode=None
):
    return pg.depthwise_conv2d(
        x,
        filter,
        strides=strides,
        pad=spatial(pad, dataFormat),
        data_format=dataFormat,
        dilations=dilations,
        dim_rounding_mode=dimRoundingMode,
    )


def backprop(kernel, shape, xs, strides, pad, dilations):
    given = {"strides": strides, "pad": spatial(pad), "dilations": dilations, **shape}
    return pg.run_kernel(kernel, xs, given)


KERNELS = {
    "DepthwiseConv2dNative": depthwise_conv2d,
    "DepthwiseConv2dNativeBackpropInput": lambda dy, filter, inputShape, **given: (
        backprop(
            "DepthwiseConv2dNativeBackpropInput",
            {"in_shape": inputShape},
            [dy, filter],
            **given,
        )
    ),
    "DepthwiseConv2dNativeBackpropFilter": lambda x, dy, filterShape, **given: backprop(
        "DepthwiseConv2dNativeBackpropFilter",
        {"filter_shape": filterShape},
        [x, dy],
        **given,
    ),
}

OPS = {
    "depthwiseConv2d": depthwise_conv2d,
    "separableConv2d": lambda x, depthwise, pointwise, strides, pad, dilation=1: (
        pg.separable_conv2d(
            x, depthwise, pointwise, strides=strides, pad=pad, dilations=dilation
        )
    ),
}
