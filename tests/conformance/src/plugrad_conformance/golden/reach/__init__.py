"""One table from the kernels and ops of TensorFlow.js to ours, by family.

``KERNELS`` maps a kernel to a function that takes the inputs of a golden case by name
(tensors; a list as the one positional argument) and its attributes by name, as
TensorFlow.js spells them, and returns a tensor or a list of tensors. ``OPS`` maps an
op to a function that takes the arguments of a case of errors by position.
"""

from . import (
    activation,
    binary,
    boxes,
    compare,
    complexes,
    conv,
    creation,
    cumulative,
    depthwise,
    dilation,
    einsum,
    fft,
    fused,
    gather,
    image,
    linalg,
    losses,
    matrix,
    matrix_factors,
    norm,
    pool,
    random,
    reduce,
    resize,
    search,
    shape,
    slicing,
    sorting,
    sparse,
    strings,
    trigonometry,
    unary,
)

FAMILIES = (
    activation,
    binary,
    boxes,
    compare,
    complexes,
    conv,
    creation,
    cumulative,
    depthwise,
    dilation,
    einsum,
    fft,
    fused,
    gather,
    image,
    linalg,
    losses,
    matrix,
    matrix_factors,
    norm,
    pool,
    random,
    reduce,
    resize,
    search,
    shape,
    slicing,
    sorting,
    sparse,
    strings,
    trigonometry,
    unary,
)
KERNELS = {name: row for family in FAMILIES for name, row in family.KERNELS.items()}
OPS = {name: row for family in FAMILIES for name, row in family.OPS.items()}


def family(name: str) -> str:
    """Return the family of a kernel or an op: "conv" for "Conv2D"; "" if unreached."""
    for module in FAMILIES:
        if name in module.KERNELS or name in module.OPS:
            return module.__name__.rpartition(".")[2]
    return ""
