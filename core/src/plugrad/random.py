from typing import TYPE_CHECKING

from ._public import publish
from .ops.random import *
from .ops.random import __doc__ as __doc__

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.random import __all__ as __all__

publish(globals())
