"""The state of the engine, as ``plugrad.engine()`` returns it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plugrad._src.ops.by_name import run_kernel
from plugrad._src.registry.plugins import Plugin
from plugrad._src.tensor.tensor import TensorLike


@dataclass(frozen=True)
class EngineState:
    """The state of the engine at one moment.

    Attributes:
        backend: The active backend of this thread; None before the first op.
        opened: The backends that have been opened.
        plugins: All plugins that were discovered, with their phases and reasons.
        fallback_counts: How often a kernel ran without an implementation of the
            backend: by kernel, backend and "decomposition", "host" or "fallback".

    """

    backend: str | None
    opened: tuple[str, ...]
    plugins: tuple[Plugin, ...]
    fallback_counts: Mapping[tuple[str, str, str], int]

    def run_kernel(
        self,
        name: str,
        inputs: Sequence[TensorLike | None] | Mapping[str, Any],
        attrs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run a kernel by name: the same as ``plugrad.run_kernel``."""
        return run_kernel(name, inputs, attrs)
