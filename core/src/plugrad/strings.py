"""Tensors of strings: comparison, splitting, joining, and hashes."""

from ._src.ops.sparse._results import (
    Pieces as Pieces,
)
from ._src.ops.text.strings import (
    __doc__ as __doc__,
)
from ._src.ops.text.strings import (
    ngrams,
    regex_replace,
    split,
    to_hash_bucket_fast,
)
from ._src.public import publish

__all__ = [
    "ngrams",
    "regex_replace",
    "split",
    "to_hash_bucket_fast",
]

publish(globals(), Pieces)
