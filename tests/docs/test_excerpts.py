"""Excerpts in READMEs are lines of the source, or work in a test that uses them."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, blocks, promised


def excerpts(page, language="python"):
    """Return the code blocks that are not complete programs."""
    found = blocks(language, (ROOT / page).read_text())
    return [code for code in found if not promised(code) and "#include" not in code]


def test_how_a_kernel_of_opencl_is_written():
    """The lines are in the source, in this order; ``...`` stands for omitted lines."""
    (code,) = excerpts("plugins/opencl/README.md")
    kernels = ROOT / "plugins/opencl/src/plugrad_opencl/kernels"
    remaining = [
        line.strip() for line in (kernels / "sorting.py").read_text().splitlines()
    ]
    for line in code.splitlines():
        shown = line.partition("  # ")[0].strip()
        if shown and shown != "...":
            assert shown in remaining, line
            remaining = remaining[remaining.index(shown) + 1 :]


def test_how_user_tests_run_on_every_backend(tmp_path):
    (code,) = excerpts("tests/conformance/README.md")
    (tmp_path / "conftest.py").write_text(code)
    test = "import plugrad\ndef test(backend):\n    print(plugrad.get_backend())\n"
    (tmp_path / "test_it.py").write_text(test)
    command = [sys.executable, "-m", "pytest", "-sv", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--plugrad-backend=cpu", str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout
    assert "test_it.py::test[cpu] cpu\nPASSED" in done.stdout


# --- a family of kernels on wasm ---------------------------------------------------

WASM = ROOT / "plugins" / "wasm"
USE = """
import numpy as np
import plugrad_wasm
from plugrad.plugin import KernelTable
from plugrad_wasm.arrays import WasmArray, WasmArrays, download, empty
from plugrad_wasm.launch import FLOAT32, binary, unary
from plugrad_wasm.runtime import Machine

upload = WasmArrays(Machine()).upload

{shown}

x = np.array([[1, -2, 3], [4, 5, 6]], np.float32)
for dtype in (np.float32, np.float64):
    print(download(kernels["Cube"](upload(x.astype(dtype)))).tolist())
print(download(kernels["Hypot2"](upload(x), upload(x[:, :1]))).tolist())
print(download(kernels["First"](upload(x))).tolist())
print(first(upload(x.astype(int))))
"""
OUTPUT = [
    *(["[[1.0, -8.0, 27.0], [64.0, 125.0, 216.0]]"] * 2),
    "[[2.0, 5.0, 10.0], [32.0, 41.0, 52.0]]",
    "[1.0, 4.0]",
    "NotImplemented",
]


def link_package(installed, package):
    """Link plugrad-wasm's files into a new folder; return its folder "modules"."""
    modules = package / "modules" / "plain"
    modules.mkdir(parents=True)
    for path in installed.iterdir():
        if path.name != "modules":
            (package / path.name).symlink_to(path)
    for path in (installed / "modules" / "plain").glob("*.wasm"):
        (modules / path.name).symlink_to(path)
    return modules


@pytest.fixture
def compile_family(tmp_path, monkeypatch):
    """Return a function that compiles C code as an additional plugrad-wasm module.

    The function returns the folder from which the package can be imported.
    """
    package = pytest.importorskip("plugrad_wasm", reason="needs plugrad-wasm")
    pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")
    file = WASM / "hatch_build.py"
    spec = importlib.util.spec_from_file_location("hatch_build", file)
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    installed = Path(package.__file__).parent
    package = tmp_path / "site" / "plugrad_wasm"
    modules = link_package(installed, package)
    index = json.loads((installed / "modules/plain/index.json").read_text())
    sources = tmp_path / "src_c"
    sources.mkdir()

    def compile_text(text):
        for name in build.COMMON:
            shutil.copy(build.sources()[name], sources)
        (sources / "shown.c").write_text(text)
        # The cache contains the C library, which takes a minute to compile.
        cache = WASM / "build" / "zig"
        cache.mkdir(parents=True, exist_ok=True)
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "zig").symlink_to(cache)
        monkeypatch.setattr(build, "ROOT", tmp_path)
        monkeypatch.setattr(build, "FOLDERS", [sources])
        monkeypatch.setattr(build, "MODULES_OF_FILES", {})
        monkeypatch.setattr(build, "COPIES", {})
        monkeypatch.setattr(build, "STACK", index["heap"])
        objects, libraries = build.compile_all(debug=False)
        linked = build.link(modules, objects["plain"], libraries)
        linked["owners"] |= index["owners"]
        (modules / "index.json").write_text(json.dumps(linked))
        return package.parent

    return compile_text


def test_how_a_family_of_wasm_is_written(compile_family):
    """The C code is compiled as an additional module, which the Python code uses."""
    page = "plugins/wasm/README.md"
    site = compile_family("\n".join(['#include "elementwise.h"', *excerpts(page, "c")]))
    (shown,) = excerpts(page)
    variables = {"PYTHONPATH": str(site), "PLUGRAD_WASM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE.format(shown=shown)],
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == OUTPUT
