"""All ops, by family. The core's kernel contracts are collected from these modules.

Each folder contains related families; its docstring lists them. A folder or module
imports only those below it in this list:

- ``operators``: the operators and methods of ``Tensor``.
- ``image``, ``statistics``, ``text``.
- ``nn``, ``sparse``.
- ``indexing``, ``random``, ``signal``.
- ``linalg``, ``reduction``.
- ``array``, ``elementwise``.
- ``custom``: gradients written by hand; ``by_name``: running a kernel by its name;
  ``namespace``: the namespace of the array API standard; ``_processes``: pickle and
  fork.
- ``basis``: conversion, arithmetic, comparison, sums and shapes.
"""

from importlib import import_module

from plugrad._src.registry.contract import Kernel
from plugrad._src.registry.registry import registry

from . import _processes, operators

FOLDERS = {
    "basis": "binary compare complexes creation logic reduce shape unary",
    "elementwise": """
        error_functions incomplete_gamma integers signs special trigonometry
    """,
    "array": "blocks gather grids ranges rearrange slicing",
    "reduction": "cumulative extremes nans",
    "linalg": """
        determinants eigenvalues einsum linalg matrix matrix_factors matrix_functions
        products
    """,
    "indexing": "scatter search segments sorting",
    "random": "random",
    "signal": "fft signal",
    "nn": """
        activation adaptive alignments attention block_quantized conv depthwise dilation
        dropout fused gelu losses norm pool quantized sequence softmax
    """,
    "sparse": "ragged sparse",
    "image": "boxes image interpolation resize",
    "statistics": "samples statistics",
    "text": "strings",
}
FAMILIES = tuple(
    import_module(f"{__name__}.{folder}.{name}")
    for folder, names in FOLDERS.items()
    for name in names.split()
)

registry.declare(
    [
        value
        for family in FAMILIES
        for value in vars(family).values()
        if type(value) is Kernel
    ],
    registry.core,
)

__all__ = ["FAMILIES", "_processes", "operators"]
