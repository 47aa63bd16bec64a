"""Preparations before OpenCL is used: folders, a linker, the choice of devices."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys

import plugrad_opencl
import pytest
from plugrad_opencl import _devices, environment

from tests.processes import output, python

ADD = """
import plugrad as pg
pg.set_backend("opencl")
print((pg.ones(2) + 1.5).tolist())
"""
ADDED = "[2.5, 2.5]\n"
DOCTOR = "import runpy, sys; sys.argv = ['', 'doctor']; "
DOCTOR += "runpy.run_module('plugrad', run_name='__main__')"


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
    first, *_ = _devices.devices()
    both = (first, dataclasses.replace(first, index=1))
    monkeypatch.setattr(_devices, "devices", lambda: both)
    monkeypatch.setattr(_devices, "refusal", lambda d: None if d.index else "broken")
    monkeypatch.delenv("PYOPENCL_CTX", raising=False)
    with pytest.warns(UserWarning, match="opencl: skipped 0: .*: broken"):
        assert _devices.choose().index == 1


def test_the_trial_of_a_new_device_is_announced(tmp_path):
    first = python(ADD, XDG_CACHE_HOME=str(tmp_path))
    assert (first.returncode, first.stdout) == (0, ADDED)
    assert "plugrad-opencl: trying" in first.stderr
    again = python(ADD, XDG_CACHE_HOME=str(tmp_path))
    assert (again.stdout, again.stderr) == (ADDED, "")


def test_a_cache_that_cannot_be_written():
    nowhere = "/proc/no/such/folder"
    variables = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"), nowhere)
    assert output(ADD, **variables) == ADDED


DAMAGE = {
    "empty": lambda data: b"",
    "text": lambda data: b"damaged",
    "the first 100 bytes": lambda data: data[:100],
    "half": lambda data: data[: len(data) // 2],
    "zeros at the end": lambda data: data[:-200] + bytes(200),
    "another byte": lambda data: data[:500] + bytes([data[500] ^ 1]) + data[501:],
    "no hash": lambda data: data[32:],  # as version 0.1 wrote it
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Return a cache folder that contains everything ``ADD`` needs."""
    folder = tmp_path_factory.mktemp("cache")
    assert output(ADD, XDG_CACHE_HOME=str(folder)) == ADDED
    return folder


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_program_is_compiled_again(damage, cache):
    programs = [*cache.glob("*/programs/*.bin")]
    assert programs
    before = [file.read_bytes() for file in programs]
    for file, data in zip(programs, before, strict=True):
        file.write_bytes(DAMAGE[damage](data))
    assert output(ADD, XDG_CACHE_HOME=str(cache)) == ADDED
    assert {*cache.glob("*/programs/*")} == {*programs}  # nothing is left over
    for file in programs:
        data = file.read_bytes()
        assert data[:32] == hashlib.sha256(data[32:]).digest()


def test_a_damaged_cache_of_pyopencl(cache):
    """PyOpenCL has its own cache, a database, unless PYOPENCL_NO_CACHE is set."""
    for file in cache.glob("pytools/*"):
        file.write_bytes(b"damaged")
    (cache / "pytools").mkdir(exist_ok=True)
    assert output(ADD, XDG_CACHE_HOME=str(cache), PYOPENCL_NO_CACHE=None) == ADDED
    assert not [*cache.glob("pytools/*")]


REASON = '"reason": "it is slow"'
VERDICTS = {
    "text": "damaged",
    "not UTF-8": b"\xff\xfe{",
    "a list": "[]",
    "null": "null",
    "a number": "17",
    "a word": '"works"',
    "deep": "[" * 100_000,
    "empty": "{}",
    "numbers": '{"works": 1, "reason": 2, "when": 3}',
    "works for a reason": f'{{"works": true, {REASON}}}',
    "no time": f'{{"works": false, {REASON}}}',
    "no number": f'{{"works": false, {REASON}, "when": "today"}}',
    "not a number": f'{{"works": false, {REASON}, "when": NaN}}',
    "the future": f'{{"works": false, {REASON}, "when": 1e300}}',
    "far too large": f'{{"works": false, {REASON}, "when": 1{"0" * 400}}}',
    "long ago": f'{{"works": false, {REASON}, "when": 0}}',
}


