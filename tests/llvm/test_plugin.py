"""The pack as a plugin: its discovery, and what happens without it."""

import json
import os
import subprocess
import sys

import plugrad as pg
import pytest
from plugrad.plugin import KernelPack
from plugrad_llvm import plugin

from .helpers import OWNER, bits, compiled_regions

IMPORTED = """
import sys
import plugrad as pg
pg.exp(pg.asarray([1.0]))
names = ("llvmlite", "plugrad_llvm")
print(sorted(name for name in sys.modules if name.startswith(names)))
"""


def python(*args, **environment):
    """Run Python; return what it prints."""
    done = subprocess.run(
        [sys.executable, *args],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_nothing_is_imported_without_jit():
    assert eval(python("-c", IMPORTED)) == ["plugrad_llvm", "plugrad_llvm.plugin"]


def test_doctor_reports_the_pack():
    report = json.loads(python("-m", "plugrad", "doctor", "--json"))
    (row,) = [row for row in report["plugins"] if row["distribution"] == OWNER]
    assert row["state"] == "works", row


def test_without_llvmlite_the_kernels_run(monkeypatch):
    monkeypatch.setattr(plugin.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install llvmlite"):
        plugin.open_pack()
    (pack,) = plugin.plugrad_kernels()
    assert isinstance(pack, KernelPack)
    assert pack.backend == "cpu"


def test_without_the_pack_jit_runs_the_kernels():
    program = "import importlib.util as u; find = u.find_spec\n"
    program += "u.find_spec = lambda name: None if name == 'llvmlite' else find(name)\n"
    program += "import plugrad as pg; f = pg.jit(lambda x: pg.tanh(x) * 2.0)\n"
    program += "x = pg.asarray([0.0]); f(x), f(x), f(x)\n"
    program += "print(f(x).tolist(), f.explain(x).regions)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert "skipped plugin plugrad-llvm" in done.stderr
    assert "pip install llvmlite" in done.stderr
    assert done.stdout.startswith("[0.0]")
    assert OWNER not in done.stdout


def test_a_blocked_pack_is_not_used():
    program = "import plugrad as pg; f = pg.jit(lambda x: pg.tanh(x) * 2.0)\n"
    program += "x = pg.ones(1_000_000); f(x); f(x); f(x); print(f.explain(x))"
    assert OWNER in python("-c", program)
    assert OWNER not in python("-c", program, PLUGRAD_BLOCK=OWNER)


def test_a_kernel_of_the_user_is_not_compiled():
    f = pg.jit(lambda x: pg.tanh(x * x) + x)
    x = pg.asarray([0.5, 2.0])
    f(x), f(x), f(x)
    assert compiled_regions(f, x) == [["Multiply", "Tanh", "Add"]]
    pg.register_kernel("Tanh", "cpu", lambda x: x * 0)
    try:
        assert bits(f(x)) == bits(x + 0.0)
        assert compiled_regions(f, x) == []
    finally:
        pg.unregister_kernel("Tanh", "cpu")
