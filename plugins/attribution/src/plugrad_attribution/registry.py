"""Composites by name: those of this package, and those of installed distributions.

A distribution publishes a composite as an entry point of the group
``plugrad_attribution.composites``. The object is a function that returns a
``Composite``, such as its class. The name begins with that of the distribution's
package, as in ``my_rules.AbsoluteShares``.

Contents: ``composite`` and ``composite_names``; entry points.
"""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from . import composites
from .composites import Composite

GROUP = "plugrad_attribution.composites"


def composite(name: str, **options: Any) -> Composite:
    """Return a new composite, given its name.

    The composites of this package have the names of their classes, such as
    ``"EpsilonPlus"``. Another distribution cannot replace them.

    Args:
        name: One of ``composite_names()``.
        options: The options of the composite.

    Raises:
        TypeError: ``name`` is not a string, an option does not fit, or a distribution
            has published something other than a composite.
        ValueError: The name is unknown, or two distributions have published it.
        ImportError: A distribution has published the composite, but it cannot be
            imported.

    Example:
        >>> import plugrad_attribution as attr
        >>> attr.composite("EpsilonPlus", epsilon=0.25).dense
        Epsilon(epsilon=0.25)

    """
    if not isinstance(name, str):
        raise TypeError(f"composite: name must be a string, got {name!r}")
    if name in composites.__all__:
        own: Composite = getattr(composites, name)(**options)
        return own
    point = _entry_point(name)
    owner = _distribution(point)
    try:
        create = point.load()
    except Exception as error:
        raise ImportError(
            f"composite: {name!r} of {owner} cannot be imported from {point.value!r}: "
            f"{error}"
        ) from error
    found = create(**options) if callable(create) else create
    if not isinstance(found, Composite):
        raise TypeError(
            f"composite: {name!r} of {owner} must be a function that returns a "
            f"Composite, got {found!r} from {point.value!r}"
        )
    return found


def composite_names() -> list[str]:
    """Return the names of all composites: of this package, and of other distributions.

    Returns:
        The names, sorted, which ``composite`` accepts.

    Example:
        >>> import plugrad_attribution as attr
        >>> [name for name in attr.composite_names() if name.startswith("EpsilonP")]
        ['EpsilonPlus', 'EpsilonPlusFlat']

    """
    published = {point.name for point in entry_points(group=GROUP)}
    return sorted({*composites.__all__, *published})


# --- entry points ----------------------------------------------------------------


def _entry_point(name: str) -> EntryPoint:
    """Return the entry point of this name.

    Raises:
        ValueError: There is none, or more than one.

    """
    found = [*entry_points(group=GROUP, name=name)]
    if len(found) > 1:
        owners = " and ".join(sorted(_distribution(point) for point in found))
        raise ValueError(
            f"composite: both {owners} have published {name!r}; uninstall one of them"
        )
    if found:
        return found[0]
    names = composite_names()
    raise ValueError(
        f"composite: unknown name {name!r}{_suggestion(name, names)}; installed: "
        f"{', '.join(names)}"
    )


def _distribution(point: EntryPoint) -> str:
    """Return the name and version of the distribution that provides an entry point."""
    if point.dist is None:
        return "an unknown distribution"
    return f"{point.dist.name} {point.dist.version}"


def _suggestion(name: str, names: list[str]) -> str:
    """Return a "did you mean" for the most similar name; empty if none is similar."""
    by_letters = {_letters(other): other for other in names}
    near = difflib.get_close_matches(_letters(name), by_letters, n=1)
    return f"; did you mean {by_letters[near[0]]!r}?" if near else ""


def _letters(name: str) -> str:
    """Normalize a name for comparisons: ``epsilon_plus`` equals ``EpsilonPlus``."""
    return name.replace("_", "").lower()


__all__ = ["composite", "composite_names"]
