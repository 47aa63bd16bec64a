"""`make dist` writes archives whose bytes depend only on their contents.

These are tests of its parts; `make dist-check` builds twice and installs everything.
"""

import io
import json
import os
import re
import tarfile
import time
import zipfile
from contextlib import nullcontext

import pytest

from release import archives, build, check, sbom
from release.archives import write_module_wheel
from tests.plugins.metadata import BUNDLED
from tests.plugins.test_metadata import PACKAGES, ROOT, project
from tests.plugins.wheels import run

EPOCH = 1_700_000_000
FILES = {
    "a-1/b.py": b"x = 1\n",
    "a-1/PKG-INFO": b"Name: a\n",
    "a-1/c/run": b"#!/bin/sh\n",
}


def written_sdist(path, names, mtime, mode, owner):
    """Write an sdist whose files have this order, time, mode and owner."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = len(FILES[name])
            info.mtime = mtime
            info.uname = owner
            info.mode = mode | (0o100 if name.endswith("run") else 0)
            archive.addfile(info, io.BytesIO(FILES[name]))
    return path


def test_an_sdist_depends_only_on_its_contents(tmp_path):
    first = written_sdist(tmp_path / "1", FILES, 1, 0o644, "me")
    second = written_sdist(tmp_path / "2", [*FILES][::-1], 2e9, 0o600, "you")
    contents = []
    for path in (first, second):
        archives.write_sdist(path, tmp_path / "a-1.tar.gz", EPOCH)
        contents.append((tmp_path / "a-1.tar.gz").read_bytes())
        os.utime(tmp_path / "a-1.tar.gz", (0, 0))
    assert contents[0] == contents[1]
    with tarfile.open(tmp_path / "a-1.tar.gz") as archive:
        members = archive.getmembers()
        assert {m.name: archive.extractfile(m).read() for m in members} == FILES
        assert [m.mode for m in members] == [0o644, 0o644, 0o755]
        assert {(m.mtime, m.uid, m.uname) for m in members} == {(EPOCH, 0, "")}


def test_a_wheel_depends_only_on_its_contents(tmp_path):
    contents = []
    for order in (1, -1):
        folder = tmp_path / str(order)
        folder.mkdir()
        wheel = write_module_wheel(folder, "plugrad-wasm", "x = 1\n", "")
        shuffled = folder / "shuffled"
        with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(shuffled, "w") as new:
            for name in old.namelist()[::order]:
                date = time.gmtime(EPOCH * order % 10**9 + 10**9)[:6]
                new.writestr(zipfile.ZipInfo(name, date), old.read(name))
        archives.write_wheel(shuffled, folder / wheel.name, EPOCH, {"s.json": "{}"})
        contents.append((folder / wheel.name).read_bytes())
    assert contents[0] == contents[1]
    with zipfile.ZipFile(folder / wheel.name) as archive:
        assert archive.namelist()[-1].startswith("plugrad_wasm-1.0.dist-info/")
        assert archive.read("plugrad_wasm-1.0.dist-info/sboms/s.json") == b"{}"
        record = archive.read("plugrad_wasm-1.0.dist-info/RECORD").decode()
        listed = {row.split(",")[0] for row in record.splitlines()}
        assert listed == {*archive.namelist()}
    # pip compares the files with RECORD.
    target = tmp_path / "site"
    alone = ("--no-index", "--no-deps", "--target", str(target))
    run(build.sys.executable, "-m", "pip", "install", *alone, str(folder / wheel.name))
    assert (target / "plugrad_wasm.py").read_text() == "x = 1\n"


def test_every_package_is_built():
    found = [str(path.relative_to(ROOT)) for path in build.packages()]
    assert found[0] == "core"
    assert sorted(found) == sorted(PACKAGES)


def wheel_of(table, path):
    """Write a wheel that contains the metadata of a distribution but no files."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "a-1.dist-info/METADATA",
            f"Name: {table['name']}\nVersion: {table['version']}\n"
            f"License-Expression: {table['license']}\n",
        )
        archive.writestr("a-1.dist-info/RECORD", "")
    return path


