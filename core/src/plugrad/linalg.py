from typing import TYPE_CHECKING

from .ops.determinants import SlogdetResult as SlogdetResult
from .ops.eigenvalues import EigResult as EigResult
from .ops.linalg import *
from .ops.linalg import __doc__ as __doc__
from .ops.matrix_factors import EighResult as EighResult
from .ops.matrix_factors import QRResult as QRResult
from .ops.matrix_factors import SVDResult as SVDResult
from .ops.products import matmul as matmul
from .ops.products import matrix_transpose as matrix_transpose
from .ops.products import tensordot as tensordot
from .ops.products import vecdot as vecdot

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.linalg import __all__ as __all__
