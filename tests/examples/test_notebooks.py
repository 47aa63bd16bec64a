"""The notebooks contain the code of the scripts, and run: ``make test-notebooks``.

They run with a smaller configuration; with ``--all``, they also run as published.
"""

import json

import pytest

from tests.docs.blocks import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
NAMES = [path.stem for path in NOTEBOOKS]


def outputs(cells):
    return [output for cell in cells for output in cell.get("outputs", ())]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=NAMES)
def test_a_notebook_has_the_code_of_its_script_and_a_picture(path):
    cells = json.loads(path.read_text())["cells"]
    script = (ROOT / "examples" / "gallery" / path.name).with_suffix(".py").read_text()
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    body = script.split('"""', 2)[2].partition('\nif __name__ == "__main__"')[0]
    script_cells = body.strip().split("\n\n\n")
    assert code[: len(script_cells)] == script_cells, "run make notebooks"
    found = outputs(cells)
    assert not [output for output in found if output["output_type"] == "error"]
    assert any("image/png" in output.get("data", {}) for output in found)
    assert path.stat().st_size < 150_000


def test_there_are_three_notebooks():
    assert NAMES == ["bilevel", "privacy", "quantize"]


def test_the_notebook_quantize_shows_reports():
    path = ROOT / "examples" / "notebooks" / "quantize.ipynb"
    found = [
        output["data"]
        for output in outputs(json.loads(path.read_text())["cells"])
        if "text/html" in output.get("data", {})
    ]
    captions = ["".join(data["text/html"]).partition("</caption>")[0] for data in found]
    for caption, start in zip(
        captions, ("Fitted", "Explanation", "Profile", "Tensor", "Memory"), strict=True
    ):
        assert f">{start}" in caption


@pytest.mark.parametrize("smaller", [True, False], ids=["smaller", "published"])
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, smaller, request, tmp_path):
    if not smaller and not request.config.getoption("all"):
        pytest.skip("the published configuration runs with --all only (make test-all)")
    pytest.importorskip("nbclient", reason="needs the gallery group: make notebooks")
    pytest.importorskip("ipykernel", reason="needs the gallery group: make notebooks")
    from examples.notebooks import make

    arguments = make.SMALLER[name] if smaller else ()
    notebook = make.executed(name, tmp_path, arguments)
    assert any(
        "image/png" in output.get("data", {}) for output in outputs(notebook.cells)
    )
    assert (tmp_path / f"{name}.png").exists()
