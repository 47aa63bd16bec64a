from typing import TYPE_CHECKING

from ._public import publish
from .ops._results import Pieces as Pieces
from .ops.strings import *
from .ops.strings import __doc__ as __doc__

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.strings import __all__ as __all__

publish(globals())
