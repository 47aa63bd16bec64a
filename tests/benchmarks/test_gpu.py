"""``benchmarks/gpu.py``: rows are written immediately; all parts run on any device."""

import json
import math
import re
import subprocess
import sys

import plugrad as pg
import pytest

from benchmarks import records
from tests.benchmarks.test_growth import FOLDER

SCRIPT = FOLDER / "gpu.py"
needs_opencl = pytest.mark.skipif(
    "opencl" not in pg.backends(), reason="plugrad-opencl is not installed"
)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import gpu

    return gpu


@pytest.fixture
def cases(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    from peers import gpu_cases

    return gpu_cases


def start(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", *arguments],
        capture_output=True,
        text=True,
        timeout=240,
    )


@needs_opencl
def test_a_quick_run_of_all_parts(tmp_path, cases):
    path, record = tmp_path / "gpu.json", tmp_path / "record.json"
    names = ["--workloads", "add_8,softmax,tiny_mlp_train", "--json", str(path)]
    names += ["--record", str(record)]
    done = start("--peers", "", "--minutes", "4", *names)
    assert done.returncode == 0, done.stderr
    found = json.loads(path.read_text())
    assert list(found) == [
        *("device", "launches", "bandwidth", "products", "workloads", "left_out")
    ]
    assert found["left_out"] == []
    for name in cases.LATENCIES:
        assert set(found["device"][name]) == {"pyopencl", "opencl"}
    assert found["launches"]["add_8"] == {"eager": {"Add": 1}}
    assert found["launches"]["softmax"]["eager"] == {"softmax": 1}
    assert found["launches"]["softmax"]["jit"] == {"softmax": 1}
    steps = found["launches"]["tiny_mlp_train"]
    assert 0 < sum(steps["jit"].values()) < sum(steps["eager"].values())
    for part, unit in (("bandwidth", "TB/s"), ("products", "TFLOP/s")):
        rows = cases.cases(part, quick=True)
        assert list(found[part]) == list(rows)
        for name, row in found[part].items():
            if row["errors"]:
                assert "float16" in name
                continue
            rate = rows[name].work / row["us"]["opencl"] * 1e-6
            assert row[unit]["opencl"] == pytest.approx(rate)
    assert found["bandwidth"]["copy"]["share"] == {"opencl": 1.0}
    assert set(found["workloads"]) == {"add_8", "softmax", "tiny_mlp_train"}
    assert all(row["us"]["opencl-mixed"] > 0 for row in found["workloads"].values())
    recorded = records.read(record)
    assert recorded.machine == found["device"]["name"]
    assert recorded.names() == [*found["workloads"]]
    assert recorded.columns == ("workload", "opencl-mixed")


@needs_opencl
def test_a_peer_that_is_not_installed_is_left_out(tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Error: no PyTorch here' >&2\nexit 1\n")
    python.chmod(0o755)
    arguments = ["--only", "device,workloads", "--workloads", "add_8"]
    done = start(*arguments, "--peers", "torch", "--python", str(python))
    assert done.returncode == 0, done.stderr
    for name in ("torch", "torch-cuda"):
        assert f"{name} is left out: Error: no PyTorch here" in done.stderr
    assert re.search(r"^add_8 +[0-9.]+$", done.stdout, re.M)


@needs_opencl
def test_rows_without_time_are_named(tmp_path):
    path = tmp_path / "gpu.json"
    arguments = ["--only", "launches", "--workloads", "add_8,bmm", "--minutes", "1e-6"]
    done = start(*arguments, "--json", str(path))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-3:] == [
        *("no time for 2 rows:", "launches: add_8", "launches: bmm")
    ]
    left_out = ["launches: add_8", "launches: bmm"]
    assert json.loads(path.read_text()) == {"launches": {}, "left_out": left_out}


def test_a_row_is_printed_and_written_before_the_next(gpu, tmp_path, capfd):
    report = gpu.Report(tmp_path / "gpu.json", minutes=1)
    report.head("bandwidth", ["opencl"])
    for count, name in enumerate(report.in_time("bandwidth", ["add", "exp"]), 1):
        report.row("bandwidth", name, count, [gpu.number(1234.5 * count)])
        assert name in capfd.readouterr().out.splitlines()[-1]
        written = json.loads((tmp_path / "gpu.json").read_text())
        assert written["bandwidth"][name] == count
        assert len(written["bandwidth"]) == count


def test_the_summary_has_the_mean_and_the_lowest_ratio(gpu, capsys):
    report = gpu.Report(None, minutes=1)
    report.head("workloads")
    by_peer = {"torch-cuda": {"add_8": 2.0, "bmm": 0.5, "gather": 8.0}, "jax-cuda": {}}
    gpu._summary(report, by_peer)
    assert report.found["workloads"] == {
        "summary of torch-cuda/opencl": {
            "geometric mean": pytest.approx(2.0),
            "lowest": {"bmm": 0.5},
        }
    }
    assert "geometric mean 2.00 of 3, lowest 0.50 (bmm)" in capsys.readouterr().out


def test_both_libraries_have_a_call_for_each_case(cases):
    text = (FOLDER / "peers" / "gpu_cases.py").read_text()
    _, plugrad, torch = re.split(r"^def (?:plugrad|torch)_products", text, flags=re.M)
    for part in ("device", "bandwidth", "products"):
        for name, case in cases.cases(part, quick=False).items():
            assert f'"{case.call}":' in torch, name
            assert case.call == "copy" or f'"{case.call}":' in plugrad, name
    with pytest.raises(ValueError, match="no cases of 'workloads'; use device, "):
        cases.cases("workloads", quick=True)


def test_the_work_of_cases(cases):
    bandwidth = cases.bandwidth_cases(quick=False)
    for name, row in bandwidth.items():
        (shape, dtype), *_ = row.arrays
        assert (math.prod(shape), dtype) == (1 << 27, "float32"), name
    assert bandwidth["exp"].work == 2 * 4 << 27
    assert bandwidth["add"].work == 3 * 4 << 27
    assert bandwidth["sum of all"].work == 4 << 27
    products = cases.product_cases(quick=False)
    assert products["512 x 512 x 512"].work == 2 * 512**3
    assert products["16 of 128 x 64 x 128"].work == 2 * 16 * 128 * 64 * 128
    transposed = products["8 x 4096 x 4096, b transposed"]
    assert [shape for shape, _ in transposed.arrays] == [(8, 4096), (4096, 4096)]
    conv = products["conv3x3 32 x 56^2 x 64 to 64"]
    assert conv.work == 2 * 32 * 56 * 56 * 64 * 64 * 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "speed"], "unknown part 'speed'; choose from device, launches"),
        (["--peers", "tfjs"], "unknown peer 'tfjs'; choose from torch, jax"),
        (["--workloads", "ad_8"], "unknown workload 'ad_8'; choose from add_8"),
        (["--minutes", "0"], "--minutes must be above 0, got 0"),
    ],
)
def test_wrong_arguments(arguments, message):
    done = start(*arguments)
    assert (done.returncode, message in done.stderr) == (2, True)
