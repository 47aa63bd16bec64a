"""Names of NumPy, PyTorch, JAX and TensorFlow.js for what plugrad calls otherwise.

``plugrad.__getattr__`` names the op of plugrad in its AttributeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from plugrad.registry.contract import suggest

NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "array": "asarray",
    "as_tensor": "asarray",
    "batch_normalization": "batch_norm",
    "bmm": "matmul",
    "cast": "astype",
    "cat": "concat",
    "chunk": "split",
    "clamp": "clip",
    "concatenate": "concat",
    "conjugate": "conj",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "detach": "stop_gradient",
    "div": "divide",
    "dot": "matmul",
    "eq": "equal",
    "fmod": "remainder",
    "from_numpy": "asarray",
    "ge": "greater_equal",
    "gt": "greater",
    "index_select": "take",
    "inner": "vecdot",
    "inverse": "linalg.inv",
    "jacfwd": "jacobian",
    "jacrev": "jacobian",
    "le": "less_equal",
    "lt": "less",
    "masked_fill": "where",
    "mm": "matmul",
    "mod": "remainder",
    "mul": "multiply",
    "ndim": "Tensor.ndim",
    "ne": "not_equal",
    "neg": "negative",
    "norm": "linalg.vector_norm",
    "outer": "linalg.outer",
    "permute": "permute_dims",
    "power": "pow",
    "product": "prod",
    "ravel": "reshape",
    "rot90": "flip",
    "rnn": "basic_lstm_cell",
    "shape": "Tensor.shape",
    "sigmoid_cross_entropy": "losses.sigmoid_cross_entropy",
    "softmax_cross_entropy": "losses.softmax_cross_entropy",
    "sub": "subtract",
    "swapaxes": "moveaxis",
    "swish": "silu",
    "tensor": "asarray",
    "tensor1d": "asarray",
    "tensor2d": "asarray",
    "topk": "top_k",
    "transpose": "permute_dims",
    "true_divide": "divide",
    "truncatediv": "trunc",
    "unbind": "unstack",
    "unique": "unique_values",
    "unsqueeze": "expand_dims",
    "variable": "Variable",
    "vstack": "concat",
    "hstack": "concat",
}


def of_numpy(name: str) -> str:
    """Return what a message says to use in place of a function of NumPy."""
    here = NAMES.get(name, name)
    known = here.partition(".")[0] in import_module("plugrad").__all__
    return f"use plugrad.{here}, " if known else "use an op of plugrad, "


def missing(name: str, known: Sequence[str]) -> str:
    """Return the message about a name that ``plugrad`` does not have."""
    here = NAMES.get(name)
    hint = f"; it is plugrad.{here} here" if here else suggest(name, known)
    return f"module 'plugrad' has no attribute {name!r}{hint}"
