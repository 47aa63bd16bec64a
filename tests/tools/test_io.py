"""Files of named tensors: saving, loading, and what is refused."""

import errno
import io
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
import zipfile

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.tensor.dtypes import DTYPES
from plugrad_conformance.toy import toy

reason = "needs safetensors: pip install safetensors"
safetensors = pytest.importorskip("safetensors", reason=reason)
safetensors_numpy = pytest.importorskip("safetensors.numpy", reason=reason)


SAVED_DTYPES = [name for name in DTYPES if name not in ("complex128", "string")]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def test_saved_tensors_are_loaded(path, backend):
    x = pg.asarray(np.arange(6, dtype=np.float32).reshape(2, 3))
    model = {
        "x": x,
        "transposed": pg.permute_dims(x, (1, 0)),
        "reversed": pg.flip(x),
        "broadcast": pg.broadcast_to(x[:1], (4, 3)),
        "0-d": x[1, 2],
        "empty": x[:0],
        "layer.0/ünïcode name": pg.Variable([1.0, -np.inf, np.nan]),
        "array": np.arange(3, dtype=np.int32),
        "number": 2.5,
    }
    pg.save(path, model)
    loaded = pg.load(path)
    assert set(loaded) == set(model)
    for name, given in model.items():
        saved = pg.asarray(given)
        found = loaded[name]
        assert (found.shape, found.backend) == (saved.shape, backend)
        assert found.dtype is saved.dtype
        np.testing.assert_array_equal(found.numpy(), saved.numpy())
    assert (loaded["x"] * 2.0).tolist() == (x * 2.0).tolist()
    assert os.listdir(path.parent) == [path.name]


def test_every_dtype_is_saved_and_loaded(path):
    with pg.use_backend("cpu"):
        model = {dtype: pg.ones((2, 3), dtype=dtype) for dtype in SAVED_DTYPES}
        pg.save(path, model)
        for dtype, found in pg.load(path).items():
            assert found.dtype is model[dtype].dtype
            assert found.tolist() == model[dtype].tolist()
        pg.save(str(path), {})
        assert pg.load(str(path)) == {}


def test_other_programs_read_and_write_the_files(path, backend):
    pg.save(path, {"a": pg.asarray([[1.0, 2.0]])})
    assert safetensors_numpy.load_file(path)["a"].tolist() == [[1.0, 2.0]]
    safetensors_numpy.save_file({"b": np.ones(2, np.float32)}, path, {"by": "them"})
    assert pg.load(path)["b"].tolist() == [1.0, 1.0]
    torch = pytest.importorskip("torch", reason="needs torch, from the bench group")
    from safetensors.torch import load_file, save_file

    save_file({"c": torch.arange(3)}, path)
    with pg.use_backend("cpu"):
        assert pg.load(path)["c"].tolist() == [0, 1, 2]
        pg.save(path, {"d": pg.permute_dims(pg.asarray([[1.0, 2.0]]), (1, 0))})
    assert load_file(path)["d"].tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        ([1.0], TypeError, "save: expected a mapping from names to tensors, got list"),
        ({1: 1.0}, TypeError, "save: a name must be a str, got 1"),
        ({"": 1.0}, ValueError, "save: a tensor cannot be named ''"),
        ({"__metadata__": 1.0}, ValueError, "cannot be named '__metadata__'"),
        ({"z": np.ones(2, complex)}, TypeError, "save: 'z' is complex128, which"),
        ({"s": ["a"]}, TypeError, "save: 's' is string, which"),
        (
            {"w": {"a": 1.0}},
            TypeError,
            "save: 'w' is a dict, .*Checkpoints saves",
        ),
        ({"w": [{"a": 1.0}]}, TypeError, "save: 'w' is a list, and save takes a flat"),
        ({"ragged": [[1.0], [1.0, 2.0]]}, ValueError, "differ in length"),
    ],
)
def test_a_refused_model_leaves_the_old_file(path, model, error, match):
    with pg.use_backend("cpu"):
        pg.save(path, {"old": 1.0})
        with pytest.raises(error, match=match):
            pg.save(path, model)
        assert pg.load(path)["old"].item() == 1.0
    assert os.listdir(path.parent) == [path.name]


