"""Linear algebra: products, factorizations, eigenvalues, norms and solvers."""

from ._src.ops.linalg._results import (
    EighResult as EighResult,
)
from ._src.ops.linalg._results import (
    EigResult as EigResult,
)
from ._src.ops.linalg._results import (
    LUResult as LUResult,
)
from ._src.ops.linalg._results import (
    QRResult as QRResult,
)
from ._src.ops.linalg._results import (
    SlogdetResult as SlogdetResult,
)
from ._src.ops.linalg._results import (
    SVDResult as SVDResult,
)
from ._src.ops.linalg.linalg import (
    __doc__ as __doc__,
)
from ._src.ops.linalg.linalg import (
    band_part,
    cholesky,
    cond,
    cross,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    gram_schmidt,
    inv,
    kron,
    lstsq,
    lu,
    matrix_exp,
    matrix_norm,
    matrix_power,
    matrix_rank,
    multi_dot,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    trace,
    triangular_solve,
    vector_norm,
)
from ._src.ops.linalg.products import (
    matmul as matmul,
)
from ._src.ops.linalg.products import (
    matrix_transpose as matrix_transpose,
)
from ._src.ops.linalg.products import (
    tensordot as tensordot,
)
from ._src.ops.linalg.products import (
    vecdot as vecdot,
)
from ._src.public import publish

__all__ = [
    "band_part",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "gram_schmidt",
    "inv",
    "kron",
    "lstsq",
    "lu",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "trace",
    "triangular_solve",
    "vector_norm",
]

publish(globals(), EighResult, EigResult, LUResult, QRResult, SlogdetResult, SVDResult)