@pytest.mark.parametrize("content", VERDICTS)
def test_a_damaged_verdict_is_ignored(content, tmp_path):
    file = tmp_path / "verdict.json"
    text = VERDICTS[content]
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert _devices._known(file) is None


def test_a_damaged_verdict_is_written_again(cache):
    (file,) = cache.glob("*/verdicts/*")
    file.write_text("[]")
    done = python(ADD, XDG_CACHE_HOME=str(cache))
    assert (done.returncode, done.stdout) == (0, ADDED)
    assert "plugrad-opencl: trying" in done.stderr
    assert json.loads(file.read_text())["works"] is True


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "new" / "file"
    environment.save(file, b"one")
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda n: (fsync(n), synced.append(n)))
    replace = environment.Path.replace

    def checked_replace(self, target):
        assert synced, "renamed before it is on the disk"
        assert file.read_bytes() == b"one"
        return replace(self, target)

    monkeypatch.setattr(environment.Path, "replace", checked_replace)
    environment.save(file, b"two", mode=0o755)
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"two", 0o755)
    assert [*file.parent.iterdir()] == [file]


def test_a_relative_cache_folder_is_ignored(tmp_path):
    variables = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": "relative"}
    code = f"import os; os.chdir({str(tmp_path)!r})\n{ADD}"
    assert output(code, **variables) == ADDED
    assert {path.name for path in tmp_path.iterdir()} == {"home"}
    assert [*tmp_path.glob("home/.cache/plugrad-opencl/programs/*")]


def test_an_unknown_style():
    done = python(ADD, PLUGRAD_OPENCL_STYLE="x")
    assert done.returncode == 1
    assert "PLUGRAD_OPENCL_STYLE=x: give cpu or gpu, or unset it" in done.stderr
    doctor = python(DOCTOR, PLUGRAD_OPENCL_STYLE="x")
    assert "PLUGRAD_OPENCL_STYLE=x: give cpu or gpu" in doctor.stdout


FROZEN = "import sys; sys.frozen = True\n"
NO_ZIGLANG = """
import importlib.util as u
find_spec = u.find_spec
u.find_spec = lambda name, *more: None if name == "ziglang" else find_spec(name, *more)
"""


