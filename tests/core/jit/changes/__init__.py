"""Patterns of state that changes under ``jit``, and their expected outcomes.

``python -m tests.core.jit.changes`` prints the number of patterns by kind and outcome.
"""

import importlib
import pkgutil

from .frozen import FROZEN
from .harness import PATTERNS, UNREAD, eager, explained, observe

for _info in pkgutil.iter_modules(__path__):
    if not _info.name.startswith("_"):  # each registers its patterns
        importlib.import_module(f"{__name__}.{_info.name}")

__all__ = ["FROZEN", "PATTERNS", "UNREAD", "eager", "expected", "explained", "observe"]


def expected(name):
    """Return the outcome that a pattern must have."""
    return "frozen" if name in FROZEN else "right"
