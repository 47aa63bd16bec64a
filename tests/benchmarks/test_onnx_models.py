"""``benchmarks/onnx_models.py``: its table and its chart."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="needs onnxruntime, of the group dev")
pytest.importorskip("plugrad_onnx", reason="plugrad-onnx is not installed")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_models.py"
SVG = "{http://www.w3.org/2000/svg}"


def test_a_run_prints_and_draws(tmp_path):
    chart = tmp_path / "chart.svg"
    arguments = ["--only", "gru,perceptron_int8", "--backend", "cpu"]
    arguments += ["--seconds", "0.01", "--svg", str(chart)]
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[0:4:2]] == ["perceptron_int8", "gru"]
    assert all(float(line.rpartition(" ")[2]) < 1e-4 for line in lines[1:4:2])
    assert re.fullmatch(r"cpu: \d+\.\d\d of ONNX Runtime's time .*", lines[4])
    drawn = ET.parse(chart).getroot()
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"cpu", "gru", "perceptron_int8", "1"} <= {*texts}


def test_a_bar_goes_from_one_to_the_ratio(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import onnx_models

    found = {"fast": {"cpu": 0.25, "wasm": 1.0}, "slow": {"cpu": 2.0, "wasm": 4.0}}
    drawn = ET.fromstring(onnx_models.chart(found))
    bars = [bar.attrib for bar in drawn.iter(f"{SVG}rect")][1:]
    left, width = onnx_models.NAMES_WIDTH, onnx_models.AXIS_WIDTH
    one = left + width / 2  # from a quarter to 4
    edges = [(float(b["x"]), float(b["x"]) + float(b["width"])) for b in bars]
    expected = [
        (left, one),
        (one, one + 1),
        (one, one + width / 4),
        (one, left + width),
    ]
    assert [pytest.approx(e, abs=0.1) for e in expected] == edges
    assert [b["fill"] for b in bars] == [*onnx_models.COLORS[:2]] * 2
