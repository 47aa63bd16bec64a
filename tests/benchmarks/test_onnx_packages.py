"""``benchmarks/onnx_packages.py``: the table of models, and models in wheels."""

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx, which plugrad-onnx needs")
pytest.importorskip("plugrad_onnx", reason="plugrad-onnx is not installed")

TEXT = """
<ir_version: 9, opset_import: ["": 17]>
net (float[N, 3, H, W] image, int64 rate) => (float[N, 3, H, W] y) { y = Relu (image) }
"""
TABLE = """
[net]
package = "some-net==1.2"
file = "some_net/net.onnx"
inputs.image = [1, 3, 6, 10]
values.rate = 8000
squares = 4
"""


@pytest.fixture
def packages(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import onnx_packages

    return onnx_packages


def test_the_table_pins_each_package(packages):
    found = packages.table_rows("")
    assert len({row["package"] for row in found.values()}) > 12
    for row in found.values():
        assert re.fullmatch(r"[a-z0-9-]+==[0-9.]+", row["package"])
        assert row["file"].endswith(".onnx")
        assert row.keys() <= {"package", "file", "inputs", "values", "below", "squares"}
    assert [*packages.table_rows("voice,magika")] == ["voice", "magika"]
    with pytest.raises(SystemExit, match=r"unknown \['magica'\]; choose from"):
        packages.table_rows("magica")


def test_a_model_is_read_from_a_wheel(packages, tmp_path, monkeypatch):
    table = tmp_path / "table.toml"
    table.write_text(TABLE)
    monkeypatch.setattr(packages, "TABLE", table)
    proto = onnx.parser.parse_model(TEXT)
    with zipfile.ZipFile(tmp_path / "some_net-1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("some_net/net.onnx", proto.SerializeToString())
    for _ in range(2):  # from the wheel, then from the folder
        ((name, path, inputs),) = packages.models(tmp_path, "")
        assert (name, path.name, inputs["rate"]) == ("net", "net.onnx", 8000)
        image = inputs["image"]
        assert (image.shape, image.dtype) == ((1, 3, 6, 10), np.float32)
        np.testing.assert_array_equal(
            image[..., :4, :4].std((-1, -2)), np.zeros((1, 3))
        )
        assert len(np.unique(image)) == 3 * 2 * 3
