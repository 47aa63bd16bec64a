"""Compile the C for macOS and Windows on Linux: ``python -m tests.native.platforms``.

For each platform, this links the kernel library and the extension modules of the core
and of plugrad-cpu. It runs nothing; ``replayed.py`` runs the Windows kernels under
Wine. It needs ziglang, ``nm`` from binutils, and a package index for pip: NumPy's
headers come from its wheel for the platform. Python's headers are those of this
machine; for Windows, ``PYCONFIG`` replaces ``pyconfig.h``.

Modules are compiled as C11 without GNU extensions, which MSVC does not support.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
CPU = ROOT / "plugins/cpu"
sys.path.insert(0, str(CPU))
import compile_kernels  # noqa: E402  # a module of plugrad-cpu

BUILD_FOLDER = CPU / "build/platforms"
MODULES = {"_speedups": ROOT / "core/src_c", "_native": CPU / "src_c"}
C_OPTIONS = [
    "-std=c11",
    "-Wgnu",
    "-Wvla",
    "-Wall",
    "-Werror",
    "-fno-sanitize=all",
    "-O2",
]
C_OPTIONS += ["-DNPY_NO_DEPRECATED_API=NPY_2_1_API_VERSION"]
# Functions that the modules call and that Python exports only on Windows.
ONLY_WINDOWS = ["PyErr_SetExcFromWindowsErrWithFilenameObject"]
# The macros that Python's headers need on 64-bit Windows; see CPython's PC/pyconfig.h.
PYCONFIG = """
#define MS_WIN32
#define MS_WIN64
#define MS_WINDOWS
#define MS_COREDLL
#define NT_THREADS 1
#define Py_ENABLE_SHARED
#define HAVE_DECLSPEC_DLL
#define HAVE_STDDEF_H 1
#define HAVE_SYS_TYPES_H 1
#define HAVE_WCHAR_H 1
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_OFF_T 4
#define SIZEOF_FPOS_T 8
#define SIZEOF_SHORT 2
#define SIZEOF_INT 4
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_DOUBLE 8
#define SIZEOF_FLOAT 4
#define SIZEOF_WCHAR_T 2
#define ALIGNOF_SIZE_T 8
#define ALIGNOF_MAX_ALIGN_T 8
typedef long long Py_ssize_t;
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX 9223372036854775807LL
#define PY_FORMAT_SIZE_T "z"
"""


class Platform(NamedTuple):
    """A platform to compile for.

    Attributes:
        level: The instruction set of the kernel library, as in ``compile_kernels``.
        system: The end of zig's name for the target.
        wheel: pip's name for the platform.

    """

    level: str
    system: str
    wheel: str

    @property
    def target(self) -> list[str]:
        """The options that choose the target."""
        machine = "aarch64" if self.level == "aarch64" else "x86_64"
        return ["-target", f"{machine}-{self.system}"]


PLATFORMS = {
    "macos-arm64": Platform("aarch64", "macos.11.0", "macosx_11_0_arm64"),
    "macos-x86_64": Platform("x86_64_v3", "macos.11.0", "macosx_10_13_x86_64"),
    "windows-x86_64": Platform("x86_64_v3", "windows-gnu", "win_amd64"),
    "windows-arm64": Platform("aarch64", "windows-gnu", "win_arm64"),
}


def numpy_headers(platform: Platform, folder: Path) -> Path:
    """Return NumPy's headers for a platform, from its wheel."""
    found = folder / "numpy/_core/include"
    if not found.exists():
        version = f"{sys.version_info[0]}{sys.version_info[1]}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary=:all:", "--platform", platform.wheel]
        command += ["--python-version", version, "--dest", str(folder)]
        subprocess.run([*command, f"numpy=={np.__version__}"], check=True)
        (wheel,) = folder.glob("numpy-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if "/_core/include/" in n]
            archive.extractall(folder, names)
        wheel.unlink()
    return found


def python_headers(platform: Platform, folder: Path) -> Path:
    """Return the headers of this Python, with a ``pyconfig.h`` for the platform."""
    headers = folder / "python"
    shutil.copytree(sysconfig.get_path("include"), headers, dirs_exist_ok=True)
    if platform.system.startswith("windows"):
        (headers / "pyconfig.h").write_text(PYCONFIG)
    return headers


def import_library(platform: Platform, folder: Path) -> Path:
    """Return an import library with the names that this Python exports."""
    library_name = sysconfig.get_config_var("LDLIBRARY") or ""
    shared = Path(sysconfig.get_config_var("LIBDIR")) / library_name
    python = shared if library_name.endswith(".so") else Path(sys.executable).resolve()
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(python)]
    symbols = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in symbols.splitlines()]
    exports = [name for name in names if name.startswith(("Py", "_Py"))]
    exports += ONLY_WINDOWS
    definition = folder / "python.def"
    archive = folder / "libpython.a"
    definition.write_text("\n".join(["LIBRARY python.dll", "EXPORTS", *exports, ""]))
    machine = "arm64" if platform.level == "aarch64" else "i386:x86-64"
    options = ["-m", machine, "-d", str(definition), "-l", str(archive)]
    compile_kernels.zig("dlltool", *options)
    return archive


def build_module(platform: Platform, folder: Path, name: str) -> Path:
    """Compile and link one of the modules."""
    windows = platform.system.startswith("windows")
    headers = [numpy_headers(platform, folder), python_headers(platform, folder)]
    includes = [word for path in headers for word in ("-isystem", str(path))]
    includes += ["-iquote", str(compile_kernels.NATIVE)]
    module = folder / f"{name}{'.pyd' if windows else '.so'}"
    link = ["-shared", *map(str, sorted(MODULES[name].glob("*.c"))), "-o", str(module)]
    if windows:
        link.append(str(import_library(platform, folder)))
    else:
        link.append("-Wl,-undefined,dynamic_lookup")
    compile_kernels.zig("cc", *platform.target, *C_OPTIONS, *includes, *link)
    return module


def build(name: str) -> list[Path]:
    """Compile everything for a platform; return what was linked."""
    platform = PLATFORMS[name]
    folder = BUILD_FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    linked = [build_module(platform, folder, module) for module in MODULES]
    kernels = folder / f"{platform.level}{compile_kernels.suffix(platform.system)}"
    compile_kernels.build_library(kernels, platform.level, platform.system)
    return [*linked, kernels]


def main() -> int:
    """Compile for the named platforms, or for all, and report each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platforms", nargs="*", metavar="|".join(PLATFORMS))
    failures = 0
    for name in parser.parse_args().platforms or PLATFORMS:
        try:
            linked = [f"{path.name} ({path.stat().st_size})" for path in build(name)]
            print(f"{name}: linked {', '.join(linked)}", flush=True)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {error.stderr or error}", flush=True)
            failures += 1
    return failures


if __name__ == "__main__":
    sys.exit(main())
