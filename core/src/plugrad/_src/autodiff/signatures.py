"""Types of the functions that ``grad`` and its relatives return."""

from __future__ import annotations

from typing import Any, ParamSpec, Protocol, TypeVar, overload

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class GradientFunction(Protocol[P, R_co]):
    """A function with the parameters of the one it differentiates, and ``dy``.

    A ``ParamSpec`` cannot be extended by a keyword (PEP 612). So there are two
    signatures: without ``dy``, type checkers compare the arguments with the function's;
    with ``dy``, they do not. The gradient has the structure of the first argument, and
    None for integers in it: its type is ``Any``. A ``TypeVar`` for the first argument
    would describe annotated functions better, but pyright then rejects ``grad(lambda x:
    x * x)``.
    """

    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...
    @overload
    def __call__(self, *args: Any, dy: Any, **kwargs: Any) -> R_co: ...
