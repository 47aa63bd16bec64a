"""What ``Tensor`` and ``Variable`` can do by way of ops.

``ops/operators.py`` sets the attributes of both, so that ``tensor`` need not know any
op; ``methods.pyi`` has their signatures, for type checkers and editors.
"""


class Methods:
    """Operators, and ops with the tensor as their first argument."""

    __slots__ = ()
