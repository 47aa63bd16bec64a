"""The rules of the packs: functions of the cotangent ``dy`` and of residuals.

========================  ================  ==========================================
pack                      kernels           gradient
========================  ================  ==========================================
guided                    Relu Relu6        dy where dy > 0 and the unit was active
deconvnet                 Relu Relu6        dy where dy > 0, active or not
straight_through          Round Floor Ceil  dy
straight_through          Sign              dy where ``|x| <= 1``
clipped                   Identity          dy, clipped to [-1, 1]
reversed                  Identity          -dy
========================  ================  ==========================================

Sources: guided, Springenberg et al., arXiv:1412.6806; deconvnet, Zeiler and Fergus,
arXiv:1311.2901; straight through, Bengio et al., arXiv:1308.3432, and for Sign, Hubara
et al., arXiv:1602.02830; reversed, Ganin and Lempitsky, arXiv:1409.7495.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import plugrad as pg
from plugrad import Tensor


def positive(dy: Tensor) -> Tensor:
    """Return the positive part of the cotangent."""
    return pg.where(dy > 0, dy, 0.0)


def guided_relu(dy: Tensor, y: Tensor) -> Tensor:
    """Return ``positive(dy)`` where the unit was active, ``y > 0``."""
    return pg.where(y > 0, positive(dy), 0.0)


def guided_relu6(dy: Tensor, y: Tensor) -> Tensor:
    """Return ``positive(dy)`` where the unit was active and not saturated."""
    return pg.where((y > 0) & (y < 6), positive(dy), 0.0)


def straight(dy: Tensor) -> Tensor:
    """Return the cotangent as if the function were the identity."""
    return dy


def straight_sign(dy: Tensor, x: Tensor) -> Tensor:
    """Return the gradient of ``clip(x, -1, 1)``, which approximates a sign."""
    return pg.where(pg.abs(x) <= 1, dy, 0.0)


def clipped(dy: Tensor) -> Tensor:
    """Return the cotangent, each element clipped to [-1, 1]."""
    return pg.clip(dy, -1.0, 1.0)


def reversed_(dy: Tensor) -> Tensor:
    """Return the negated cotangent."""
    return -dy


Rules = Mapping[str, Mapping[str, Callable[..., Tensor]]]

PACKS: dict[str, Rules] = {
    "clipped": {"Identity": {"x": clipped}},
    "deconvnet": {"Relu": {"x": positive}, "Relu6": {"x": positive}},
    "guided": {"Relu": {"x": guided_relu}, "Relu6": {"x": guided_relu6}},
    "reversed": {"Identity": {"x": reversed_}},
    "straight_through": {
        "Round": {"x": straight},
        "Floor": {"x": straight},
        "Ceil": {"x": straight},
        "Sign": {"x": straight_sign},
    },
}
