"""How the golden cases reach the ops of ``compare``."""

import plugrad as pg


def select(condition, t, e):
    """Map ``Select``, in which a condition of rank 1 chooses whole rows."""
    if len(condition.shape) == 1 and len(t.shape) > 1:
        condition = pg.reshape(condition, (-1, *[1] * (len(t.shape) - 1)))
    return pg.where(condition, t, e)


KERNELS = {
    "BitwiseAnd": lambda a, b: pg.bitwise_and(a, b),
    "Equal": lambda a, b: pg.equal(a, b),
    "Greater": lambda a, b: pg.greater(a, b),
    "GreaterEqual": lambda a, b: pg.greater_equal(a, b),
    "Less": lambda a, b: pg.less(a, b),
    "LessEqual": lambda a, b: pg.less_equal(a, b),
    "LogicalAnd": lambda a, b: pg.logical_and(a, b),
    "LogicalNot": lambda x: pg.logical_not(x),
    "LogicalOr": lambda a, b: pg.logical_or(a, b),
    "NotEqual": lambda a, b: pg.not_equal(a, b),
    "Select": select,
}

OPS = {
    "bitwiseAnd": pg.bitwise_and,
    "equal": pg.equal,
    "greater": pg.greater,
    "greaterEqual": pg.greater_equal,
    "less": pg.less,
    "lessEqual": pg.less_equal,
    "logicalAnd": pg.logical_and,
    "logicalOr": pg.logical_or,
    "logicalXor": pg.logical_xor,
    "notEqual": pg.not_equal,
    "where": pg.where,
}
