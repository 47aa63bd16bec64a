"""Rewrites graphs at load: ``optimized`` runs the passes, ``Report`` counts changes.

Map: ``pipeline`` has the order and the small passes; ``folding`` what convolutions
compute for nodes behind them; ``layout`` keeps channels last.
"""

from .pipeline import Report, optimized

__all__ = ["Report", "optimized"]
