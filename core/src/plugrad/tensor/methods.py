"""The operators and methods that ``Tensor`` and ``Variable`` share.

``ops/operators.py`` sets them, so that ``tensor`` need not import any op;
``methods.pyi`` has their signatures, for type checkers and editors.
"""


class Methods:
    """Operators, and ops with the tensor as their first argument."""

    __slots__ = ()
