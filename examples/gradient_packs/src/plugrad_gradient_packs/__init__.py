"""Gradients other than the derivative, as packs for ``plugrad.use_gradients``.

The packs are ``clipped``, ``deconvnet``, ``guided``, ``reversed`` and
``straight_through``; ``plugrad_gradient_packs.rules`` has what is in them. Two that
take a number, and belong to one place of a model, are functions here.
"""

from .ops import clip_gradient, reverse_gradient

__all__ = ["clip_gradient", "reverse_gradient"]
