"""Named tuples of tensors, public in the namespaces whose functions return them.

The functions import this module at their first call, because it takes Python 0.09 ms to
define a named tuple.
"""

from __future__ import annotations

from typing import NamedTuple

from plugrad._src.tensor.tensor import Tensor


class QRResult(NamedTuple):
    """The result of ``qr``: ``Q`` and ``R``."""

    Q: Tensor
    R: Tensor


class LUResult(NamedTuple):
    """The result of ``lu``: ``P``, ``L`` and ``U``."""

    P: Tensor
    L: Tensor
    U: Tensor


class EighResult(NamedTuple):
    """The result of ``eigh``: ``eigenvalues`` and ``eigenvectors``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SVDResult(NamedTuple):
    """The result of ``svd``: ``U``, ``S`` and ``Vh``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    """The result of ``slogdet``: ``sign`` and ``logabsdet``."""

    sign: Tensor
    logabsdet: Tensor


class EigResult(NamedTuple):
    """The result of ``eig``: ``eigenvalues`` and ``eigenvectors``."""

    eigenvalues: Tensor
    eigenvectors: Tensor
