"""A Griffe extension that adapts plugrad's docstrings to mkdocstrings."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function, Object


class Docstrings(Extension):
    """Rename ``Example`` sections, and turn literal blocks into Markdown.

    The parameter ``**unknown``, by which ops refuse unknown keywords, is hidden.
    """

    def on_object(self, *, obj: Object, **others: Any) -> None:
        """Rewrite a docstring."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)(?<=\S)::$", ":", text)
        if isinstance(obj, Function) and "unknown" in obj.parameters:
            del obj.parameters["unknown"]
