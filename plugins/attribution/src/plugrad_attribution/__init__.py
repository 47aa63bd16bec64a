"""Attribution with plugrad: ``import plugrad_attribution as attr``.

The relevance of an input is computed by a backward pass in which kernels have modified
gradients. This package contains these gradients, as gradient overrides for plugrad, and
the functions that apply them.

A module is imported when one of its names is first used, because plugrad imports this
package whenever it loads entry points.

Read in this order: ``layers``, what a layer is; ``rules``, how relevance is
distributed; ``kernels``, everything that is not a layer; ``compositions``, functions
that models compose from several kernels; ``first``, the layer that reads the input;
``composites``, which rule applies where; ``registry``, composites by name; ``flows``,
how relevance is observed on its way through the model; ``ledger`` and ``places``, the
records of these observations; ``attribution`` and ``covered``, the functions that users
call. ``gradients``, ``deeplift`` and ``inner`` contain the methods that need no
composite. ``surrogates`` contains the gradients of spikes, and ``plugin`` publishes
them as packs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import surrogates
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
    from .covered import Coverage, Covered, coverage
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
    from .ledger import Ledger, Row
    from .registry import composite, composite_names
    from .rules import AlphaBeta, Box, Epsilon, Flat, Gamma, WSquare, ZPlus

__all__ = [
    "CPLRP",
    "AlphaBeta",
    "AttnLRP",
    "Attribution",
    "Box",
    "Composite",
    "Contributions",
    "Coverage",
    "Covered",
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
    "Ledger",
    "MissingRule",
    "Patching",
    "RelP",
    "Row",
    "WSquare",
    "ZPlus",
    "attribute",
    "composite",
    "composite_names",
    "coverage",
    "deconvnet",
    "deep_lift",
    "deep_shap",
    "grad_cam",
    "guided_backprop",
    "integrated_gradients",
    "patching",
    "smooth_grad",
    "surrogates",
]
_MODULES = (
    "attribution",
    "composites",
    "covered",
    "deeplift",
    "gradients",
    "inner",
    "kernels",
    "layers",
    "ledger",
    "registry",
    "rules",
)


def __getattr__(name: str) -> Any:
    """Look up a public name or the version on first use."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-attribution")
    if name == "surrogates":
        return import_module(f"{__name__}.surrogates")
    for module in _MODULES if name in __all__ else ():
        found = import_module(f"{__name__}.{module}")
        if name in found.__dict__:
            globals()[name] = found.__dict__[name]
            return found.__dict__[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
