"""Public functions and classes carry the name of the module they are imported from."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .tensor.hints import hide_unknown

PRIVATE = f"{__name__.rpartition('.')[0]}."  # the package of all private modules


def publish(module: dict[str, Any], *others: object) -> None:
    """Set the ``__module__`` of all exports of a public module to that module's name.

    Tracebacks, pickles and ``help`` then show ``plugrad.grad``, which is where users
    find it. A value that another public module has already published keeps its name.

    Args:
        module: The ``globals()`` of the public module, whose ``__all__`` is exported.
        others: Other values that users meet, such as the classes of results.

    """
    exported = [module[name] for name in module["__all__"] if name in module]
    for value in (*exported, *others):
        name_publicly(value, module["__name__"])
    module.setdefault("__getattr__", lambda name: _missing(module, name))
    # Tab completion calls ``__dir__``.
    module.setdefault("__dir__", lambda: sorted(module["__all__"]))


def name_publicly(value: Any, module: str) -> None:
    """Set the ``__module__`` of a function or class that a private module defines."""
    if hasattr(value, "__qualname__") and value.__module__.startswith(PRIVATE):
        value.__module__ = module
        hide_unknown(value)


def _missing(module: dict[str, Any], name: str) -> Any:
    """Raise the AttributeError about a name that a public module lacks."""
    about = f"module {module['__name__']!r} has no attribute {name!r}"
    if not name.startswith("_"):
        names = import_module(f"{PRIVATE}tools.names")  # imported only when needed
        about = names.missing(name, module["__all__"], module["__name__"])
    raise AttributeError(about)
