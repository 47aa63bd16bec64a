"""Helpers for the steps of a graph, used throughout the compiler."""

from __future__ import annotations

from plugrad.plugin import Step

VIEW = "BroadcastTo"  # the kernel that returns a view and computes no element


def values(step: Step) -> list[int]:
    """Return the values that a step reads."""
    return [x for x in step.inputs if x is not None]
