"""Maps kernels and ops of TensorFlow.js to those of plugrad, by family.

``KERNELS`` maps a kernel to a function of the inputs of a golden case by name (tensors;
a list is the only positional argument) and of its attributes by their TensorFlow.js
names; it returns a tensor or a list of tensors. ``OPS`` maps an op to a function of the
positional arguments of an error case.
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
