"""How the golden cases reach the ops of ``dilation``."""

import plugrad as pg


def dilation2d(x, filter, strides, pad, dilations=1, dataFormat="NHWC"):
    return pg.dilation2d(
        x,
        filter,
        strides=strides,
        pad=pad,
        dilations=dilations,
        data_format=dataFormat,
    )


KERNELS = {
    "Dilation2D": dilation2d,
    "Dilation2DBackpropInput": lambda x, filter, dy, **given: pg.run_kernel(
        "Dilation2DBackpropInput", [x, filter, dy], given
    ),
    "Dilation2DBackpropFilter": lambda x, filter, dy, **given: pg.run_kernel(
        "Dilation2DBackpropFilter", [x, filter, dy], given
    ),
}

OPS = {"dilation2d": dilation2d}
