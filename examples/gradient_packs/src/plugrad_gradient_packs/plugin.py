"""The entry-point module: names the packs, and imports their rules at first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plugrad.plugin import GradientPack, hookimpl

if TYPE_CHECKING:
    from .rules import Rules


def pack(name: str, *, linear: bool) -> GradientPack:
    """Return the pack whose rules have this name in the module ``rules``."""

    def open_pack() -> Rules:
        from . import rules

        return rules.PACKS[name]

    return GradientPack(name, open=open_pack, linear=linear)


@hookimpl
def plugrad_gradients() -> list[GradientPack]:
    """Return the packs; jvp works only with rules that are linear in the cotangent."""
    return [
        pack("clipped", linear=False),
        pack("deconvnet", linear=False),
        pack("guided", linear=False),
        pack("reversed", linear=True),
        pack("straight_through", linear=True),
    ]
