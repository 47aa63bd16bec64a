"""Facts that several pages state agree with their source."""

import re
from pathlib import Path

from plugrad.plugin import backward_kernels

ROOT = Path(__file__).parents[2]
README_MAX_LINES = 120


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_MAX_LINES


def test_the_number_of_pretrained_models_is_that_of_the_table():
    page = (ROOT / "docs" / "onnx.md").read_text()
    _, _, section = page.partition("\n## Pretrained models\n")
    rows = re.findall(r"^\| ([a-z]\w*) \| ([\w-]+) \|", section.split("\n## ")[0], re.M)
    readme = (ROOT / "README.md").read_text()
    link = f"[{len(rows)} pretrained models](docs/onnx.md#pretrained-models) from "
    assert f"{link}{len({package for _, package in rows})} packages" in readme


def test_plugin_files_that_the_backend_guide_names_exist():
    page = (ROOT / "docs" / "publish.md").read_text()
    section = page.partition("## Make gradients fast")[2].partition("\n## ")[0]
    text = section.split("```")[-1]
    plugins = set(re.findall(r"plugrad-(\w+)", text))
    assert plugins == {"cpu", "wasm", "opencl"}
    for name in re.findall(r"`([\w/]+\.py)`", text):
        folders = [ROOT / "plugins" / p / "src" / f"plugrad_{p}" for p in plugins]
        containing = [folder.name for folder in folders if (folder / name).is_file()]
        assert (
            containing == [f.name for f in folders] or "plugrad_wasm" in containing
        ), name


def test_the_backend_guide_names_all_backward_kernels():
    page = (ROOT / "docs" / "publish.md").read_text()
    sentence = re.search(r"gradients of ((?:`\w+`[,\s]+(?:and )?)+)with", page)[1]
    named = set(re.findall(r"`(\w+)`", sentence))
    contracts = {name.removesuffix("Grad") for name in backward_kernels("plugrad_mine")}
    assert named == contracts - {"GeluTanh"}  # the other form of gelu
