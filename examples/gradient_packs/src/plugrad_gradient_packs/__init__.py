"""Gradients other than the derivative, as packs for ``plugrad.use_gradients``.

The packs are ``clipped``, ``deconvnet``, ``guided``, ``reversed`` and
``straight_through``; ``plugrad_gradient_packs.rules`` contains their rules. This module
has two functions for gradients that take a number and apply at one position in a model.
"""

from .ops import clip_gradient, reverse_gradient

__all__ = ["clip_gradient", "reverse_gradient"]


def __getattr__(name: str) -> str:
    """Read the version from the metadata on demand: it is too slow for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-gradient-packs")