@pytest.fixture
def without_ld(tmp_path):
    """Return the environment of a process that finds a shell but no linker."""
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "uname"):
        (bare / tool).symlink_to(shutil.which(tool))
    return {"PATH": str(bare), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.parametrize("linker", ["_linker", "ziglang"])
def test_without_a_linker(linker, tmp_path, without_ld):
    if linker == "ziglang":
        pytest.importorskip("ziglang", reason="ziglang is not installed")
    hide = NO_ZIGLANG if linker == "_linker" else FROZEN
    assert output(hide + ADD, **without_ld) == ADDED
    assert linker in (tmp_path / "cache/plugrad-opencl/bin/ld").read_text()


# OpenCL C that needs more linker features than plugrad's kernels, and its results.
SOURCES = {
    "table": (
        "__constant float t[] = {1, 2, 3, 4}; __kernel void k(__global float *o) "
        "{ int i = get_global_id(0); o[i] = t[i & 3]; }",
        [1, 2, 3, 4],
    ),
    "memset": (
        "__kernel void k(__global float *o) { float a[4000]; int j = get_global_id(0); "
        "for (int i = 0; i < 4000; i++) a[i] = 0; a[j] = 2; float s = 0; "
        "for (int i = 0; i < 4000; i++) s += a[i]; o[j] = s; }",
        [2, 2, 2, 2],
    ),
    "memcpy": (
        "typedef struct { float a[500]; } S; __kernel void k(__global float *o) { "
        "__global S *x = (__global S *)o; S y = x[0]; y.a[3] = 7; x[0] = y; }",
        [0, 0, 0, 7],
    ),
    "printf": (
        "__kernel void k(__global float *o) { int i = get_global_id(0); "
        'if (i == 9) printf("%d %f", i, 1.5f); o[i] = i; }',
        [0, 1, 2, 3],
    ),
    "local memory": (
        "__kernel void k(__global float *o) { __local float l[4]; "
        "int i = get_local_id(0); l[i] = i; barrier(CLK_LOCAL_MEM_FENCE); "
        "o[i] = l[(i + 1) % 4]; }",
        [1, 2, 3, 0],
    ),
}
COMPILE = f"""
from plugrad_opencl import _pocl, environment
environment.prepare()
import numpy as np, pyopencl as cl
(platform,) = [p for p in cl.get_platforms() if "Portable" in p.name]
device = platform.get_devices()[0]
_pocl.name_processor(device)
context = cl.Context([device])
queue = cl.CommandQueue(context)
for source, _ in {SOURCES!r}.values():
    out = np.zeros(2000, np.float32)
    buffer = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=out)
    cl.Program(context, source).build().k(queue, (4,), (4,), buffer)
    cl.enqueue_copy(queue, out, buffer)
    print(*out[:4].astype(int))
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="PoCL is a dependency only on Linux"
)
def test_kernels_that_need_more_linker_features(without_ld):
    lines = output(NO_ZIGLANG + COMPILE, **without_ld).splitlines()
    assert [[*map(int, line.split())] for line in lines] == [
        expected for _, expected in SOURCES.values()
    ]


def test_no_linker_at_all(without_ld):
    variables = without_ld | {"PLUGRAD_OPENCL_DEVICE": "Portable"}
    done = python(NO_ZIGLANG + FROZEN + ADD, **variables)
    assert done.returncode == 1
    assert "BackendUnavailable" in done.stderr
    assert "PoCL needs a linker; install binutils" in done.stderr


def test_intels_runtime_is_added_to_the_installed_drivers(tmp_path, monkeypatch):
    """The file in Intel's package contains a path of the machine that built it."""
    library = tmp_path / "lib" / "libintelocl.so"
    library.parent.mkdir()
    library.touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(environment, "folder", lambda: tmp_path)
    monkeypatch.setenv("OCL_ICD_VENDORS", "/set/by/the/user")
    environment._add_intel()
    assert os.environ["OCL_ICD_VENDORS"] == "/set/by/the/user"
    monkeypatch.delenv("OCL_ICD_VENDORS")
    environment._add_intel()
    (icd_file,) = tmp_path.glob("vendors-*/intel-cpu.icd")
    assert icd_file.read_text() == f"{library}\n"
    assert os.environ["OCL_ICD_VENDORS"] == str(icd_file.parent)


def test_a_device_that_is_not_there():
    done = python(ADD, PLUGRAD_OPENCL_DEVICE="quantum")
    assert done.returncode == 1
    assert "no device matches 'quantum'" in done.stderr


def test_a_device_whose_compiler_crashes(tmp_path):
    """Only a trial process crashes, and its verdict is stored for a while."""
    code = """
import plugrad_opencl._devices as d, subprocess, sys
run, runs = subprocess.run, []
def crash(command, **more):
    runs.append(command)
    code = f"import os; print({d.TRIAL_BEGINS!r}, flush=True); os.abort()"
    return run([sys.executable, "-c", code], **more)
subprocess.run = crash
for _ in range(2):
    try:
        d.choose("0")
    except RuntimeError as error:
        print(len(runs), "ended with -6" in str(error))
"""
    assert output(code, XDG_CACHE_HOME=str(tmp_path)) == "1 True\n1 True\n"


# States of ``sys`` where Python is embedded or frozen, and doctor's remark on each.
PROGRAMS = {
    "frozen": ("sys.frozen = True", "a frozen program has no interpreter"),
    "none": ("sys.executable = None", "there is no interpreter"),
    "empty": ("sys.executable = ''", "there is no interpreter"),
    "missing": ("sys.executable = '/no/such/file'", "'/no/such/file' does not start"),
    "not executable": ("sys.executable = __file__", "does not start: Permission"),
    "other": ("sys.executable = '/bin/true'", "'/bin/true' does not run Python"),
    "itself": ("sys.executable = sys.argv[1]", "does not run Python modules"),
}
PROGRAM = """
import os, sys
with open(sys.argv[0] + ".starts", "a") as file:
    file.write("started\\n")
{setting}
import plugrad as pg
pg.set_backend("opencl")
print((pg.ones(2) + 1.5).tolist())
from plugrad.plugin import runtime
print(runtime("opencl").self_test())
"""


@pytest.mark.skipif(os.name != "posix", reason="starts a shell script")
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_that_is_not_an_interpreter(program, tmp_path, cache):
    """The program does not keep starting itself, and opencl works without a trial."""
    shutil.copytree(cache, tmp_path / "cache")
    shutil.rmtree(tmp_path / "cache" / "plugrad-opencl" / "verdicts")
    setting, remark = PROGRAMS[program]
    file = tmp_path / "program.py"
    starter = tmp_path / "program"
    file.write_text(PROGRAM.format(setting=setting))
    starter.write_text(f"#!/bin/sh\nexec {sys.executable} {file} {starter}\n")
    starter.chmod(0o755)
    for _ in range(2):
        done = subprocess.run(
            [str(starter)],
            env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(ADDED)
        assert remark in done.stdout
    starts = len(file.with_suffix(".py.starts").read_text().splitlines())
    assert starts == (3 if program == "itself" else 2)


@pytest.mark.parametrize("executable", [None, "", "/bin/true", "/no/such/python"])
def test_a_program_that_is_not_an_interpreter_is_no_linker(
    executable, tmp_path, monkeypatch
):
    """Calling ``sys.executable`` as a linker would start the program once more."""
    pytest.importorskip("ziglang")
    monkeypatch.setattr(environment, "has_linker", lambda: False)
    monkeypatch.setattr(environment, "folder", lambda: tmp_path)
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setenv("PATH", "")
    shim = tmp_path / "bin" / "ld"
    for damaged in (None, b"", b"\xff\xfe"):
        if damaged is not None:
            shim.write_bytes(damaged)
        environment._find_linker()
        assert shim.read_bytes().endswith(b'zig ld.lld "$@"\n')
        assert shim.stat().st_mode & 0o111


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


@pytest.mark.skipif(
    sys.platform != "linux", reason="PoCL is a dependency only on Linux"
)
def test_pyopencl_ctx_chooses_the_device():
    unset = {"PLUGRAD_OPENCL_DEVICE": None}  # would take precedence
    assert output(ADD, PYOPENCL_CTX="0", **unset) == ADDED
    done = python(ADD, PYOPENCL_CTX="99", **unset)
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
from plugrad._src.registry.registry import registry
pool = registry.open("opencl").runtime.arrays.device.pool
del x
assert pool.idle() == 0, pool.idle()
"""
    assert output(code, PLUGRAD_OPENCL_POOL="0") == "10.0\n"
    assert os.environ.get("PLUGRAD_OPENCL_POOL") is None


# In every process, one of two devices fails.
FAILING_DEVICE = """
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


def test_doctor_shows_skipped_devices_and_unwritable_folders(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(FAILING_DEVICE)
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), "/proc/no/such/folder")
    report = output(DOCTOR, PYTHONPATH=str(tmp_path), **nowhere)
    assert "runs on 1: " in report
    assert "skipped 0: Quantum 9000 (gpu, " in report
    assert "a test of it ended with -6" in report
    assert "cannot write to /proc/no/such/folder/plugrad-opencl" in report
    assert "set XDG_CACHE_HOME" in report