def test_a_crash_while_writing_leaves_the_old_file(path, monkeypatch, backend):
    pg.save(path, {"old": 1.0})

    def half(arrays, draft):
        with open(draft, "wb") as file:
            file.write(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(safetensors_numpy, "save_file", half)
    with pytest.raises(OSError, match="disk is full"):
        pg.save(path, {"new": 2.0})
    assert pg.load(path)["old"].item() == 1.0
    assert os.listdir(path.parent) == [path.name]


def test_missing_folders_and_directories_as_files_are_errors(tmp_path, backend):
    with pytest.raises(FileNotFoundError):
        pg.save(tmp_path / "none" / "x", {"x": 1.0})
    with pytest.raises(FileNotFoundError):
        pg.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        pg.load(tmp_path)
    with pytest.raises(OSError, match="director"):
        pg.save(tmp_path, {"x": 1.0})
    assert os.listdir(tmp_path) == []
    assert not list(tmp_path.parent.glob(f"{tmp_path.name}.*.tmp"))


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX modes and links")
def test_saving_preserves_modes_and_links(path, backend):
    pg.save(path, {"x": 1.0})
    plain = path.with_name("plain")
    plain.touch()
    mode = lambda p: stat.S_IMODE(p.stat().st_mode)
    assert mode(path) == mode(plain)
    path.chmod(0o640)
    link = path.with_name("link")
    link.symlink_to(path.name)
    pg.save(link, {"x": 2.0})
    assert link.is_symlink()
    assert mode(path) == 0o640
    assert pg.load(path)["x"].item() == 2.0


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"no such thing" * 9,
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data.replace(b"F32", b"F99"),
        lambda data: data.replace(b"[2,3]", b"[9,9]"),
        lambda data: data.replace(b"[0,24]", b"[8,24]"),
        lambda data: b"\xff" * 8 + data[8:],
    ],
)
def test_a_damaged_file_is_refused(damage, path, backend):
    pg.save(path, {"x": np.zeros((2, 3), np.float32)})
    data = path.read_bytes()
    assert damage(data) != data
    path.write_bytes(damage(data))
    complaint = r"load: .* is not a complete safetensors file"
    with pytest.raises(ValueError, match=complaint):
        pg.load(path)


PICKLES = {
    "protocol 2": pickle.dumps({"x": 1.0}, protocol=2),
    "protocol 5": pickle.dumps({"x": 1.0}, protocol=5),
}


