from typing import TYPE_CHECKING

from ._public import publish
from .ops._results import FilledRows as FilledRows
from .ops.sparse import *
from .ops.sparse import __doc__ as __doc__

if not TYPE_CHECKING:  # mypy takes names from literal lists only
    from .ops.sparse import __all__ as __all__

publish(globals())
