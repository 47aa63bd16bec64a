"""Distributions: metadata, versions, sdists, and a core without a C compiler.

Only a wheel of the core is built here; `make dist` builds all wheels.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from build.util import project_wheel_metadata
from packaging.version import Version
from plugrad_conformance.__main__ import main
from plugrad_conformance.new import KINDS

from release.build import SHARES_NATIVE
from tests.plugins.metadata import metadata_problems, read_sdist
from tests.plugins.wheels import PROGRAM, ROOT, clean_variables, copied, package, run

WORKSPACE = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
PACKAGES = [
    str(path.parent.relative_to(ROOT))
    for pattern in WORKSPACE["workspace"]["members"]
    for path in sorted(ROOT.glob(f"{pattern}/pyproject.toml"))
]
# Files that a build needs and that build backends do not include by themselves.
SOURCES = {
    "core": {"setup.py"},
    "plugins/cpu": {"setup.py", "compile_kernels.py"},
    "plugins/wasm": {"hatch_build.py"},
    "plugins/opencl": {"src/plugrad_opencl/cl/math.cl"},
    "plugins/webgpu": {"src/plugrad_webgpu/wgsl/math.wgsl"},
}


def project(folder):
    return tomllib.loads((Path(folder) / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("folder", PACKAGES)
def test_the_metadata_of_wheels_and_sdists_is_complete(folder, tmp_path):
    source = copied(folder, tmp_path / "source")
    assert metadata_problems(project_wheel_metadata(source, isolated=False)) == []
    (tmp_path / "dist").mkdir()
    metadata, names = read_sdist(package(source, tmp_path / "dist", kind="sdist"))
    assert metadata_problems(metadata) == []
    folders = [source / "src_c", source / "native"]
    c_sources = {
        path.relative_to(source).as_posix()
        for each in folders
        for path in each.rglob("*.[ch]")
    }
    assert ("native/kernels/gemm.c" in c_sources) == (folder in SHARES_NATIVE)
    assert {"LICENSE", "README.md", *SOURCES.get(folder, ()), *c_sources} <= {*names}
    typed = "Typing :: Typed" in metadata.get_all("Classifier")
    assert any(name.endswith("/py.typed") for name in names) == typed


# --- versions ----------------------------------------------------------------------


def versions(folder):
    """Return the versions of all distributions, and their bounds on each other."""
    found = [project(folder / name) for name in PACKAGES]
    extras = [table.get("optional-dependencies", {}).values() for table in found]
    needs = [need for table in found for need in table["dependencies"]]
    needs += [need for lists in extras for each in lists for need in each]
    bound = r"^(?:keras-)?plugrad[a-z-]*>=([\d.]+),<([\d.]+)$"
    bounds = re.findall(bound, "\n".join(needs), re.M)
    assert len(bounds) == 30
    citation = (folder / "CITATION.cff").read_text()
    (cited,) = re.findall(r"^version: (.*)$", citation, re.M)
    return {cited, *(table["version"] for table in found)}, {*bounds}


def test_all_distributions_have_the_same_version():
    """The lowest version that a plugin allows may be older: `make compat` tests it."""
    version = project(ROOT / "core")["version"]
    found, bounds = versions(ROOT)
    assert found == {version}
    major, minor = map(int, version.split(".")[:2])
    assert {above for _, above in bounds} == {f"{major}.{minor + 1}"}
    assert all(Version(lowest) <= Version(version) for lowest, _ in bounds)


def test_make_version_changes_all_files(tmp_path):
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    for path in (
        "Makefile",
        "CITATION.cff",
        *(f"{name}/pyproject.toml" for name in PACKAGES),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    run("make", "-C", str(tmp_path), "version", "NEW=7.8.9")
    found, bounds = versions(tmp_path)
    lowest = {lowest for lowest, _ in versions(ROOT)[1]}
    assert found == {"7.8.9"}
    assert bounds == {(name, "7.9") for name in lowest}
    assert not [*tmp_path.rglob("*.old")]
    refused = subprocess.run(
        ["make", "-C", str(tmp_path), "version"], capture_output=True, text=True
    )
    assert refused.returncode == 2
    assert "make version NEW=0.2.0" in refused.stderr


def test_an_extra_of_the_core_installs_each_plugin():
    """The kit and the example have no extra, because they are for plugin authors."""
    extras = project(ROOT / "core")["optional-dependencies"]
    plugins = [project(ROOT / name)["name"] for name in PACKAGES if "plugins/" in name]
    for name in plugins:
        extra = name.removeprefix("plugrad-").removesuffix("-plugrad")
        assert [need.partition(">=")[0] for need in extras[extra]] == [name]
    (everything,) = extras["all"]
    named = re.fullmatch(r"plugrad\[(.*)\]", everything)[1].split(",")
    # Keras needs a nightly build; most kernels of webgpu are still slow.
    assert {*named} == {*extras} - {"all", "keras", "webgpu"}


# --- templates ---------------------------------------------------------------------


@pytest.mark.parametrize("command", KINDS)
def test_a_generated_package_shows_where_license_and_urls_go(command, tmp_path):
    assert main([command, "something", "--into", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    path = folder / "pyproject.toml"
    assert {"license", "urls"}.isdisjoint(project(folder))
    path.write_text(re.sub(r"^# ", "", path.read_text(), flags=re.M))
    table = project(folder)
    assert (table["license"], table["license-files"]) == ("MIT", ["LICENSE"])
    assert {*table["urls"]} == {"Homepage", "Changelog", "Issues"}


# --- without a C compiler ----------------------------------------------------------


@pytest.fixture(scope="module")
def uncompiled(tmp_path_factory):
    """Return a folder with the core as it is installed without a C compiler."""
    folder = tmp_path_factory.mktemp("uncompiled")
    source = copied("core", folder / "source")
    (folder / "dist").mkdir()
    wheel = package(source, folder / "dist", CC="no-such-compiler", PATH=str(folder))
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def test_without_a_compiler_the_core_has_no_accelerators(uncompiled):
    assert not [*uncompiled.rglob("*.so"), *uncompiled.rglob("*.pyd")]


def test_without_a_compiler_everything_works(uncompiled):
    path = os.pathsep.join([str(uncompiled), os.environ.get("PYTHONPATH", "")])
    env = clean_variables() | {"PYTHONPATH": path, "PLUGRAD_PLUGINS": "cpu"}

    def prints(*arguments):
        command = [sys.executable, "-W", "error", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert prints("-c", PROGRAM) == "[0.5, 0.5] cpu"
    report = json.loads(prints("-m", "plugrad", "doctor", "--json"))["accelerators"]
    assert not report["in use"]
    assert report["reason"] == "they were not compiled when plugrad was installed"
    assert report["advice"].startswith("install a plugrad wheel, or install a C comp")
