"""``benchmarks/tricks.py`` prints the gains of tricks over their fallbacks."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tricks.py"


@pytest.fixture
def tricks(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    spec = importlib.util.spec_from_file_location("tricks", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_largest_gains_come_first(tricks):
    plain = {"a": 12.0, "b": 40.0, "c": 1.0}
    text = tricks.table("pocl", {"a": 10.0, "b": 10.0}, plain)
    assert text.startswith("**pocl** (plugrad_opencl._pocl, on opencl): 1 of 2")
    assert text.splitlines()[-2:] == [
        "| b | 10.0 | 40.0 | 4.00 |",
        "| a | 10.0 | 12.0 | 1.20 |",
    ]


def test_no_workload_on_both_sides_is_an_error(tricks):
    with pytest.raises(ValueError, match="pocl has no workload that ran on both sides"):
        tricks.table("pocl", {"a": 1.0}, {"b": 1.0})


def test_every_trick_is_described_in_its_module(tricks):
    for trick in tricks.TRICKS.values():
        spec = importlib.util.find_spec(trick.module)
        text = Path(spec.origin).read_text("utf-8").partition('"""\n\nfrom')[0]
        for part in (trick.switch, "*Fallback*", "*Tried with*", "*Delete it*"):
            assert part in text, f"{trick.module} does not say: {part}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tricks", "magic"], "--tricks magic: use some of wasmtime, pocl"),
        (["--rounds", "0"], "--rounds 0: use 1 or more"),
    ],
)
def test_wrong_arguments(arguments, message):
    command = [sys.executable, str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, message in done.stderr) == (2, True)
