"""``benchmarks/growth.py`` and ``memory.py``: sizes, tables and records."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import records

FOLDER = Path(__file__).parents[2] / "benchmarks"


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
        table_size = sizes[growth.FACTORS.index(1)]
        for size, factor in zip(sizes, growth.FACTORS, strict=True):
            assert size == pytest.approx(table_size * factor, rel=0.35), name


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


def test_a_run_prints_and_writes_times(tmp_path):
    record = tmp_path / "record.json"
    report = tmp_path / "report.json"
    arguments = ["--only", "add_8,sum_rows", "--turns", "short", "--seconds", "0.01"]
    arguments += ["--peers", "numpy", "--record", str(record), "--json", str(report)]
    lines = run("growth.py", *arguments).splitlines()
    assert lines[0].split()[-5:] == ["1/16", "1/4", "1", "4", "16"]
    pairs = [
        (name, peer) for name in ("add_8", "sum_rows") for peer in ("cpu", "numpy")
    ]
    assert [tuple(line.split()[:2]) for line in lines[1:]] == pairs
    curves = json.loads(report.read_text())["ns"]
    assert all(
        min(curve) > 0 for by_peer in curves.values() for curve in by_peer.values()
    )
    found = records.read(record)
    assert [row[:2] for row in found.rows] == pairs
    assert float(found.rows[0][2]) == pytest.approx(curves["add_8"]["cpu"][0], rel=1e-3)
    assert str(tmp_path) not in record.read_text()


def test_wrong_and_failed_workloads_have_no_time(growth):
    curves = {"exp_1m": {"cpu": [1.0, None, 2.0, 4.0, 8.0], "torch": [None] * 5}}
    assert growth.table(curves).splitlines()[2].split() == ["exp_1m", "torch", *"-----"]
    rows = growth.record(curves, growth.options([]))["rows"]
    assert rows[0] == ["exp_1m", "cpu", 1.0, None, 2.0, 4.0, 8.0]


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_memory(tmp_path):
    report, record = tmp_path / "report.json", tmp_path / "record.json"
    arguments = ["--only", "mlp_train", "--size", "16", "--json", str(report)]
    arguments += ["--record", str(record)]
    text = run("memory.py", *arguments)
    assert text.splitlines()[1].split()[:2] == ["mlp_train", "cpu"]
    found = json.loads(report.read_text())["mlp_train"]["cpu"]
    hidden = 2048 * (256 + 128) * 4  # bytes: activations that the gradient needs
    assert 2 * hidden < found["peak"] < 40 * hidden
    assert found["usage"]["bytes"] >= 2048 * 784 * 4
    megabytes = records.read(record).column("peak")["mlp_train"]
    assert megabytes == pytest.approx(found["peak"] / 1e6, rel=1e-3)
