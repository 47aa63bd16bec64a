"""A Griffe extension that adapts plugrad's docstrings to mkdocstrings."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import plugrad as pg
from griffe import Class, Docstring, Extension, Function, Object

from docs.site import links

METHODS = "plugrad._src.tensor.methods.Methods"


class Docstrings(Extension):
    """Rename ``Example`` sections, and turn literal blocks into Markdown.

    The docstring of a function or class ends with a link to its code. A method that is
    an op has only a signature; it gets a link to the op. The parameter ``**unknown``,
    with which ops reject unknown keywords, is hidden.
    """

    def on_object(self, *, obj: Object, **others: Any) -> None:
        """Rewrite the docstring of an object, and hide the parameter ``unknown``."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)(?<=\S)::$", ":", text) + _link(obj)
        elif _path_of_parent(obj) == METHODS and (text := _op_method(obj.name)):
            obj.docstring = Docstring(text, parent=obj)
        if isinstance(obj, Function) and "unknown" in obj.parameters:
            del obj.parameters["unknown"]


def _path_of_parent(obj: Object) -> str:
    return "" if obj.parent is None else obj.parent.path


def _link(obj: Object) -> str:
    """Return the link to the code of a function or class, as a paragraph."""
    if not isinstance(obj, Class | Function) or not isinstance(obj.filepath, Path):
        return ""
    return _link_to(obj.name, obj.filepath, obj.lineno or 1)


def _op_method(name: str) -> str:
    """Return the docstring of a method that is an op with the tensor as an argument."""
    op = inspect.unwrap(getattr(pg.Tensor, name))
    code = getattr(op, "__code__", None)
    if code is None or name.startswith("_"):
        return ""
    text = f"The op [`plugrad.{name}`][], with this tensor as its first argument."
    if getattr(pg, name, None) is None:
        text = "An op, with this tensor as its first argument."
    return text + _link_to(name, Path(code.co_filename), code.co_firstlineno)


def _link_to(name: str, path: Path, line: int) -> str:
    url = links.source_url(path.resolve(), line)
    if url is None:
        return ""
    return f"\n\n[Code of `{name}`]({url}){{ .source data-search-exclude }}"
