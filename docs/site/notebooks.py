"""Pages of notebooks: the cells and the outputs of an ``.ipynb`` file as Markdown.

The outputs are those in the file: ``make notebooks`` executed it. A picture becomes a
separate file.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import PurePosixPath
from typing import Any

from . import links

PICTURE = r"!\[([^\]]*)\]\(gallery/{}\.png\)"  # in docs/gallery.md


def convert(text: str, source: str, page: str) -> tuple[str, dict[str, bytes]]:
    r"""Return the Markdown of a notebook, and its pictures by their path on the site.

    Args:
        text: The notebook, as JSON.
        source: Its path in the repository.
        page: Its path on the site.

    Examples:
        >>> outputs = [{"output_type": "stream", "text": ["1\n"]}]
        >>> cell = {"cell_type": "code", "source": ["print(1)"], "outputs": outputs}
        >>> title = {"cell_type": "markdown", "source": ["# A"]}
        >>> text = json.dumps({"cells": [title, cell]})
        >>> convert(text, "a.ipynb", "a.md")[0].partition("ipynb).\n\n")[2]
        '```python\nprint(1)\n```\n\n```text\n1\n```\n'

    """
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(text)["cells"]:
        lines = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(f"{links.relink(lines, source, page)}\n")
            continue
        parts.append(f"```python\n{lines}\n```\n")
        for output in cell["outputs"]:
            parts.append(_output(output, page, pictures))
    file = PurePosixPath(source).name
    parts.insert(1, f"The notebook: [{file}]({links.repository_url()}{source}).\n")
    return "\n".join(parts), pictures


def _output(output: dict[str, Any], page: str, pictures: dict[str, bytes]) -> str:
    """Return the Markdown of an output; if it is a picture, add it to ``pictures``."""
    data = {kind: "".join(lines) for kind, lines in output.get("data", {}).items()}
    if "image/png" in data:
        path = PurePosixPath(page).with_suffix(f".{len(pictures) + 1}.png")
        pictures[str(path)] = base64.b64decode(data["image/png"])
        return f"![{_alternative(path.name.partition('.')[0])}]({path.name})\n"
    if "text/html" in data:
        return f'<div class="notebook-output">{data["text/html"]}</div>\n'
    shown = "".join(output.get("text", [])) or data.get("text/plain", "")
    if not shown:
        raise ValueError(
            f"{page}: cannot show output of type {output['output_type']!r}"
        )
    return f"```text\n{shown.rstrip()}\n```\n"


def _alternative(name: str) -> str:
    """Return the alternative text of a picture, as in the gallery."""
    gallery = (links.ROOT / "docs" / "gallery.md").read_text()
    found = re.search(PICTURE.format(re.escape(name)), gallery)
    return " ".join(found[1].split()) if found else ""
