"""``benchmarks/growth.py`` and ``memory.py``: sizes, tables and the chart."""

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def growth(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import growth

    return growth


def run(script, *arguments):
    command = [sys.executable, str(FOLDER / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_workload_grows(growth):
    for name in growth.WORKLOADS:
        sizes = [growth.elements(name, factor) for factor in growth.FACTORS]
        assert sizes == sorted(set(sizes)), name
        of_table = sizes[growth.FACTORS.index(1)]
        for size, factor in zip(sizes, growth.FACTORS, strict=True):
            assert size == pytest.approx(of_table * factor, rel=0.35), name


def test_each_image_keeps_its_label(growth):
    for name, workload in growth.WORKLOADS.items():
        inputs = workload.inputs(growth.definitions.Draw())
        if "labels" in inputs:
            for factor in growth.FACTORS:
                scaled = growth.definitions.scaled_inputs(name, inputs, factor)
                assert len(scaled["x"]) == len(scaled["labels"]), name


def test_weights_keep_their_size(growth):
    definitions = growth.definitions
    inputs = growth.WORKLOADS["cnn_train"].inputs(definitions.Draw())
    scaled = definitions.scaled_inputs("cnn_train", inputs, 4)
    assert (scaled["x"].shape, scaled["labels"].shape) == ((128, 28, 28, 1), (128,))
    np.testing.assert_array_equal(scaled["x"][32:64], inputs["x"])
    assert all(scaled[key] is inputs[key] for key in inputs if key.startswith("w"))
    assert definitions.scaled_inputs("cnn_train", inputs, 1 / 16)["x"].shape[0] == 2


def test_a_run_prints_draws_and_writes(tmp_path):
    chart = tmp_path / "chart.svg"
    report = tmp_path / "report.json"
    arguments = ["--only", "add_8,sum_rows", "--turns", "short", "--seconds", "0.01"]
    arguments += ["--peers", "numpy", "--svg", str(chart), "--json", str(report)]
    lines = run("growth.py", *arguments).splitlines()
    assert lines[0].split()[-5:] == ["1/16", "1/4", "1", "4", "16"]
    assert [line.split()[:2] for line in lines[1:]] == [
        [name, one] for name in ("add_8", "sum_rows") for one in ("cpu", "numpy")
    ]
    curves = json.loads(report.read_text())["ns"]
    assert all(min(curve) > 0 for of in curves.values() for curve in of.values())
    drawn = ET.parse(chart).getroot()
    assert len(drawn.findall(f".//{SVG}polyline")) == 4
    assert len(drawn.findall(f".//{SVG}circle")) == 20


def test_what_is_wrong_or_fails_has_no_point(growth):
    curves = {"exp_1m": {"cpu": [1.0, None, 2.0, 4.0, 8.0], "torch": [None] * 5}}
    assert growth.table(curves).splitlines()[2].split() == ["exp_1m", "torch", *"-----"]
    drawn = ET.fromstring(growth.svg(curves))
    assert len(drawn.findall(f".//{SVG}circle")) == 4
    nothing = growth.svg({"exp_1m": {"cpu": [None] * 5}})
    assert "exp_1m: no times" in nothing


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_memory(tmp_path):
    report = tmp_path / "report.json"
    arguments = ["--only", "mlp_train", "--size", "16", "--json", str(report)]
    text = run("memory.py", *arguments)
    assert text.splitlines()[1].split()[:2] == ["mlp_train", "cpu"]
    found = json.loads(report.read_text())["mlp_train"]["cpu"]
    hidden = 2048 * (256 + 128) * 4  # bytes: activations that the gradient needs
    assert 2 * hidden < found["peak"] < 40 * hidden
    assert found["usage"]["bytes"] >= 2048 * 784 * 4
