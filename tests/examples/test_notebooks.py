"""The notebooks have the code of the scripts, and run: ``make test-all`` runs them."""

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
    assert "\n\n\n".join(code[:-1]) == body.strip(), "run make notebooks"
    found = outputs(cells)
    assert not [output for output in found if output["output_type"] == "error"]
    assert any("image/png" in output.get("data", {}) for output in found)
    assert path.stat().st_size < 150_000


def test_there_are_three():
    assert NAMES == ["bilevel", "privacy", "quantize"]


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_runs(name, request, tmp_path):
    if not request.config.getoption("all"):
        pytest.skip("notebooks run with --all only (make test-all)")
    pytest.importorskip("nbclient", reason="needs the gallery group: make notebooks")
    pytest.importorskip("ipykernel", reason="needs the gallery group: make notebooks")
    from examples.notebooks import make

    notebook = make.executed(name, tmp_path)
    assert any(
        "image/png" in output.get("data", {}) for output in outputs(notebook.cells)
    )
    assert (tmp_path / f"{name}.png").exists()
