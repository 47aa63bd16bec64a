"""Rewrites graphs at load: ``optimize_graph`` runs passes, ``Report`` counts changes.

Contents: ``pipeline`` defines the order and the small passes; ``folding`` folds the
nodes after a convolution into it; ``layout`` keeps images channels-last.
"""

from .pipeline import Report, optimize_graph

__all__ = ["Report", "optimize_graph"]
