"""How the golden cases reach the ops of ``cumulative``.

Without weights, TensorFlow.js passes an empty array, whose dtype is that of the counts.
"""

import plugrad as pg


def cumulative(op):
    return lambda x, axis=0, exclusive=False, reverse=False: op(
        x, axis=axis, exclusive=exclusive, reverse=reverse
    )


def bincount(x, weights, size):
    used = weights if weights.size else None
    return pg.astype(pg.bincount(x, weights=used, size=size), weights.dtype)


def dense_bincount(x, weights, size, binaryOutput=False):
    used = weights if weights.size else None
    y = pg.dense_bincount(x, weights=used, size=size, binary_output=binaryOutput)
    return pg.astype(y, weights.dtype)


def moving_average(v, x, decay, step=None, zeroDebias=True):
    return pg.moving_average(v, x, decay, step=step, zero_debias=zeroDebias)


KERNELS = {
    "Bincount": bincount,
    "Cumprod": cumulative(pg.cumulative_prod),
    "Cumsum": cumulative(pg.cumulative_sum),
    "DenseBincount": dense_bincount,
}

OPS = {
    "bincount": bincount,
    "confusionMatrix": pg.confusion_matrix,
    "cumprod": cumulative(pg.cumulative_prod),
    "cumsum": cumulative(pg.cumulative_sum),
    "denseBincount": dense_bincount,
    "movingAverage": moving_average,
}
