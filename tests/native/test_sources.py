"""The C code that backends share: its location, and which files query the target."""

import importlib.util
import re

import pytest

from release.build import ROOT, SHARES_NATIVE

NATIVE = ROOT / "native"
TARGET = re.compile(r"__(wasm|x86_64|aarch64|ARM|AVX|SSE|FMA)\w*|\b_M_\w+")
HEADERS = {"x86_64.h", "arm64.h", "wasm32.h"}


def target_macros(path):
    """Return the compiler macros in a source that describe the target."""
    return {found[0] for found in TARGET.finditer(path.read_text())}


def test_no_kernel_queries_its_target():
    files = {path.name for path in NATIVE.rglob("*.[ch]") if target_macros(path)}
    assert files == {"target.h", "x86_64.h"}  # x86_64.h has three instruction sets
    assert not [path.name for path in NATIVE.rglob("*") if path.is_symlink()]


def test_each_target_has_a_header():
    text = (NATIVE / "targets/target.h").read_text()
    chosen = re.findall(r'#include "(\w+\.h)"', text)
    assert {*chosen} == HEADERS
    others = {path.name for path in (NATIVE / "targets").glob("*.h")} - HEADERS
    assert others == {"target.h", "processor.h", "lanes.h"}


@pytest.mark.parametrize("name", ["targets/target.h", "README.md"])
def test_the_macros_of_targets_are_documented(name):
    text = (NATIVE / name).read_text()
    headers = [NATIVE / "targets" / each for each in (*HEADERS, "processor.h")]
    defined = {
        word
        for path in headers
        for word in re.findall(r"#define ([A-Z][A-Z0-9_]*)\b", path.read_text())
    }
    used = {
        word
        for path in (NATIVE / "kernels").iterdir()
        for word in re.findall(r"\b[A-Z][A-Z0-9_]*\b", path.read_text())
    }
    vectors = {"FOLD", "LANES", "OP", "T", "TF", "TU", "VEC", "VINT", "VLOAD", "FUSED"}
    optional = {"DOT_I8", "WITH_DOT_I8", "DOT_U8_I8", "HALF_MADD_I16", "WORDS_MADD_I16"}
    optional = optional if name.endswith(".h") else set()
    required = (defined & used) - vectors - optional
    assert len(required) > 15
    assert [word for word in sorted(required) if word not in text] == []


def test_both_builds_compile_every_kernel():
    kernels = {path.stem for path in (NATIVE / "kernels").glob("*.c")}
    for folder, script in zip(
        SHARES_NATIVE, ("compile_kernels.py", "hatch_build.py"), strict=True
    ):
        spec = importlib.util.spec_from_file_location("script", ROOT / folder / script)
        build = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(build)
        found = build.sources()
        names = {*found} if isinstance(found, dict) else {path.stem for path in found}
        assert kernels < names
