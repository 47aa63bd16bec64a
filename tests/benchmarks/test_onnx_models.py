"""``benchmarks/onnx_models.py``: its printed table and its record."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import records

pytest.importorskip("onnxruntime", reason="needs onnxruntime, from the group dev")
pytest.importorskip("plugrad_onnx", reason="plugrad-onnx is not installed")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "onnx_models.py"


def test_a_run_prints_and_records(tmp_path):
    path = tmp_path / "record.json"
    arguments = ["--only", "gru,perceptron_int8", "--backend", "cpu"]
    arguments += ["--seconds", "0.01", "--record", str(path)]
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[0:4:2]] == ["perceptron_int8", "gru"]
    assert all(float(line.rpartition(" ")[2]) < 1e-4 for line in lines[1:4:2])
    assert re.fullmatch(r"cpu: \d+\.\d\d of ONNX Runtime's time .*", lines[4])
    record = records.read(path)
    assert record.columns == ("model", "onnxruntime", "cpu", "cpu, jit")
    printed = float(lines[0].split()[2])
    assert record.column("onnxruntime")["perceptron_int8"] == pytest.approx(
        printed, abs=0.006
    )


def test_a_record_of_packages_has_ratios(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import onnx_models

    times = {"onnxruntime": 2.0, "cpu": 3.0, "cpu, jit": 1.0}
    found = {"magika": onnx_models.Measured(times, {"cpu": 0.5}, 1e-6)}
    options = onnx_models.parse_options(["--packages", "folder"])
    record = onnx_models.record(found, options)
    assert record["columns"][2:] == ["onnxruntime", "cpu", "difference"]
    assert record["rows"] == [["magika", "magika", 2.0, 0.5, 1e-6]]
    assert [*record["unit"]] == record["columns"][2:]
