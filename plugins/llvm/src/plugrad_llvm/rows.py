"""Row kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .code import Code

Write = Callable[[Code, Sequence[str | None], str, int, Mapping[str, Any]], None]
ROWS: dict[str, Write] = {}
