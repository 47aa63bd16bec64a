"""What has to be in order before OpenCL is asked: folders, linker, devices."""

import dataclasses
import importlib.util
import os
import shutil
import sys

import plugrad_opencl
import pytest
from plugrad_opencl import environment

from .processes import output, python

ADD = """
import plugrad as pg
pg.set_backend("opencl")
print((pg.ones(2) + 1.5).tolist())
"""
ADDED = "[2.5, 2.5]\n"


def test_devices():
    found = plugrad_opencl.devices()
    assert [d.index for d in found] == list(range(len(found)))
    assert all(d.kind in ("gpu", "accelerator", "cpu") for d in found)
    assert str(found[0]).startswith(f"0: {found[0].name}")


def test_pyopencl_is_imported_when_the_backend_opens():
    code = "import sys, plugrad as pg; print('opencl' in pg.backends(), "
    code += "'pyopencl' in sys.modules)"
    assert output(code) == "True False\n"


def test_a_device_that_is_skipped_is_named(monkeypatch):
    from plugrad_opencl import _devices

    (first, *_) = _devices.devices()
    both = (first, dataclasses.replace(first, index=1))
    monkeypatch.setattr(_devices, "devices", lambda: both)
    monkeypatch.setattr(_devices, "refusal", lambda d: None if d.index else "broken")
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    with pytest.warns(UserWarning, match="opencl: skipped 0: .*: broken"):
        assert _devices.choose().index == 1


def test_a_fresh_machine_says_what_it_does(tmp_path):
    first = python(ADD, XDG_CACHE_HOME=str(tmp_path))
    assert (first.returncode, first.stdout) == (0, ADDED)
    assert "plugrad-opencl: trying" in first.stderr
    again = python(ADD, XDG_CACHE_HOME=str(tmp_path))
    assert (again.stdout, again.stderr) == (ADDED, "")


def test_a_cache_that_cannot_be_written():
    nowhere = "/proc/no/such/folder"
    variables = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"), nowhere)
    assert output(ADD, **variables) == ADDED


def test_a_damaged_cache(tmp_path):
    output(ADD, XDG_CACHE_HOME=str(tmp_path))
    for file in (*tmp_path.glob("*/programs/*"), *tmp_path.glob("*/verdicts/*")):
        file.write_bytes(b"damaged")
    assert output(ADD, XDG_CACHE_HOME=str(tmp_path)) == ADDED


@pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="ziglang brings the linker"
)
def test_without_a_linker(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "uname"):
        (bare / tool).symlink_to(shutil.which(tool))
    variables = {"PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert output(ADD, **variables) == ADDED


def test_neither_a_linker_nor_ziglang(tmp_path):
    hidden = """
import importlib.util as u
find_spec = u.find_spec
u.find_spec = lambda name, *more: None if name == "ziglang" else find_spec(name, *more)
"""
    done = python(hidden + ADD, PATH=str(tmp_path), PLUGRAD_OPENCL_DEVICE="Portable")
    assert done.returncode == 1
    assert "BackendUnavailable" in done.stderr
    assert "PoCL needs a linker; install binutils" in done.stderr


def test_intels_runtime_is_announced_beside_the_drivers(tmp_path, monkeypatch):
    """The file in its package names a path of the machine that built it."""
    library = tmp_path / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(environment, "folder", lambda: tmp_path)
    monkeypatch.setenv("OCL_ICD_VENDORS", "/the/user/s")
    environment._add_intel()
    assert os.environ["OCL_ICD_VENDORS"] == "/the/user/s"
    monkeypatch.delenv("OCL_ICD_VENDORS")
    environment._add_intel()
    (announced,) = tmp_path.glob("vendors-*/intel-cpu.icd")
    assert announced.read_text() == f"{library}\n"
    assert os.environ["OCL_ICD_VENDORS"] == str(announced.parent)


def test_a_device_that_is_not_there():
    done = python(ADD, PLUGRAD_OPENCL_DEVICE="quantum")
    assert done.returncode == 1
    assert "no device fits 'quantum'" in done.stderr


def test_a_device_whose_compiler_crashes(tmp_path):
    """It takes a process with it, but not ours; the verdict stays for a while."""
    code = """
import plugrad_opencl._devices as d, subprocess, sys
run, runs = subprocess.run, []
def crash(command, **more):
    runs.append(command)
    return run([sys.executable, "-c", "import os; os.abort()"], **more)
subprocess.run = crash
for _ in range(2):
    try:
        d.choose("0")
    except RuntimeError as error:
        print(len(runs), "ended with -6" in str(error))
"""
    assert output(code, XDG_CACHE_HOME=str(tmp_path)) == "1 True\n1 True\n"


def test_several_devices_are_several_backends():
    code = """
import plugrad as pg
names = ("opencl", "opencl-1")
x, y = (pg.asarray([1.0, 2.0]).to(name) for name in names)
with pg.use_backend("opencl-1"):
    print([n for n in pg.backends() if n in names], (x + y).tolist(), (x + y).backend)
"""
    found = output(code, PLUGRAD_OPENCL_DEVICE="0,0")
    assert found == "['opencl', 'opencl-1'] [2.0, 4.0] opencl-1\n"


@pytest.mark.skipif(sys.platform != "linux", reason="PoCL comes along on Linux")
def test_pyopencl_ctx_chooses():
    ours = {"PLUGRAD_OPENCL_DEVICE": None}  # comes first
    assert output(ADD, PYOPENCL_CTX="0", **ours) == ADDED
    done = python(ADD, PYOPENCL_CTX="99", **ours)
    assert done.returncode == 1
    assert "PYOPENCL_CTX=99" in done.stderr


def test_the_pool_can_be_limited():
    code = """
import plugrad as pg
pg.set_backend("opencl")
x = pg.zeros(1 << 20)
for _ in range(10):
    x = x + 1.0
print(x.numpy().max())
from plugrad._registry import registry
pool = registry.open("opencl").runtime.arrays.device.pool
del x
assert pool.idle() == 0, pool.idle()
"""
    assert output(code, PLUGRAD_OPENCL_POOL="0") == "10.0\n"
    assert os.environ.get("PLUGRAD_OPENCL_POOL") is None


# A device that fails beside one that works, in every process.
QUANTUM = """
import dataclasses
from plugrad_opencl import _devices as d
devices, refusal = d.devices, d.refusal
def both():
    first = devices()[0]
    fake = dataclasses.replace(first, name="Quantum 9000", kind="gpu")
    return fake, dataclasses.replace(first, index=1)
d.devices = both
d.refusal = lambda x: refusal(x) if x.index else "a test of it ended with -6"
"""


def test_doctor_shows_what_is_skipped_and_where_things_are(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(QUANTUM)
    doctor = "import runpy, sys; sys.argv = ['', 'doctor']; "
    doctor += "runpy.run_module('plugrad', run_name='__main__')"
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), "/proc/no/such/folder")
    said = output(doctor, PYTHONPATH=str(tmp_path), **nowhere)
    assert "runs on 1: " in said
    assert "skipped 0: Quantum 9000 (gpu, " in said
    assert "a test of it ended with -6" in said
    assert "/proc/no/such/folder/plugrad-opencl cannot be written" in said
    assert "set XDG_CACHE_HOME" in said
