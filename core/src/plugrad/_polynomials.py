"""The polynomials of the error function, for ops and backends: public in ``plugin``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plugrad.tensor.dtypes import DType

_NEAR32 = (
    *(7.889119072e-5, -8.020841518e-4, 5.189535425e-3, -2.685444468e-2),
    *(1.128360018e-1, -3.761262714e-1, 1.283791659e-1),
)
_FAR32 = (
    *(1.855712965e-4, -2.939580992e-3, 2.180521428e-2, -1.030371540e-1),
    *(-6.382259214e-1, -1.127039891, -3.537546911e-4),
)
_NEAR64 = (
    *(-7.801188874097751e-10, 1.3722976265924504e-08, -1.6209175911748696e-07),
    *(1.6447517677871873e-06, -1.4924744663335489e-05, 0.00012055295320494294),
    *(-0.0008548325989696758, 0.005223977607423468, -0.02686617064327622),
    *(0.11283791670945253, -0.3761263890318355, 0.12837916709551256),
)
_FAR64 = (
    *(-4.8653036146992094e-12, 2.0204202447143395e-10, -3.890150708232215e-09),
    *(4.5934715054282496e-08, -3.6957674109698616e-07, 2.1148618123443585e-06),
    *(-8.579036799493762e-06, 2.253368148755925e-05, -1.9524830219078924e-05),
    *(-0.00013655225745193793, 0.0007730402077688685, -0.001918942294676361),
    *(0.0004135336009249529, 0.018988044025058142, -0.10270229076741853),
    *(-0.6366440547765997, -1.128373991776822, -5.132353128429367e-07),
)


class ErfPolynomials(NamedTuple):
    """The error function for one dtype. Coefficients begin with the highest power.

    Attributes:
        near: ``erf(x) / x - 1`` as a polynomial of x², for ``|x| < 1``.
        far: ``log(1 - erf(x))`` as a polynomial of x, for ``1 <= x <= end``.
        end: The number from which on erf rounds to 1.

    """

    near: tuple[float, ...]
    far: tuple[float, ...]
    end: float


_SINGLE = ErfPolynomials(_NEAR32, _FAR32, 4.0)
_DOUBLE = ErfPolynomials(_NEAR64, _FAR64, 6.0)


def erf_polynomials(dtype: DType) -> ErfPolynomials:
    """Return the minimax polynomials from which erf is computed.

    They give erf within 1e-17 for float64, and within 1e-9 for narrower dtypes. The
    core's decomposition of Erf uses them; kernel functions of a backend may, too.

    Args:
        dtype: The floating dtype of the computation.

    Returns:
        A tuple ``(near, far, end)``.

    Example:
        >>> import numpy as np
        >>> from plugrad.plugin import erf_polynomials
        >>> near, far, end = erf_polynomials(np.dtype("float32"))
        >>> round(0.5 + 0.5 * float(np.polyval(near, 0.5**2)), 6)  # erf(0.5)
        0.5205

    """
    return _DOUBLE if np.dtype(dtype).itemsize == 8 else _SINGLE
