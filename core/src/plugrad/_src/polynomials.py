"""Polynomials of the error functions, for ops and backends: public in ``plugin``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from plugrad._src.tensor.dtypes import DType

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


_TAIL32 = (
    *(-0.00011725809204, -0.00037458744075, 0.00085601767103),
    *(0.0014597831144, -0.010834257889, 0.028049510785),
    *(-0.041718506293, 0.027294285878, 0.0376197189),
    *(-0.14936896198, 0.67125431766),
)
_TAIL64 = (
    *(-7.17909869071216e-10, -6.238766115543097e-09, -4.758036172765533e-09),
    *(5.3326905626357655e-08, 3.790169358447992e-08, -3.927842778767373e-07),
    *(7.970117003386988e-08, 2.7562060400530364e-06, -4.876406438481974e-06),
    *(-1.2677139492007422e-05, 6.967220644886231e-05, -7.988202836426113e-05),
    *(-0.0003843271313407982, 0.0023162031871228317, -0.007083801117971053),
    *(0.015372771272010137, -0.02534041877666945, 0.031089463588551206),
    *(-0.023278738668420302, -0.007015927046961294, 0.06236974578087602),
    *(-0.13457757061032433, 0.6507474237190416),
)


class ErfPolynomials(NamedTuple):
    """The error function for one dtype. Coefficients begin with the highest power.

    Attributes:
        near: ``erf(x) / x - 1`` as a polynomial of x², for ``|x| < 1``.
        far: ``log(1 - erf(x))`` as a polynomial of x, for ``1 <= x <= end``.
        end: The threshold from which erf rounds to 1.

    """

    near: tuple[float, ...]
    far: tuple[float, ...]
    end: float


_SINGLE = ErfPolynomials(_NEAR32, _FAR32, 4.0)
_DOUBLE = ErfPolynomials(_NEAR64, _FAR64, 6.0)


def erf_polynomials(dtype: DType) -> ErfPolynomials:
    """Return the minimax polynomials from which erf is computed.

    They give erf to within 1e-17 for float64 and 1e-9 for narrower dtypes. The core's
    decomposition of Erf uses them, and the kernel functions of backends may use them.

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


class ErfcPolynomial(NamedTuple):
    """The scaled complementary error function, ``e^(a²) · erfc(a)``, for ``a >= 0``.

    It is ``p((a - middle) / (a + middle)) / (a + offset)``. The polynomial p is nearly
    constant, so that it magnifies no rounding error.

    Attributes:
        terms: The coefficients of p, which begin with the highest power.
        middle: The number at which the argument of p is 0.
        offset: The number added to ``a`` in the divisor.
        end: The threshold from which ``e^(-a²)``, and therefore erfc, rounds to 0.

    """

    terms: tuple[float, ...]
    middle: float
    offset: float
    end: float


_TAIL_SINGLE = ErfcPolynomial(_TAIL32, 3.0, 0.75, 10.5)
_TAIL_DOUBLE = ErfcPolynomial(_TAIL64, 4.0, 0.75, 27.5)


def erfc_polynomial(dtype: DType) -> ErfcPolynomial:
    """Return the minimax polynomial from which erfc is computed.

    Its relative error is at most 3e-17 for float64, and 3e-9 for narrower dtypes, from
    0 to ``end``. The core's decompositions of Erfc and Gelu use it, and the kernel
    functions of backends may use it. The other factor, ``e^(-a²)``, needs more digits
    of ``a²`` than the dtype has.

    Args:
        dtype: The floating dtype of the computation.

    Returns:
        A tuple ``(terms, middle, offset, end)``.

    Example:
        >>> import numpy as np
        >>> from plugrad.plugin import erfc_polynomial
        >>> terms, middle, offset, end = erfc_polynomial(np.dtype("float64"))
        >>> p = np.polyval(terms, (3.0 - middle) / (3.0 + middle))
        >>> round(float(p / (3.0 + offset) * np.exp(-(3.0**2))), 9)  # erfc(3)
        2.209e-05

    """
    return _TAIL_DOUBLE if np.dtype(dtype).itemsize == 8 else _TAIL_SINGLE
