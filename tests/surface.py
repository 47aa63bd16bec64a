"""plugrad's public names, for tests of completeness."""

import inspect
from types import ModuleType

import numpy as np
import plugrad as pg

CONSTANT_TYPES = np.dtype | float | str | None  # pg.float32, pg.pi, pg.newaxis


def namespaces():
    """Return plugrad's public namespaces by name; "" is plugrad itself."""
    found = {name: getattr(pg, name) for name in pg.__all__}
    return {"": pg} | {n: m for n, m in found.items() if isinstance(m, ModuleType)}


def public():
    """Return every public function, class and type by its dotted name."""
    return {
        f"{space}.{name}".removeprefix("."): value
        for space, module in namespaces().items()
        for name in module.__all__
        if not isinstance(value := getattr(module, name), ModuleType | CONSTANT_TYPES)
    }


def ops():
    """Return the public functions that take or make tensors: those of ``ops``."""
    return {
        name: value
        for name, value in public().items()
        if inspect.isfunction(value)
        and value.__globals__["__name__"].startswith("plugrad._src.ops")
        and value not in (pg.custom_grad, pg.engine, pg.run_kernel)
    }
