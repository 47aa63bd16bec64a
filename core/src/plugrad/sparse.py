from typing import TYPE_CHECKING

from .ops.sparse import *
from .ops.sparse import FilledRows as FilledRows
from .ops.sparse import __doc__ as __doc__

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.sparse import __all__ as __all__
