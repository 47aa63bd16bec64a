"""Makes Keras accept the backend "plugrad", although Keras does not list it.

Keras imports ``keras_<backend>`` for the names in ``PLUGGABLE_BACKENDS``, a set in
``keras.src.backend.config`` that other packages cannot add to. Python imports this
module at startup (see ``keras_plugrad.pth``), so it imports nothing itself. When a
program imports Keras, the module adds the name to the set.

Delete this module when Keras accepts the name of any installed package
``keras_<backend>``. It was tried with Keras 3.16.0.dev2026102704.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

BACKEND = "plugrad"
CONFIG = "keras.src.backend.config"
NAMES = "PLUGGABLE_BACKENDS"


def add_name(config: ModuleType) -> None:
    """Add plugrad to the names that Keras accepts.

    Raises:
        ImportError: The program selects plugrad, but this Keras has no such set.

    """
    if not hasattr(config, NAMES):
        if config.backend() != BACKEND:
            return
        raise ImportError(
            "keras-plugrad needs Keras 3.16 or later, because only it accepts backends "
            "from other packages; uninstall keras, and install keras-nightly"
        )
    names = frozenset([*getattr(config, NAMES), BACKEND])
    # Modules that the configuration imports have copied the set already.
    for name, module in list(sys.modules.items()):
        if name.startswith("keras.") and NAMES in getattr(module, "__dict__", ()):
            setattr(module, NAMES, names)


class Finder:
    """Finds Keras' configuration, and nothing else."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: Any = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return the specification of the configuration; running it adds the name."""
        if fullname != CONFIG:
            return None
        from importlib.machinery import PathFinder

        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            add_name(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Wait for Keras' configuration; change it now if it has been imported."""
    config = sys.modules.get(CONFIG)
    if config is not None:
        add_name(config)
    elif Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


install()
