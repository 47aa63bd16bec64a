"""Types of the functions that ``grad`` and similar functions return."""

from __future__ import annotations

from typing import Any, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class GradientFunction(Protocol[P, R_co]):
    """A function with the parameters of the differentiated function, and ``dy``.

    A ``ParamSpec`` cannot be extended by a keyword (PEP 612). So there are two
    signatures: without ``dy``, type checkers check the arguments against the parameters
    of the function; with ``dy``, they do not. The gradient has the structure of the
    first argument, with None for integers, so its type is ``Any``. A ``TypeVar`` for
    the first argument would describe annotated functions better, but pyright would then
    reject ``grad(lambda x: x * x)``.
    """

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, dy: Any, **kwargs: Any) -> R_co: ...
