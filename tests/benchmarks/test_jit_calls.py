"""``benchmarks/jit_calls.py`` runs and prints a table."""

import json
import subprocess
import sys
from pathlib import Path

import plugrad
import pytest

from tests.benchmarks.test_growth import FOLDER

COLUMNS = ["call 1", "call 2", "call 3", "call 4", "later", "arguments", "eager"]


def run(*arguments):
    """Run the script with one process for each case."""
    command = [sys.executable, str(FOLDER / "jit_calls.py"), "--processes", "1"]
    return subprocess.run(
        [*command, *arguments], capture_output=True, text=True, timeout=240
    )


def test_it_has_a_row_for_each_case(tmp_path):
    report = tmp_path / "calls.json"
    done = run("--only", "grad_small,layers,captured", "--json", str(report))
    assert done.returncode == 0, done.stderr
    head, *rows = done.stdout.splitlines()
    assert head.split("  ")[0] == "us of CPU time"
    assert all(column in head for column in COLUMNS)
    cells = {name: row for name, *row in map(str.split, rows)}
    assert [*cells] == ["grad_small", "layers", "captured"]
    assert cells["grad_small"][5] == "-"  # all its inputs are arguments
    found = json.loads(report.read_text())["layers"]["here"]
    assert sorted(found) == sorted(COLUMNS)
    assert found["call 1"] > found["later"] > 0


def test_against_a_checkout(tmp_path):
    source = tmp_path / "core" / "src"
    source.mkdir(parents=True)
    (source / "plugrad").symlink_to(Path(plugrad.__file__).parent)
    done = run("--only", "grad_small", "--against", str(tmp_path))
    assert done.returncode == 0, done.stderr
    here, there, ratios = done.stdout.splitlines()[1:]
    assert there.startswith("  there")
    assert 0.2 < float(ratios.split()[-1]) < 5  # the ratio of eager calls
    assert float(ratios.split()[-1]) == pytest.approx(
        float(here.split()[-1]) / float(there.split()[-1]), rel=0.05
    )


def test_a_folder_without_a_core_is_refused(tmp_path):
    done = run("--only", "grad_small", "--against", str(tmp_path))
    assert done.returncode == 1
    assert "finds another core" in done.stderr
