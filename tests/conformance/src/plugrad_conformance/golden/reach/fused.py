"""How the golden cases reach the ops of ``fused``."""

import plugrad as pg

from .conv import spatial


def fused_convolution(op):
    """Map a golden case to a fused convolution."""

    def row(
        x,
        filter,
        strides,
        pad,
        bias=None,
        preluActivationWeights=None,
        dataFormat="NHWC",
        dilations=1,
        dimRoundingMode=None,
        activation="linear",
        leakyreluAlpha=0.2,
    ):
        return op(
            x,
            filter,
            bias,
            preluActivationWeights,
            strides=strides,
            pad=spatial(pad, dataFormat),
            data_format=dataFormat,
            dilations=dilations,
            dim_rounding_mode=dimRoundingMode,
            activation=activation.replace("leakyrelu", "leaky_relu"),
            leaky_relu_alpha=leakyreluAlpha,
        )

    return row


def matmul(
    a,
    b,
    bias=None,
    preluActivationWeights=None,
    transposeA=False,
    transposeB=False,
    activation="linear",
    leakyreluAlpha=0.2,
):
    return pg.fused.matmul(
        a,
        b,
        bias,
        preluActivationWeights,
        transpose_a=transposeA,
        transpose_b=transposeB,
        activation=activation.replace("leakyrelu", "leaky_relu"),
        leaky_relu_alpha=leakyreluAlpha,
    )


KERNELS = {
    "FusedConv2D": fused_convolution(pg.fused.conv2d),
    "FusedDepthwiseConv2D": fused_convolution(pg.fused.depthwise_conv2d),
    "_FusedMatMul": matmul,
}

OPS = {
    "fusedConv2d": lambda given: fused_convolution(pg.fused.conv2d)(**given),
    "fusedDepthwiseConv2d": lambda given: fused_convolution(pg.fused.depthwise_conv2d)(
        **given
    ),
}
