"""Modules, their attributes and submodules, and imports inside functions."""

import importlib
import sys
import types

from .harness import NAMES, importable, module, pattern, sets_attr, sets_item

KIND = "modules and imports"


def settings(undo, rate=2.0):
    """Return a module that can be imported, and its name."""
    new = importable(undo, f"rate = {rate}")
    return new, new.__name__


@pattern(KIND)
def an_attribute_of_a_captured_module():
    cfg = module("rate = 2.0")
    return lambda x: x * cfg.rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_module_of_a_module():
    cfg = module("rate = 2.0")
    owner = module("")
    owner.cfg = cfg
    return (
        lambda x: x * owner.cfg.rate,
        sets_attr(cfg, "rate", 3.0),
        sets_attr(owner, "cfg", module("rate = 4.0")),
    )


@pattern(KIND)
def an_import_in_the_function(undo):
    cfg, name = settings(undo)
    m = module(f"""
        def f(x):
            import {name} as cfg
            return x * cfg.rate
    """)
    return m.f, sets_attr(cfg, "rate", 3.0), sets_attr(cfg, "rate", 4.0)


@pattern(KIND)
def an_import_of_a_name_in_the_function(undo):
    cfg, name = settings(undo)
    m = module(f"""
        def f(x):
            from {name} import rate
            return x * rate
    """)
    return m.f, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_import_of_a_function_in_the_function(undo):
    cfg = importable(undo, "rate = 2.0\ndef scale(x):\n    return x * rate")
    m = module(f"""
        def f(x):
            from {cfg.__name__} import scale
            return scale(x)
    """)
    return m.f, sets_attr(cfg, "rate", 3.0), sets_attr(cfg, "scale", lambda x: x * 4.0)


@pattern(KIND)
def an_imported_module_is_replaced(undo):
    _, name = settings(undo)
    m = module(f"""
        def f(x):
            import {name} as cfg
            return x * cfg.rate
    """)
    return m.f, sets_item(sys.modules, name, module("rate = 3.0", name))


@pattern(KIND)
def an_import_by_importlib(undo):
    cfg, name = settings(undo)
    return lambda x: x * importlib.import_module(name).rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_entry_of_sys_modules(undo):
    cfg, name = settings(undo)
    return lambda x: x * sys.modules[name].rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_import_by_its_function(undo):
    cfg, name = settings(undo)
    return lambda x: x * __import__(name).rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_optional_import_succeeds_later(undo):
    name = f"optional_{next(NAMES)}"
    m = module(f"""
        def f(x):
            try:
                import {name}
            except ImportError:
                return x
            return x * {name}.rate
    """)
    new = module("rate = 3.0", name)
    undo(sys.modules.pop, name, None)
    return m.f, sets_item(sys.modules, name, new), lambda: sys.modules.pop(name)


@pattern(KIND)
def a_submodule(undo):
    package = importable(undo, "__path__ = []")
    name = f"{package.__name__}.inner"
    package.inner = importable(undo, "rate = 2.0", name)
    m = module(f"""
        import {name}

        def f(x):
            return x * {name}.rate
    """)
    return (
        m.f,
        sets_attr(package.inner, "rate", 3.0),
        sets_attr(package, "inner", module("rate = 4.0")),
    )


@pattern(KIND)
def a_submodule_that_is_imported_in_the_function(undo):
    package = importable(undo, "__path__ = []")
    name = f"{package.__name__}.inner"
    inner = package.inner = importable(undo, "rate = 2.0", name)
    m = module(f"""
        def f(x):
            from {package.__name__} import inner
            return x * inner.rate
    """)
    return m.f, sets_attr(inner, "rate", 3.0)


@pattern(KIND)
def the_getattr_of_a_module():
    cfg = module("""
        table = {"rate": 2.0}

        def __getattr__(name):
            return table[name]
    """)
    return (
        lambda x: x * cfg.rate,
        sets_item(cfg.table, "rate", 3.0),
        sets_attr(cfg, "rate", 4.0),
    )


@pattern(KIND)
def a_module_class_with_a_property():
    class Settings(types.ModuleType):
        @property
        def rate(self):
            return self.hidden

    cfg = Settings("cfg")
    cfg.hidden = 2.0
    return lambda x: x * cfg.rate, sets_attr(cfg, "hidden", 3.0)


@pattern(KIND)
def the_dict_of_a_module():
    cfg = module("rate = 2.0")
    return lambda x: x * cfg.__dict__["rate"], sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def the_vars_of_a_module():
    cfg = module("rate = 2.0")
    return lambda x: x * vars(cfg)["rate"], sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_module_by_a_computed_name():
    cfg = module("learning_rate = 2.0")
    name = ["rate"]
    return lambda x: x * getattr(cfg, f"learning_{name[0]}"), sets_attr(
        cfg, "learning_rate", 3.0
    )


@pattern(KIND)
def the_globals_of_the_function():
    m = module("""
        rate = 2.0

        def f(x):
            return x * globals()["rate"]
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_of_an_installed_helper():
    m = module(
        """
        rate = 2.0

        def scale(x):
            return x * rate
        """,
        file="/opt/lib/python3/site-packages/installed/helper.py",
    )
    return lambda x: m.scale(x), sets_attr(m, "rate", 3.0)


@pattern(KIND)
def an_installed_model():
    m = module(
        """
        SETTINGS = {"shift": 1.0}

        class Model:
            def __init__(self):
                self.rate, self.training = 2.0, True

            def __call__(self, x):
                y = x * self.rate if self.training else x
                return y + SETTINGS["shift"]
        """,
        file="/opt/lib/python3/site-packages/installed/model.py",
    )
    model = m.Model()
    return (
        model,
        sets_attr(model, "rate", 3.0),
        sets_attr(model, "training", False),
        sets_item(m.SETTINGS, "shift", 5.0),
    )


@pattern(KIND)
def a_global_of_a_helper_of_another_module():
    inner = module("rate = 2.0\ndef scale(x):\n    return x * rate")
    m = module("""
        def f(x):
            return scale(x)
    """)
    m.scale = inner.scale
    return m.f, sets_attr(inner, "rate", 3.0)


@pattern(KIND)
def a_class_of_a_module_is_replaced():
    m = module("""
        class Layer:
            rate = 2.0

        def f(x):
            return x * Layer().rate
    """)
    return m.f, sets_attr(m, "Layer", type("Layer", (), {"rate": 3.0}))


@pattern(KIND)
def a_global_dict_is_replaced_by_another():
    m = module("""
        CFG = {"rate": 2.0}

        def f(x):
            return x * CFG["rate"]
    """)
    return m.f, sets_attr(m, "CFG", {"rate": 3.0}), lambda: m.CFG.update(rate=4.0)
