"""How the golden cases reach the ops of ``pool``."""

import plugrad as pg

from .conv import spatial


def options(filterSize, strides, pad, dimRoundingMode=None, dataFormat=None):
    """Convert TensorFlow.js attributes to keyword arguments."""
    return {
        "filter_size": filterSize,
        "strides": strides,
        "pad": spatial(pad),
        "dim_rounding_mode": dimRoundingMode,
    } | ({} if dataFormat is None else {"data_format": dataFormat})


def grad(kernel):
    """Run the gradient kernel of a pooling op."""
    return lambda dy, input, output=None, **given: pg.run_kernel(
        kernel, [dy, input] + [output] * (output is not None), options(**given)
    )


def pool(
    x, windowShape, poolingType, pad, dilations=1, strides=1, dimRoundingMode=None
):
    return pg.pool(
        x,
        windowShape,
        poolingType,
        pad=spatial(pad),
        dilations=dilations,
        strides=strides,
        dim_rounding_mode=dimRoundingMode,
    )


def max_pool_3d(x, *given):
    """Map ``maxPool3d``: the rank of ``x`` gives the number of axes, unless it is 0."""
    return pg.max_pool(x, **options(*given))


KERNELS = {
    "AvgPool": lambda x, **given: pg.avg_pool(x, **options(**given)),
    "AvgPool3D": lambda x, **given: pg.avg_pool(x, **options(**given)),
    "AvgPool3DGrad": grad("AvgPool3DGrad"),
    "AvgPoolGrad": grad("AvgPoolGrad"),
    "MaxPool": lambda x, **given: pg.max_pool(x, **options(**given)),
    "MaxPool3D": lambda x, **given: pg.max_pool(x, **options(**given)),
    "MaxPool3DGrad": grad("MaxPool3DGrad"),
    "MaxPoolGrad": grad("MaxPoolGrad"),
    "MaxPoolWithArgmax": lambda x, includeBatchInIndex, **given: (
        pg.max_pool_with_argmax(
            x, **options(**given), include_batch_in_index=includeBatchInIndex
        )
    ),
}

OPS = {
    "avgPool": lambda x, *given: pg.avg_pool(x, **options(*given)),
    "maxPool": lambda x, *given: pg.max_pool(x, **options(*given)),
    "maxPool3d": max_pool_3d,
    "pool": pool,
}
