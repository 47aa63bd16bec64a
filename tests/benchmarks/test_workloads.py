"""``benchmarks/workloads.py`` measures workloads, and compares their results."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import records

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def workloads(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import workloads

    return workloads


def start(*arguments):
    return subprocess.run(
        [sys.executable, str(FOLDER / "workloads.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_quick_run_reports_everything(tmp_path):
    path, record = tmp_path / "report.json", tmp_path / "record.json"
    arguments = ["--quick", "--only", "add_8,mlp_train", "--backend", "cpu"]
    arguments += ["--turns", "short"]
    arguments += ["--peers", "numpy", "--record", str(record)]
    done = start(*arguments, "--json", str(path))
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert set(report["machine"]) >= {"cpu", "processors", "python", "threads"}
    assert (report["machine"]["threads"], report["clock"]) == (1, "wall")
    assert set(report["contestants"]) == {"cpu", "numpy"}
    assert report["contestants"]["numpy"] == {"numpy": np.__version__}
    assert set(report["contestants"]["cpu"]) == {"plugrad", "plugrad-cpu", "numpy"}
    us = report["us"]
    assert set(us["add_8"]) == {"cpu", "numpy"}
    assert set(us["mlp_train"]) == {"cpu"}  # NumPy has no gradients
    assert min(time for times in us.values() for time in times.values()) > 0
    ratio = us["add_8"]["numpy"] / us["add_8"]["cpu"]
    assert report["ratios"]["cpu"]["numpy"] == {"add_8": pytest.approx(ratio)}
    assert report["geometric_means"]["cpu"]["numpy"] == pytest.approx(ratio)
    assert report["differ"] == report["errors"] == {}
    assert "numpy/cpu" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("geometric mean")
    found = records.read(record)
    assert found.columns == ("workload", "cpu", "numpy")
    assert found.column("cpu")["add_8"] == pytest.approx(us["add_8"]["cpu"], rel=1e-3)
    assert found.cells("numpy")["mlp_train"] is None
    assert found.versions["NumPy"] == np.__version__
    assert found.threads == 1


def test_a_record_has_no_times_of_wrong_results(workloads):
    report = {
        "machine": {"threads": 2},
        "clock": "wall",
        "turns": "sustained",
        "processes": 3,
        "contestants": {"cpu": {}, "torch": {"torch": "2.13.0"}},
        "us": {"add_8": {"cpu": 1.0, "torch": 2.0}, "exp_1m": {"cpu": 3.0}},
        "differ": {"add_8": {"torch": 0.1}},
    }
    record = workloads.record(report)
    assert record["rows"] == [["add_8", 1.0, None], ["exp_1m", 3.0, None]]
    assert record["versions"] == {"PyTorch": "2.13.0"}
    assert record["conditions"] == "--clock wall, --turns sustained, --processes 3"


def test_the_best_time_of_all_processes_counts(workloads, monkeypatch):
    times = iter([{"cpu": 3.0, "numpy": 8.0}, {"cpu": 4.0, "numpy": 6.0}])

    def run(name, contestants, budget, turn):
        assert [contestant.name for contestant in contestants] == ["cpu", "numpy"]
        return {"us": next(times), "errors": {}, "differ": {}}

    monkeypatch.setattr(workloads, "run", run)
    arguments = ["--only", "add_8", "--peers", "numpy", "--processes", "2"]
    report = workloads.measure(workloads.options(arguments))
    assert report["us"] == {"add_8": {"cpu": 3.0, "numpy": 6.0}}
    assert report["ratios"] == {"cpu": {"numpy": {"add_8": 2.0}}}
    assert report["processes"] == 2
    assert next(times, None) is None


def test_every_workload_has_inputs_and_code_for_plugrad(workloads):
    text = (FOLDER / "peers" / "plugrad_peer.py").read_text()
    for name, workload in workloads.WORKLOADS.items():
        assert f'"{name}"' in text, name
        drawn, redrawn = (workload.inputs(workloads.definitions.Draw()) for _ in "12")
        assert drawn.keys() == redrawn.keys()
        for key, x in drawn.items():
            assert x.dtype in (np.float32, np.int32)
            np.testing.assert_array_equal(x, redrawn[key])


def test_wrong_results_are_found(workloads):
    right = [np.ones(4)]
    wrong = [np.array([1, 1, 1.1, 1])]
    differing = lambda **results: workloads.differing("exp_1m", results)
    assert differing(a=right) == {}
    assert differing(a=right, b=[np.full(4, 1.001)]) == {}
    assert set(differing(a=right, b=wrong)) == {"a", "b"}
    assert differing(a=right, b=wrong, c=right) == {"b": pytest.approx(0.1)}
    assert differing(a=right, b=[np.ones(3)], c=right) == {"b": np.inf}
    assert differing(a=right, b=[np.full(4, np.nan)], c=right) == {"b": np.inf}
    moved = {"a": right, "b": [np.full(4, 1.001)], "c": right}
    assert set(workloads.differing("gather", moved)) == {"b"}


def test_missing_peers_are_named(workloads, monkeypatch, capsys):
    missing = [sys.executable, "-c", "import a_library_that_is_not_there"]
    monkeypatch.setattr(workloads, "command", lambda *_: missing)
    assert workloads.start([], ["torch"], 1, "python") == []
    printed = capsys.readouterr().err
    assert "torch is left out: ModuleNotFoundError: No module named 'a_lib" in printed
    assert "`make .venv/.group-bench` installs it" in printed
    missing[2] = "raise SystemExit('Error: torch.compile needs g++')"
    assert workloads.start([], ["torch-compile"], 1, "python") == []
    printed = capsys.readouterr().err
    assert printed == "torch-compile is left out: Error: torch.compile needs g++\n"
    with pytest.raises(SystemExit, match="backend 'mine' does not start"):
        workloads.start(["mine"], [], 1, "python")


def test_peers_get_their_options(workloads):
    for name, options in {
        "torch": ["2", ""],
        "torch-compile": ["2", "compile"],
        "torch-cuda": ["2", "cuda"],
        "jax-jit": ["jit"],
        "jax-cuda": ["cuda"],
        "numpy": [],
    }.items():
        python, script, *given = workloads.command(name, 2, "python3")
        library = name.partition("-")[0]
        assert (python, Path(script).name) == ("python3", f"{library}_peer.py")
        assert given == options


def test_peers_run_on_processors_unless_they_are_for_gpus(workloads):
    where = lambda name: workloads.environment(name, 2)["JAX_PLATFORMS"]
    assert [where(name) for name in ("jax-jit", "jax-cuda")] == ["cpu", "cuda"]


def test_names_are_checked():
    for option, what in (("--only", "workload"), ("--peers", "peer")):
        done = start(option, "ad_8")
        assert done.returncode == 2
        assert f"unknown {what} 'ad_8'; choose from " in done.stderr
