"""Machine code on disk: when it is read, written again and deleted."""

import os
import subprocess
import sys

import numpy as np
import plugrad as pg
import pytest
from plugrad_llvm import cache, native

from .helpers import OWNER, bits

FOLDER = cache.folder  # an autouse fixture replaces it


@pytest.fixture
def cache_folder(tmp_path, monkeypatch):
    """Return an empty folder for the cache."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def compiled(monkeypatch):
    """Return the modules that LLVM has compiled."""
    found, parse = [], native.llvm.parse_assembly

    def counted(text):
        found.extend([text] if text else [])
        return parse(text)

    monkeypatch.setattr(native.llvm, "parse_assembly", counted)
    return found


def run(scale=2.0):
    """Compile a function as in a new process, and compare it with eager mode."""
    native._loaded.cache_clear()
    f = pg.jit(lambda x: pg.square(x) * scale + x)
    x = pg.asarray(np.ones(7, "f4"))
    f(x), f(x), f(x)
    assert bits(f(x)) == bits(pg.square(x) * scale + x)
    (region,) = f.explain(x).regions
    assert region.by.startswith(OWNER)


def test_code_is_compiled_once(cache_folder, compiled):
    run()
    run()
    assert len(compiled) == 1
    assert len([*cache_folder.iterdir()]) == 1
    run(3.0)
    assert len(compiled) == 2
    assert len([*cache_folder.iterdir()]) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + b"more",
        lambda data: data[: cache.DIGEST],
    ],
    ids=["empty", "cut", "changed", "longer", "only the checksum"],
)
def test_damaged_files_are_written_again(cache_folder, compiled, damage):
    run()
    written = {path: path.read_bytes() for path in cache_folder.iterdir()}
    for path, data in written.items():
        path.write_bytes(damage(data))
    run()
    assert {path: path.read_bytes() for path in cache_folder.iterdir()} == written
    assert len(compiled) == 2


def test_equal_regions_share_machine_code(cache_folder, compiled):
    run()
    f = pg.jit(lambda x: pg.square(x) * 2.0 + x)
    x = pg.asarray(np.ones(7, "f4"))
    assert len({str(bits(f(x))) for _ in range(4)}) == 1
    assert len(compiled) == 1


def test_processor_and_version_are_in_the_key(cache_folder, compiled, monkeypatch):
    run()
    monkeypatch.setattr(native.llvmlite, "__version__", "0.0")
    run()
    assert len(compiled) == 2


def test_folders_that_cannot_be_used(tmp_path, compiled, monkeypatch):
    """Without a cache, every function is compiled."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "missing" / "folder")
    run()
    monkeypatch.setattr(cache, "folder", lambda: None)
    run()
    assert len(compiled) == 2


def test_the_location_of_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    found = {}
    for value in (None, "0", str(tmp_path / "mine")):
        if value is None:
            monkeypatch.delenv("PLUGRAD_LLVM_CACHE", raising=False)
        else:
            monkeypatch.setenv("PLUGRAD_LLVM_CACHE", value)
        FOLDER.cache_clear()
        found[value] = FOLDER()
    assert found["0"] is None
    assert found[str(tmp_path / "mine")] == tmp_path / "mine"
    assert found[None].name == "plugrad-llvm"
    assert tmp_path in found[None].parents


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="permissions of POSIX")
def test_a_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGRAD_LLVM_CACHE", str(tmp_path))
    for mode, used in ((0o777, False), (0o770, False), (0o755, True)):
        tmp_path.chmod(mode)
        FOLDER.cache_clear()
        assert (FOLDER() == tmp_path) == used
    FOLDER.cache_clear()


def test_the_oldest_files_are_deleted(tmp_path):
    for n in range(6):
        path = tmp_path / f"{n}"
        path.write_bytes(b"x" * 100)
        os.utime(path, (n, n))
    cache.trim(tmp_path, 350)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3", "4", "5"]


PROGRAM = """
import plugrad as pg
from plugrad_llvm import native
f = pg.jit(lambda x: pg.tanh(x) * 2.0)
x = pg.linspace(-1.0, 3.0, 1_000_000)
f(x), f(x), f(x)
assert f(x).tolist() == (pg.tanh(x) * 2.0).tolist()
print([region.by.split()[0] for region in f.explain(x).regions])
"""


def test_processes_share_the_cache(tmp_path):
    environment = {**os.environ, "PLUGRAD_LLVM_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    processes = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert outputs == ["['plugrad-llvm']\n"] * 2
    # the comparison of tanh with eager mode, and the function
    assert len([*tmp_path.iterdir()]) == 2


def test_kernels_with_different_bits_are_not_compiled(tmp_path):
    """Without its C kernels, cpu uses NumPy's tanh, whose bits differ."""
    program = PROGRAM.replace("pg.tanh(x) * 2.0", "pg.tanh(x) * 2.0 + x")
    environment = {**os.environ, "PLUGRAD_CPU_NATIVE": "0"}
    environment["PLUGRAD_LLVM_CACHE"] = str(tmp_path)
    program += "print([s.kernel.name for s in f.explain(x).regions[0].steps])"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "['plugrad-llvm']\n['Multiply', 'Add']\n", done.stderr
