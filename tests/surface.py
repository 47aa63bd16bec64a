"""What plugrad offers, as the tests of completeness see it."""

import inspect
from types import FunctionType, ModuleType

import plugrad as pg


def namespaces():
    """Return plugrad's public namespaces by name; "" is plugrad itself."""
    found = {name: getattr(pg, name) for name in pg.__all__}
    return {"": pg} | {n: m for n, m in found.items() if isinstance(m, ModuleType)}


def public():
    """Return every public function and class by its dotted name.

    A namespace offers what its ``__all__`` says, or all of its own functions; what is
    public at the top already is listed there.
    """
    found = {
        name: value
        for name in pg.__all__
        if not isinstance(value := getattr(pg, name), ModuleType)
    }
    top = [value for value in found.values() if callable(value)]
    for space, module in namespaces().items():
        if space == "":
            continue
        listed = hasattr(module, "__all__")
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            own = getattr(value, "__module__", None) == module.__name__
            public = isinstance(value, FunctionType) and name[0] != "_"
            if listed or (own and public and not any(value is t for t in top)):
                found[f"{space}.{name}"] = value
    return found


def ops():
    """Return the public functions that take or make tensors: those of ``ops``."""
    return {
        name: value
        for name, value in public().items()
        if inspect.isfunction(value)
        and value.__module__.startswith("plugrad.ops")
        and value not in (pg.custom_grad, pg.engine, pg.run_kernel)
    }
