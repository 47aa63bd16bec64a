"""A Griffe extension that adapts plugrad's docstrings to mkdocstrings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from griffe import Class, Extension, Function, Object

from docs.site import links


class Docstrings(Extension):
    """Rename ``Example`` sections, and turn literal blocks into Markdown.

    The docstring of a function or class ends with a link to its code. The parameter
    ``**unknown``, by which ops refuse unknown keywords, is hidden.
    """

    def on_object(self, *, obj: Object, **others: Any) -> None:
        """Rewrite a docstring."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)(?<=\S)::$", ":", text) + _link(obj)
        if isinstance(obj, Function) and "unknown" in obj.parameters:
            del obj.parameters["unknown"]


def _link(obj: Object) -> str:
    """Return the link to the code of a function or class, as a paragraph."""
    if not isinstance(obj, Class | Function) or not isinstance(obj.filepath, Path):
        return ""
    url = links.source_url(obj.filepath.resolve(), obj.lineno or 1)
    return f"\n\n[Source of {obj.name}]({url}){{ .source }}" if url else ""
