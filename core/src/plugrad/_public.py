"""Public functions and classes carry the name of the module they are imported from."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from .tensor.hints import hide_unknown


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
        module.setdefault("__getattr__", lambda name: _missing(module, name))
    for value in [*module.values()]:
        if hasattr(value, "__qualname__") and _is_private(value.__module__):
            value.__module__ = module["__name__"]
            hide_unknown(value)


def _missing(module: dict[str, Any], name: str) -> Any:
    """Raise the AttributeError about a name that a public module lacks."""
    about = f"module {module['__name__']!r} has no attribute {name!r}"
    if not name.startswith("_"):
        names = import_module("plugrad.tools.names")  # only where it is needed
        about = names.missing(name, module["__all__"], module["__name__"])
    raise AttributeError(about)


@functools.cache  # of a few modules
def _is_private(module: str) -> bool:
    first, *inner = module.split(".")
    return first == "plugrad" and (len(inner) > 1 or "_" in [n[:1] for n in inner])
