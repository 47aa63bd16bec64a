"""Wheels of ``release.host``: one for each change; misfit wheels for ``compat``."""

import subprocess

import pytest

from release import compat, host
from tests.plugins.metadata import read_wheel


@pytest.fixture
def package(tmp_path):
    """Return a folder in a new repository, with a file that git tracks."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    folder = tmp_path / "package"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "one.py").write_text("x = 1\n")
    (tmp_path / ".gitignore").write_text("build/\n")
    subprocess.run(["git", "add", "."], check=True, cwd=tmp_path)
    return folder


def test_a_digest_covers_the_files_that_git_does_not_ignore(package, monkeypatch):
    first = host.digest(package)
    (package / "build").mkdir()
    (package / "build" / "made.o").write_text("object")
    assert host.digest(package) == first
    (package / "src" / "two.py").write_text("")  # not tracked yet
    second = host.digest(package)
    (package / "src" / "one.py").write_text("x = 2\n")
    third = host.digest(package)
    monkeypatch.setenv("CFLAGS", "-O1")
    assert len({first, second, third, host.digest(package)}) == 4


def test_a_copy_keeps_objects_and_drops_deleted_files(package, tmp_path):
    copy = tmp_path / "copy"
    host.copy(package, copy)
    (copy / "build" / "zig").mkdir(parents=True)
    (copy / "build" / "zig" / "cached.o").write_text("object")
    (copy / "build" / "lib").mkdir()
    (copy / "build" / "lib" / "old.py").write_text("")
    before = (copy / "src" / "one.py").stat().st_mtime_ns
    (package / "src" / "two.py").write_text("")
    host.copy(package, copy)
    (package / "src" / "two.py").unlink()
    host.copy(package, copy)
    found = {str(p.relative_to(copy)) for p in copy.rglob("*") if p.is_file()}
    assert found == {"src/one.py", "build/zig/cached.o"}
    assert (copy / "src" / "one.py").stat().st_mtime_ns == before


def test_shared_sources_are_those_of_the_checkout_of_a_package(tmp_path):
    """``make compat`` builds the wheels of other commits."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    for name in ("native/one.c", "plugins/wasm/two.py", "plugins/onnx/three.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    subprocess.run(["git", "add", "."], check=True, cwd=tmp_path)
    found = [str(name) for name, _ in host.files(tmp_path / "plugins" / "wasm")]
    assert found == ["native/one.c", "two.py"]
    assert [str(n) for n, _ in host.files(tmp_path / "plugins" / "onnx")] == [
        "three.py"
    ]


def wheel(folder, name, digest):
    return folder / name / digest / f"{name}-0.1.0-py3-none-any.whl"


def test_more_wheels_come_later(tmp_path, monkeypatch):
    """``make demo`` installs some wheels, ``make test`` the others and changed ones."""
    installed = []
    present = set()
    monkeypatch.setattr(host.sys, "prefix", str(tmp_path))
    monkeypatch.setattr(host, "pip", lambda *arguments: installed.append(arguments))
    monkeypatch.setattr(host, "installed_distributions", lambda: present)
    core = wheel(tmp_path, "plugrad", "a")
    cpu = wheel(tmp_path, "plugrad_cpu", "b")
    changed = wheel(tmp_path, "plugrad", "c")
    again = ("install", "--no-deps", "--force-reinstall")
    host.install([core])
    assert installed == [("install", core)]
    installed.clear()
    present.add("plugrad")
    host.install([core, cpu])
    assert installed == [("install", cpu)]
    installed.clear()
    present.add("plugrad_cpu")
    host.install([changed])
    assert installed == [(*again, changed)]
    installed.clear()
    host.install([changed, cpu])
    assert not installed
    (tmp_path / ".wheels.json").unlink()  # as after an interruption
    host.install([changed, cpu])
    assert installed == [("install", changed, cpu), (*again, changed, cpu)]


def test_a_folder_without_a_distribution_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(host.sys, "argv", ["host", "core", "plugins/gpu"])
    with pytest.raises(SystemExit):
        host.main()
    assert "no distribution is in" in (text := capsys.readouterr().err)
    assert "plugins/gpu" in text
    assert "core," not in text


@pytest.mark.parametrize("name", compat.MISFITS)
def test_a_misfit_is_a_wheel(name, tmp_path):
    wheel = compat.write_misfit(name, tmp_path)
    assert compat.name_of(wheel) == name
    assert f"Name: {name}" in str(read_wheel(wheel))
