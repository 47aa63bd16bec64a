"""How the golden cases reach the ops of ``creation``."""

import plugrad as pg


def range_(start, stop, step, dtype):
    """Count down, as TensorFlow.js does, if the step is 1 and ``stop < start``."""
    return pg.arange(
        start, stop, -1 if stop < start and step == 1 else step, dtype=dtype
    )


KERNELS = {
    "Cast": lambda x, dtype: pg.astype(x, dtype),
    "Fill": lambda shape, value, dtype: pg.full(shape, value, dtype=dtype),
    "Identity": lambda x: pg.identity(x),
    "LinSpace": lambda start, stop, num: pg.linspace(start, stop, num),
    "OnesLike": lambda x: pg.ones_like(x),
    "Range": range_,
    "ZerosLike": lambda x: pg.zeros_like(x),
}

OPS = {
    "cast": pg.astype,
    "onesLike": pg.ones_like,
    "zerosLike": pg.zeros_like,
}
