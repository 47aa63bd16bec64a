"""Attribution with plugrad: ``import plugrad_attribution as attr``.

The relevance of an input is computed by a backward pass with other gradients. This
package has the gradients, as overrides of plugrad, and functions that apply them.

Read in this order: ``layers``, what a layer is; ``rules``, how relevance is spread;
``kernels``, everything that is not a layer; ``compositions``, what models write out of
several kernels; ``composites``, which rule applies where; ``attribution``, the function
that users call. ``gradients``, ``deeplift`` and ``inner`` have the methods that need no
composite.
"""

from __future__ import annotations

from .attribution import Attribution, attribute
from .composites import (
    CPLRP,
    AttnLRP,
    Composite,
    EpsilonAlpha2Beta1,
    EpsilonAlpha2Beta1Flat,
    EpsilonGammaBox,
    EpsilonPlus,
    EpsilonPlusFlat,
    ExcitationBackprop,
    RelP,
)
from .deeplift import deep_lift, deep_shap
from .gradients import (
    Contributions,
    deconvnet,
    guided_backprop,
    integrated_gradients,
    smooth_grad,
)
from .inner import Patching, grad_cam, patching
from .kernels import MissingRule
from .layers import Layer
from .rules import AlphaBeta, Box, Epsilon, Flat, Gamma, WSquare, ZPlus

__all__ = [
    "CPLRP",
    "AlphaBeta",
    "AttnLRP",
    "Attribution",
    "Box",
    "Composite",
    "Contributions",
    "Epsilon",
    "EpsilonAlpha2Beta1",
    "EpsilonAlpha2Beta1Flat",
    "EpsilonGammaBox",
    "EpsilonPlus",
    "EpsilonPlusFlat",
    "ExcitationBackprop",
    "Flat",
    "Gamma",
    "Layer",
    "MissingRule",
    "Patching",
    "RelP",
    "WSquare",
    "ZPlus",
    "attribute",
    "deconvnet",
    "deep_lift",
    "deep_shap",
    "grad_cam",
    "guided_backprop",
    "integrated_gradients",
    "patching",
    "smooth_grad",
]


def __getattr__(name: str) -> str:
    """Read the version from the metadata on demand: it is too slow for every import."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("plugrad-attribution")