def torch_archive():
    """Return the bytes of an archive as ``torch.save`` writes them."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("sd/data.pkl", PICKLES["protocol 2"])
        archive.writestr("sd/data/0", bytes(24))
    return file.getvalue()


@pytest.mark.parametrize(
    "data", [*PICKLES.values(), torch_archive()], ids=[*PICKLES, "archive"]
)
def test_a_pickle_of_torch_is_recognized(data, path, backend):
    path.write_bytes(data)
    advice = r"a PyTorch pickle; save it with safetensors\.torch\.save_file$"
    with pytest.raises(ValueError, match=advice):
        pg.load(path)


def numpy_file(write, x):
    file = io.BytesIO()
    write(file, x)
    return file.getvalue()


OTHER_FORMATS = {
    "it is a GGUF file; GGUFReader": b"GGUF" + bytes(60),
    "it is an HDF5 file; h5py": b"\x89HDF\r\n" + bytes(60),
    "it is a NumPy file; pass": numpy_file(np.save, np.ones(3)),
    "it is a NumPy archive; pass": numpy_file(np.savez, np.ones(3)),
}


@pytest.mark.parametrize("advice", OTHER_FORMATS)
def test_other_formats_are_recognized(advice, path, backend):
    path.write_bytes(OTHER_FORMATS[advice])
    with pytest.raises(ValueError, match=advice):
        pg.load(path)


@pytest.fixture
def file_size_limit():
    """Limit the size of files to 10,000 bytes, like a disk that is full."""
    resource = pytest.importorskip("resource", reason="file size limits are POSIX")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_an_os_error(path, file_size_limit):
    pg.save(path, {"x": np.ones(3, np.float32)})
    with pytest.raises(OSError, match=r"save: .*(?i:too large)") as caught:
        pg.save(path, {"x": np.ones(100_000, np.float32)})
    assert caught.value.errno == errno.EFBIG
    assert caught.value.filename == os.path.realpath(path)
    assert os.listdir(path.parent) == [path.name]
    assert pg.load(path)["x"].shape == (3,)


def test_dtypes_that_plugrad_lacks_are_refused(path):
    header = b'{"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(TypeError, match=r"load: 'x' in .* has dtype F8_E4M3, which"):
        pg.load(path)


def test_bfloat16_is_read_as_it_is(path):
    values = np.array([[1.5, -0.0], [np.inf, np.nan], [1e-40, 3e38]], np.float32)
    upper = (values.view("<u4") >> 16).astype("<u2")
    rows = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [3, 2], "data_offsets": [8, 20]},
        "none": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [20, 20]},
    }
    header = json.dumps(rows).encode()
    data = np.ones(2, "<f4").tobytes() + upper.tobytes()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    found = pg.load(path)
    assert {name: x.shape for name, x in found.items()} == {
        name: tuple(row["shape"]) for name, row in rows.items()
    }
    assert [x.dtype.name for x in found.values()] == ["float32", "bfloat16", "bfloat16"]
    np.testing.assert_array_equal(found["b"].numpy().view(np.uint16), upper)


def test_a_backend_that_lacks_a_dtype_loads_all_tensors_or_none(path):
    with pg.use_backend("cpu"):
        pg.save(path, {"a": 1.0, "b": np.zeros(2)})
    with toy(dtypes=["float32"]), pg.use_backend("toy"):
        with pytest.raises(TypeError, match="load: 'b': backend 'toy' has no float64"):
            pg.load(path)
        pg.save(path, {"a": 1.0})
        assert pg.load(path)["a"].backend == "toy"


def test_a_loaded_tensor_does_not_change_with_the_file(path, backend):
    pg.save(path, {"x": np.ones(1000, np.float32)})
    x = pg.load(path)["x"]
    with open(path, "rb+") as file:
        file.seek(-4000, os.SEEK_END)
        file.write(bytes(4000))
    assert pg.sum(x).item() == 1000.0


def test_without_safetensors_the_error_says_how_to_install_it(
    path, monkeypatch, backend
):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for use in (lambda: pg.save(path, {}), lambda: pg.load(path)):
        with pytest.raises(ImportError, match=r"try `pip install safetensors`"):
            use()
    assert os.listdir(path.parent) == []


# --- processes that are killed or stopped while they save --------------------------

SAVE_REPEATEDLY = """
import sys, plugrad as pg
x = pg.zeros(4_000_000, device="cpu")
print("ready", flush=True)
while True:
    pg.save(sys.argv[1], {"x": x})
"""


@pytest.fixture
def writer(path):
    """Return a process that saves repeatedly; kill it after the test."""
    if sys.platform == "win32":
        pytest.skip("Windows has neither SIGSTOP nor locks of folders")
    command = [sys.executable, "-c", SAVE_REPEATEDLY, str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    with process, process.stdout:
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def stop_while_writing(process, path):
    """Stop a process while it writes; return the files that it has begun."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.003)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        if begun := [*path.parent.glob("*.tmp/*")]:
            return begun
    raise AssertionError("the process never writes")


def test_the_next_save_removes_files_of_a_killed_save(path, writer):
    begun = stop_while_writing(writer, path)
    other = path.with_name("other.safetensors")
    pg.save(path, {"x": 1.0})  # while the other process is stopped
    assert all(file.exists() for file in begun), "it removed files of a live writer"
    writer.kill()
    writer.wait()
    pg.save(other, {"x": 1.0})  # a file with another name
    assert all(file.exists() for file in begun)
    pg.save(path, {"x": 2.0})
    assert sorted(os.listdir(path.parent)) == [path.name, other.name]
    assert pg.load(path)["x"].item() == 2.0


def test_a_file_that_is_named_like_a_draft_stays(path):
    for name in (f"{path.name}.0123abcd.tmp", f"{path.name}.x.tmp", "0123abcd.tmp"):
        path.with_name(name).write_text("a user's")
    pg.save(path, {"x": 1.0})
    assert len(os.listdir(path.parent)) == 4
