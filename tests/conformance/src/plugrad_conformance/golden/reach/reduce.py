"""How the golden cases reach the ops of ``reduce``."""

import plugrad as pg

KERNELS = {
    "All": lambda x, axis, keepDims: pg.all(x, axis=axis, keepdims=keepDims),
    "Any": lambda x, axis, keepDims: pg.any(x, axis=axis, keepdims=keepDims),
    "ArgMax": lambda x, axis: pg.argmax(x, axis=axis),
    "ArgMin": lambda x, axis: pg.argmin(x, axis=axis),
    "Max": lambda x, reductionIndices, keepDims: pg.max(
        x, axis=reductionIndices, keepdims=keepDims
    ),
    "Mean": lambda x, axis, keepDims: pg.mean(x, axis=axis, keepdims=keepDims),
    "Min": lambda x, axis, keepDims: pg.min(x, axis=axis, keepdims=keepDims),
    "Prod": lambda x, axis, keepDims: pg.prod(x, axis=axis, keepdims=keepDims),
    "Sum": lambda x, axis, keepDims: pg.sum(x, axis=axis, keepdims=keepDims),
}

OPS = {
    "all": pg.all,
    "any": pg.any,
    "argMin": pg.argmin,
    "logSumExp": pg.logsumexp,
    "max": pg.max,
    "mean": pg.mean,
    "moments": pg.moments,
    "sum": pg.sum,
}
