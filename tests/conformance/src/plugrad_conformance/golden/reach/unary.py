"""How the golden cases reach the ops of ``unary``."""

import plugrad as pg

KERNELS = {
    "Abs": lambda x: pg.abs(x),
    "Ceil": lambda x: pg.ceil(x),
    "Erf": lambda x: pg.erf(x),
    "Exp": lambda x: pg.exp(x),
    "Expm1": lambda x: pg.expm1(x),
    "Floor": lambda x: pg.floor(x),
    "IsFinite": lambda x: pg.isfinite(x),
    "IsInf": lambda x: pg.isinf(x),
    "IsNan": lambda x: pg.isnan(x),
    "Log": lambda x: pg.log(x),
    "Log1p": lambda x: pg.log1p(x),
    "Neg": lambda x: pg.negative(x),
    "Reciprocal": lambda x: pg.reciprocal(x),
    "Round": lambda x: pg.round(x),
    "Rsqrt": lambda x: pg.rsqrt(x),
    "Sign": lambda x: pg.sign(x),
    "Sqrt": lambda x: pg.sqrt(x),
    "Square": lambda x: pg.square(x),
}

OPS = {
    "abs": pg.abs,
    "ceil": pg.ceil,
    "erf": pg.erf,
    "exp": pg.exp,
    "expm1": pg.expm1,
    "floor": pg.floor,
    "isFinite": pg.isfinite,
    "isInf": pg.isinf,
    "isNaN": pg.isnan,
    "log": pg.log,
    "log1p": pg.log1p,
    "neg": pg.negative,
    "reciprocal": pg.reciprocal,
    "round": pg.round,
    "rsqrt": pg.rsqrt,
    "sqrt": pg.sqrt,
    "square": pg.square,
}
