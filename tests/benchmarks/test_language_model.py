"""``benchmarks/language_model.py`` runs, and all backends reach the same losses."""

import subprocess
import sys

import pytest

from benchmarks import records
from tests.benchmarks.test_growth import FOLDER

pytest.importorskip("plugrad_train", reason="needs plugrad-train")


def test_it_runs_without_pytorch(tmp_path):
    command = [sys.executable, str(FOLDER / "language_model.py"), "--peer", ""]
    command += ["--backends", "cpu,cpu-eager", "--turns", "1", "--batch", "2"]
    record = tmp_path / "record.json"
    command += ["--size", "1", "2", "32", "16", "--record", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    _, *rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows] == ["cpu", "cpu-eager"]
    assert rows[0][-2:] == rows[1][-2:]
    tokens = records.read(record).column("tokens")
    printed = {row[0]: float(row[1]) for row in rows}
    assert tokens == pytest.approx(printed, rel=1e-3, abs=0.6)
