"""``benchmarks/compare.py`` measures two checkouts in turn, and prints Markdown."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "compare.py"
spec = importlib.util.spec_from_file_location("compare", SCRIPT)
compare = importlib.util.module_from_spec(spec)
spec.loader.exec_module(compare)


def run(*arguments):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_slowest_come_first():
    base = {"a": 10.0, "b": 10.0, "c": 10.0, "d": 10.0, "gone": 1.0}
    text = compare.comparison(base, {"a": 10.5, "b": 8.0, "c": 20.0, "d": 12.0})
    summary, table, everything = text.split("\n\n")[:3]
    assert summary.startswith("**3 of 4 workloads differ by more than 10%**")
    assert "is 1.19." in summary  # the fourth root of 1.05 * 0.8 * 2 * 1.2
    rows = [line.split(" | ") for line in table.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| c", "| d", "| b"]
    assert rows[0][3] == "2.00 |"
    assert everything.startswith("<details>")
    assert "Only in base: gone." in text


def test_without_a_difference_there_is_one_table():
    text = compare.comparison({"a": 10.0}, {"a": 10.5})
    assert text.startswith("**0 of 1 workloads")
    assert text.count("| workload |") == 1


def test_the_best_of_all_turns_counts():
    assert compare.best_times([{"a": 2.0, "b": 1.0}, {"a": 1.5}]) == {"a": 1.5}


def test_nothing_in_common_is_an_error():
    with pytest.raises(ValueError, match="no workload in common"):
        compare.comparison({"a": 1.0}, {"b": 1.0})


@pytest.fixture
def checkout(tmp_path):
    """Return a folder with the benchmarks and the environment of this checkout."""
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="the checkout has a shell script")
def test_a_checkout_is_compared_with_itself(checkout):
    done = run(checkout, checkout, "--rounds", 1, "--only", "add_8")
    assert done.returncode == 0, done.stderr
    assert "of 1 workloads differ" in done.stdout
    assert "| add_8, cpu | " in done.stdout


def test_a_folder_without_an_environment_is_refused(tmp_path):
    done = run(tmp_path, tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} has no .venv" in done.stderr
