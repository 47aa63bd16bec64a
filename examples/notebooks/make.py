"""Write and execute the notebooks of three gallery scripts.

The first cell is the docstring of the script. Each following cell contains one of its
definitions; then a cell runs the script and shows its picture. Some notebooks end with
cells that inspect the results::

    make notebooks
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SCRIPTS = ("quantize", "bilevel", "privacy")
SMALLER = {  # arguments for quick tests
    "quantize": ["--epochs", "1"],
    "bilevel": ["--steps", "3"],
    "privacy": ["--steps", "10"],
}

# The cells at the end of a notebook, by the name of its script.
EXTRA_CELLS = {
    "quantize": [
        (
            "markdown",
            "## Look inside\n\nNotebooks show the results of plugrad as tables. "
            "`fit` returns the metrics of its reports:",
        ),
        (
            "code",
            """\
data, test = load()


def loss(params, batch):
    \"\"\"Return the mean loss of a batch, with weights of three bits.\"\"\"
    x, y = batch
    logits = logits_of(params, x, bits=3)
    return pg.losses.sparse_softmax_cross_entropy(y, logits)


with pg.use_gradients("straight_through", kernels=["Round"]):
    batches = pt.Batches(data, 32, shuffle=0)
    fitted = pt.fit(loss, new_params(), pt.adam(3e-3), batches, epochs=3)
fitted""",
        ),
        (
            "markdown",
            "`explain` lists the kernels of a result and the gradient of each input: "
            "the two `Round` kernels have the gradient of the pack, the others that of "
            "plugrad.",
        ),
        (
            "code",
            """\
batch = next(iter(batches))
with pg.use_gradients("straight_through", kernels=["Round"]):
    value, pullback = pg.vjp(lambda params: loss(params, batch), fitted.params)
    explanation = pg.explain(value)
explanation""",
        ),
        ("markdown", "`profile` measures the kernels of a block, here the gradients:"),
        ("code", "with pg.profile() as profile:\n    pullback(1.0)\nprofile"),
        ("markdown", "Tensors are shown with their values, shape, dtype and backend:"),
        ("code", 'quantized(fitted.params["w2"], bits=3)'),
        ("markdown", "`memory` counts the tensors that exist now:"),
        ("code", "pg.memory()"),
    ],
}


def cells_of(name: str, arguments: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the kind and the source of each cell of a script."""
    source = (HERE.parent / "gallery" / f"{name}.py").read_text()
    title, _, text = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    text = text.partition("::\n")[0]
    link = (
        f"The script: [{name}.py](../gallery/{name}.py). `make notebooks` wrote this."
    )
    code = source.split('"""', 2)[2].partition('\nif __name__ == "__main__"')[0]
    options = json.dumps([*arguments, "--out", f"{name}.png"])
    run = f"from IPython.display import Image\n\nmain({options})"
    cells = [("markdown", f"# {title.rstrip('.')}\n{text}.\n\n{link}")]
    cells += [("code", part.strip()) for part in code.split("\n\n\n")]
    cells.append(("code", f'{run}\nImage("{name}.png")'))
    return cells + EXTRA_CELLS.get(name, [])


def notebook_of(name: str, arguments: Sequence[str] = ()) -> Any:
    """Return the notebook of a script without outputs."""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    for number, (kind, source) in enumerate(cells_of(name, arguments)):
        new = getattr(nbformat.v4, f"new_{kind}_cell")
        notebook.cells.append(new(source, id=f"cell-{number}"))
    return notebook


def executed(name: str, folder: Path, arguments: Sequence[str] = ()) -> Any:
    """Return the notebook of a script with its outputs; run it in a folder.

    Args:
        name: The name of the script.
        folder: The folder where the notebook runs and writes its picture.
        arguments: Further arguments of the script, such as a smaller configuration.

    """
    notebook = notebook_of(name, arguments)
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
