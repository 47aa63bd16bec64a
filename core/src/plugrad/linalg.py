from typing import TYPE_CHECKING

from ._public import publish
from .ops._results import EighResult as EighResult
from .ops._results import EigResult as EigResult
from .ops._results import LUResult as LUResult
from .ops._results import QRResult as QRResult
from .ops._results import SlogdetResult as SlogdetResult
from .ops._results import SVDResult as SVDResult
from .ops.linalg import *
from .ops.linalg import __doc__ as __doc__
from .ops.products import matmul as matmul
from .ops.products import matrix_transpose as matrix_transpose
from .ops.products import tensordot as tensordot
from .ops.products import vecdot as vecdot

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.linalg import __all__ as __all__

publish(globals())
