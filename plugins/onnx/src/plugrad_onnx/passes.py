"""Passes."""

from __future__ import annotations

from collections import Counter

from .graph import Graph


class Report:
    """What the passes did."""

    def __init__(self) -> None:
        self.changes: Counter[str] = Counter()


def optimized(graph: Graph, report: Report) -> None:
    """Rewrite a graph."""
