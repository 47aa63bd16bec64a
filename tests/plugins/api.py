"""The surface that docs/stability.md promises, as lines of text.

``python -m tests.plugins.api`` records it in ``api.txt``. Run this for each release,
when the changelog gets a new section.
"""

import ast
import inspect
import re
from pathlib import Path
from types import FunctionType
from typing import get_origin

from plugrad import geometry, importing, plugin
from plugrad._src.registry import hooks
from plugrad.plugin import GROUP

ROOT = Path(__file__).parents[2]
RELEASED = Path(__file__).with_name("api.txt")


def surface():
    """Return every promised item and its current form, such as a signature."""
    found = {"GROUP": repr(GROUP)}
    items = {name: getattr(plugin, name) for name in plugin.__all__}
    for module in (geometry, importing):
        space = module.__name__.removeprefix("plugrad.")
        items |= {f"{space}.{name}": getattr(module, name) for name in module.__all__}
    for name, value in items.items():
        value = inspect.unwrap(value)
        if inspect.isclass(value):
            found |= dict(_of_class(name, value))
        elif isinstance(value, FunctionType):
            found[name] = _signature(value)
        elif get_origin(value) is not None:
            found[name] = "alias"  # Python versions print types differently
        else:
            found.setdefault(name, type(value).__name__)
    for name, value in vars(hooks).items():
        if hasattr(value, "plugrad_spec"):
            found[name] = _signature(value)
    return found


def _of_class(name, value):
    if name == "Tensor":  # its members are documented for users
        yield name, "class"
        return
    members = vars(value)
    if "_is_protocol" in members:
        yield name, "protocol"
    elif "_fields" in members:
        yield name, ", ".join(value._fields)
    else:
        yield name, _signature(value) if "__init__" in members else "class"
    fields = members.get("__dataclass_fields__", {})
    for field in fields.values():
        yield f"{name}.{field.name}", field.type
    for member, attribute in members.items():
        public = member[0] != "_" or member == "__call__"
        if name == "Kernel" and isinstance(attribute, FunctionType):
            continue  # methods are for the engine; authors read fields
        if public and member not in fields:
            function = isinstance(attribute, FunctionType)
            yield f"{name}.{member}", _signature(attribute) if function else "attribute"


def _signature(value):
    """Return a signature without the addresses of functions."""
    return re.sub(
        r"<function .*? at 0x[0-9a-f]+>", "...", str(inspect.signature(value))
    )


def released():
    """Return the surface that was recorded at the last release."""
    lines = [line for line in RELEASED.read_text().splitlines() if line[:1] != "#"]
    return dict(line.split(": ", 1) for line in lines)


def unreleased():
    """Return the changelog's section about the next version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    return re.split(r"^## ", text, flags=re.M)[1]


def unnamed(before, now, changelog):
    """Return the changed items that the changelog does not name.

    The name of a new module covers all its items.
    """
    changed = {n for n in before.keys() | now.keys() if before.get(n) != now.get(n)}
    spaces = {_module(name) for name in now} - {_module(name) for name in before}
    announced = {space for space in spaces if f"`plugrad.{space}`" in changelog}
    changed = {name for name in changed if _module(name) not in announced}
    return sorted(name for name in changed if f"`{name}`" not in changelog)


def _module(name):
    """Return the module of an item; "" for the items of ``plugrad.plugin``."""
    first = name.partition(".")[0]
    return first if first[0].islower() and "." in name else ""


def breaking(before, now):
    """Return the items whose change may break a plugin that uses them."""
    return sorted(
        n for n, form in before.items() if not _is_compatible(form, now.get(n))
    )


def _is_compatible(before, now):
    """Return whether plugins that use an item still work."""
    if now is None or now == before:
        return now is not None
    old = _parameters(before)
    new = _parameters(now)
    if old is None or new is None:  # a list of fields, which a named tuple may extend
        return before != "protocol" and now.startswith(f"{before}, ")
    added = [name for name in new if name not in old]
    common = {name: parameter for name, parameter in new.items() if name in old}
    by_position = [n for n, (kind, _) in old.items() if kind == "position"]
    return (
        common == old
        and [*new][: len(by_position)] == by_position
        and all(new[name][1] != "required" for name in added)
    )


def _parameters(form):
    """Return kind and default of each parameter in a signature; None for others."""
    if not form.startswith("("):
        return None
    readable = re.sub(r"<\w+>", "...", form)  # such as <factory>
    (function,) = ast.parse(f"def f{readable}: pass").body
    args = function.args
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + args.defaults
    found = {a.arg: ("position", d) for a, d in zip(positional, defaults, strict=True)}
    named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    found |= {a.arg: ("keyword", d) for a, d in named}
    rest = [star.arg for star in (args.vararg, args.kwarg) if star]
    return {
        name: (kind, "required" if d is None else ast.unparse(d))
        for name, (kind, d) in found.items()
    } | {name: ("star", "") for name in rest}


def write():
    """Record the surface and the version of the core."""
    project = (ROOT / "core" / "pyproject.toml").read_text()
    version = re.search(r'^version = "(.*)"', project, re.M)[1]
    lines = [f"# The surface of {version}, written by python -m tests.plugins.api"]
    lines += [f"{name}: {form}" for name, form in sorted(surface().items())]
    RELEASED.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()
