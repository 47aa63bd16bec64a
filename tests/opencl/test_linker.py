"""The linker that PoCL gets on machines without one links callable libraries."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugrad_opencl import _linker

pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64",
    reason="it links for x86-64 Linux",
)

# What an object contains: its C source, and the value of f(5).
OBJECTS = {
    "code": ("int f(int x) { return x + 1; }", 6),
    "constants": ("int f(int x) { double y = x; return y * 2.5 + 0.5; }", 13),
    "function": (
        "static __attribute__((noinline)) int g(int x) { return x * x; }\n"
        "int f(int x) { return g(x) + g(x + 1); }",
        61,
    ),
    "hidden function": (
        '__attribute__((visibility("hidden"), noinline)) int g(int x) { return x; }\n'
        "int f(int x) { return g(x) * 3; }",
        15,
    ),
    "table of jumps": (
        "int f(int x) { switch (x) { case 0: return 9; case 1: return 4; case 2: "
        "return 7; case 3: return 2; case 4: return 8; case 5: return 77; }\n"
        "return 1; }",
        77,
    ),
    "table of addresses": (
        "static int g(int x) { return x * 2; } static int h(int x) { return x * 3; }\n"
        "int (*volatile table[])(int) = {g, h};\n"
        "int f(int x) { return table[0](x) + table[1](x); }",
        25,
    ),
    "data": ("static int n = 30; int f(int x) { n += x; return n; }", 35),
    "zeros": (
        "static volatile int n[5000]; int f(int x) { n[4999] += x; return n[4999]; }",
        5,
    ),
    "a global of its own": ("int n = 4; int f(int x) { return n + x; }", 9),
    "libc's function": (
        "int abs(int); int f(int x) { return abs(-x - x); }",
        10,
    ),
    "libc's function by its address": (
        "int toupper(int); typedef int (*G)(int); static G volatile g = toupper;\n"
        "int f(int x) { return g('a' + x); }",
        ord("F"),
    ),
    "libc's memory": (
        "void *memset(void *, int, unsigned long);\n"
        "int f(int x) { volatile char n[300]; memset((void *)n, x, 300);\n"
        "return n[0] + n[299]; }",
        10,
    ),
    "alignment": (
        "static _Alignas(64) volatile char n[3] = {1, 2, 3};\n"
        "int f(int x) { return ((unsigned long)n & 63) + n[x - 3]; }",
        3,
    ),
}
REFUSED = {
    "thread-local": ("_Thread_local int n; int f(void) { return ++n; }", ".tbss", ()),
    "constructor": (
        "int n, getpid(void);\n"
        "__attribute__((constructor)) void f(void) { n = getpid(); }",
        ".init_array",
        (),
    ),
    "common": ("int n; int f(void) { return n; }", "symbol n", ("-fcommon",)),
    "far addresses": (
        "int n[9]; int f(int x) { return n[x]; }",
        "relocation",
        ("-mcmodel=large",),
    ),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a function that compiles C and returns the object's path."""
    folder = tmp_path_factory.mktemp("objects")
    caches = dict.fromkeys(("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"), str(folder))

    def compile(source: str, *options: str) -> Path:
        number = len([*folder.glob("*.c")])
        path = folder / f"{number}.c"
        path.write_text(source)
        command = ["-m", "ziglang", "cc", "-target", "x86_64-linux-gnu", "-c", "-O2"]
        command += ["-fPIC", "-fno-builtin-abs", "-fno-sanitize=all", *options]
        object_path = path.with_suffix(".o")
        done = subprocess.run(
            [sys.executable, *command, str(path), "-o", str(object_path)],
            env=os.environ | caches,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return object_path

    return compile


def link(path: Path) -> str | None:
    """Link an object with the options that PoCL's compiler gives; return any error."""
    library = path.with_suffix(".so")
    options = ["--hash-style=both", "-m", "elf_x86_64", "-shared", "-o", str(library)]
    return _linker.main([*options, "-L/usr/lib", str(path), "-lgcc", "--as-needed"])


@pytest.mark.parametrize("name", OBJECTS)
def test_a_library_runs(name, compiled):
    source, expected = OBJECTS[name]
    path = compiled(source)
    assert link(path) is None
    library = ctypes.CDLL(str(path.with_suffix(".so")))
    assert library.f(5) == expected
    assert not hasattr(library, "g")


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_objects_are_refused(name, compiled):
    source, message, options = REFUSED[name]
    path = compiled(source, *options)
    error = link(path)
    assert error is not None
    assert message in error
    assert "is not supported; install binutils" in error
    assert not path.with_suffix(".so").exists()


def test_files_that_are_not_objects_are_refused(tmp_path):
    text = tmp_path / "text.o"
    text.write_text("no object")
    assert "a file that is not 64-bit ELF is not supported" in (link(text) or "")
    program = tmp_path / "program.o"
    program.write_bytes(Path(sys.executable).read_bytes())
    assert "a file that is not an object for x86-64" in (link(program) or "")
    assert "links one object, got []" in (_linker.main(["-o", "x"]) or "")


def test_the_linker_imports_little():
    """The linker starts for each compiled kernel, so it does not import plugrad."""
    folder = Path(_linker.__file__).parent
    code = f"import sys; sys.path.append({str(folder)!r}); import _linker\n"
    code += "print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True
    )
    loaded = {*done.stdout.split()}
    assert "_linker" in loaded
    assert not {"numpy", "plugrad", "pyopencl", "subprocess"} & loaded