@pytest.mark.parametrize("folder", ["core", "plugins/cpu", "plugins/wasm"])
def test_an_sbom_names_what_is_bundled(folder, tmp_path):
    table = project(ROOT / folder)
    ((name, text),) = sbom.documents(wheel_of(table, tmp_path / "a.whl")).items()
    assert name == f"{table['name']}.cdx.json"
    document = json.loads(text)
    parts = [part["name"] for part in document["components"]]
    licenses = {path.stem for path in (ROOT / folder / "licenses").glob("*.txt")}
    assert {*parts} == licenses
    assert bool(parts) == (table["name"] in BUNDLED)
    assert document["metadata"]["component"]["version"] == table["version"]


SBOM_FAULTS = {  # the fault: wrong entries of the document, and their paths
    "nothing": ({}, []),
    "a component": (
        {"components": [{"type": "part", "name": "a"}]},
        ["$.components[0].type"],
    ),
    "a license": (
        {"components": [{"type": "library", "name": "a", "licenses": ["MIT"]}]},
        ["$.components[0].licenses"],
    ),
    "an entry that the schema lacks": ({"parts": []}, ["$"]),
}


@pytest.mark.parametrize("case", SBOM_FAULTS)
def test_a_fault_in_an_sbom_is_found(case, tmp_path):
    pytest.importorskip("cyclonedx", reason="needs the release group: run make dist")
    wrong, places = SBOM_FAULTS[case]
    wheel = wheel_of(project(ROOT / "plugins/wasm"), tmp_path / "bare.whl")
    ((name, text),) = sbom.documents(wheel).items()
    document = json.dumps(json.loads(text) | wrong)
    archives.write_wheel(wheel, tmp_path / "a.whl", EPOCH, {name: document})
    found = [fault.split(": ")[2] for fault in sbom.faults(tmp_path / "a.whl")]
    assert found == places


def test_a_wheel_without_an_sbom_is_found(tmp_path):
    pytest.importorskip("cyclonedx", reason="needs the release group: run make dist")
    wheel = wheel_of(project(ROOT / "plugins/wasm"), tmp_path / "bare.whl")
    assert [*sbom.faults(wheel)] == [f"{wheel.name}: it has no SBOM"]


BUILDS = {  # the files of the second build, and the end of the message if they differ
    "same": ({"a": "1", "b": "2"}, None),
    "changed": ({"a": "1", "b": "3"}, "two builds differ: b"),
    "fewer": ({"a": "1"}, "b; give dist-check the PYTHONS that dist was given"),
    "more": ({"a": "1", "b": "2", "c": "3"}, "has c; give dist-check the PYTHONS .*"),
}


@pytest.mark.parametrize("change", BUILDS)
def test_two_builds_are_compared(change, tmp_path, monkeypatch):
    def write(folder, files):
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)

    second, message = BUILDS[change]
    write(tmp_path / "dist", BUILDS["same"][0])
    monkeypatch.setattr(build, "build", lambda into, *_: write(into, second))
    scope = pytest.raises(SystemExit, match=f"{message}$") if message else nullcontext()
    with scope:
        check.check_bytes(tmp_path / "dist", tmp_path / "work", [])


@pytest.mark.parametrize("name", ["release", "test"])
def test_a_workflow_calls_existing_targets_and_pins_its_actions(name):
    text = (ROOT / f".github/workflows/{name}.yml").read_text()
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"\brun: make ([\w-]+)", text):
        assert re.search(rf"^{target}:", makefile, re.M), target
    for action in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action), action
    assert "\npermissions:\n  contents: read\n" in text


def test_only_files_that_git_tracks_are_copied(tmp_path):
    build.copy_tracked(ROOT / "plugins/cpu", tmp_path / "cpu")
    assert (tmp_path / "cpu/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    shared = "native/kernels/conv.c"
    assert (tmp_path / "cpu" / shared).read_bytes() == (ROOT / shared).read_bytes()
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]
    assert not [*tmp_path.rglob("*.so"), *tmp_path.rglob("__pycache__")]
