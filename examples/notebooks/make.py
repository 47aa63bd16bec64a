"""Make the notebooks of three scripts of the gallery, and execute them.

A cell is a definition of the script, its text is the first cell, and the last one runs
it and shows its picture::

    make notebooks
"""

from __future__ import annotations

import ast
import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SCRIPTS = ("quantize", "bilevel", "privacy")


def cells_of(name: str) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell of a script."""
    source = (HERE.parent / "gallery" / f"{name}.py").read_text()
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    text = text.partition("::\n")[0]
    link = (
        f"The script: [{name}.py](../gallery/{name}.py). `make notebooks` wrote this."
    )
    code = source.split('"""', 2)[2].partition('\nif __name__ == "__main__"')[0]
    run = f'from IPython.display import Image\n\nmain(["--out", "{name}.png"])'
    cells = [("markdown", f"# {title.rstrip('.')}\n{text}.\n\n{link}")]
    cells += [("code", part.strip()) for part in code.split("\n\n\n")]
    return [*cells, ("code", f'{run}\nImage("{name}.png")')]


def notebook_of(name: str) -> Any:
    """Return the notebook of a script, not executed."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    for number, (kind, source) in enumerate(cells_of(name)):
        new = getattr(nbformat.v4, f"new_{kind}_cell")
        notebook.cells.append(new(source, id=f"cell-{number}"))
    return notebook


def executed(name: str, folder: Path) -> Any:
    """Return the notebook of a script with its outputs; it writes into a folder."""
    notebook = notebook_of(name)
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, resources=resources, record_timing=False)
    client.execute(env=os.environ | {"PYTHONWARNINGS": "ignore"})
    return notebook


def main() -> None:
    """Write all notebooks."""
    from tempfile import TemporaryDirectory

    for name in SCRIPTS:
        with TemporaryDirectory() as folder:
            nbformat.write(executed(name, Path(folder)), HERE / f"{name}.ipynb")
        print(f"examples/notebooks/{name}.ipynb")


if __name__ == "__main__":
    main()
