"""Public functions and classes carry the name of the module they are imported from."""

from __future__ import annotations

from typing import Any


def publish(module: dict[str, Any]) -> None:
    """Set the ``__module__`` of what a public module has imported from private ones.

    Tracebacks, pickles and ``help`` then show ``plugrad.grad``, which is where users
    find it. A public module lies directly in ``plugrad``; what another public module
    has published before keeps its name.

    Args:
        module: The ``globals()`` of the public module.

    """
    if "__all__" in module and module["__name__"] != "plugrad":
        module["__dir__"] = lambda: sorted(module["__all__"])  # for completion
    for value in [*module.values()]:
        if hasattr(value, "__qualname__") and _is_private(value.__module__):
            value.__module__ = module["__name__"]


def _is_private(module: str) -> bool:
    first, *inner = module.split(".")
    return first == "plugrad" and (len(inner) > 1 or "_" in [n[:1] for n in inner])
