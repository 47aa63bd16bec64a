"""The operators and methods that ``Tensor`` and ``Variable`` share.

``ops/operators.py`` sets them, so that ``tensor`` need not import any op;
``methods.pyi`` has their signatures, for type checkers and editors.
"""

from __future__ import annotations

from .hints import ForeignNames


class Methods(ForeignNames):
    """Operators, and ops with the tensor as their first argument."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if hasattr(type(self), name)]
