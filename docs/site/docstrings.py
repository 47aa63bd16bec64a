"""An extension of Griffe: docstrings of plugrad as mkdocstrings wants them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function, Object


class Docstrings(Extension):
    """Examples become a section of that name, and literal blocks Markdown's.

    A function that refuses unknown keywords itself does not show ``**unknown``.
    """

    def on_object(self, *, obj: Object, **others: Any) -> None:
        """Rewrite a docstring."""
        if obj.docstring is not None:
            text = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)
            obj.docstring.value = re.sub(r"(?m)(?<=\S)::$", ":", text)
        if isinstance(obj, Function) and "unknown" in obj.parameters:
            del obj.parameters["unknown"]
