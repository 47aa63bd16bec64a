"""Rewrites graphs at load: ``optimize_graph`` runs the passes; ``Report`` counts them.

Map: ``pipeline`` defines the order and the small passes; ``folding`` folds following
nodes into convolutions; ``layout`` keeps images channels-last.
"""

from .pipeline import Report, optimize_graph

__all__ = ["Report", "optimize_graph"]
