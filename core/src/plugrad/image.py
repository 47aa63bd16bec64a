from typing import TYPE_CHECKING

from ._public import publish
from .ops.image import *
from .ops.image import __doc__ as __doc__

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.image import __all__ as __all__

publish(globals())
