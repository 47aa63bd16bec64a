"""Compile the C for macOS and Windows here: ``python -m tests.native.platforms``.

For each platform this links the library of kernels, and both extension modules: those
of the core and of plugrad-cpu. It runs nothing; ``replayed.py`` runs the kernels for
Windows under Wine. It needs ziglang, binutils' ``nm``, and a package index for pip:
NumPy's headers come from its wheel for the platform. Python's headers are those of this
machine, for Windows with ``PYCONFIG`` in the place of the real ``pyconfig.h``.

Modules are compiled as C11 without GNU's extensions, as MSVC compiles them for users.
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
import compile_kernels  # noqa: E402  # of plugrad-cpu

WORK = CPU / "build/platforms"
MODULES = {"_speedups": ROOT / "core/src_c", "_native": CPU / "src_c"}
ISO = ["-std=c11", "-Wgnu", "-Wvla", "-Wall", "-Werror", "-fno-sanitize=all", "-O2"]
ISO += ["-DNPY_NO_DEPRECATED_API=NPY_2_1_API_VERSION"]
# What Python exports on Windows alone, of what the modules call.
ONLY_WINDOWS = ["PyErr_SetExcFromWindowsErrWithFilenameObject"]
# What headers of Python ask for on 64-bit Windows; see PC/pyconfig.h of CPython.
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
    """What is compiled for.

    Attributes:
        level: Of the library, as in ``compile_kernels``.
        system: The end of zig's name of the target.
        wheel: How pip names the platform.

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
    """Return NumPy's headers for a platform, out of its wheel."""
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
    made = folder / "python"
    shutil.copytree(sysconfig.get_path("include"), made, dirs_exist_ok=True)
    if platform.system.startswith("windows"):
        (made / "pyconfig.h").write_text(PYCONFIG)
    return made


def import_library(platform: Platform, folder: Path) -> Path:
    """Return an import library of the names that this Python exports."""
    library = sysconfig.get_config_var("LDLIBRARY") or ""
    shared = Path(sysconfig.get_config_var("LIBDIR")) / library
    python = shared if library.endswith(".so") else Path(sys.executable).resolve()
    command = ["nm", "--dynamic", "--defined-only", "--format=posix", str(python)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = [line.split()[0] for line in said.splitlines()]
    exports = [name for name in names if name.startswith(("Py", "_Py"))]
    exports += ONLY_WINDOWS
    definition = folder / "python.def"
    made = folder / "libpython.a"
    definition.write_text("\n".join(["LIBRARY python.dll", "EXPORTS", *exports, ""]))
    machine = "arm64" if platform.level == "aarch64" else "i386:x86-64"
    options = ["-m", machine, "-d", str(definition), "-l", str(made)]
    compile_kernels.zig("dlltool", *options)
    return made


def build_module(platform: Platform, folder: Path, name: str) -> Path:
    """Compile and link one of the modules."""
    windows = platform.system.startswith("windows")
    headers = [numpy_headers(platform, folder), python_headers(platform, folder)]
    includes = [word for path in headers for word in ("-isystem", str(path))]
    includes += ["-iquote", str(compile_kernels.NATIVE)]
    made = folder / f"{name}{'.pyd' if windows else '.so'}"
    link = ["-shared", *map(str, sorted(MODULES[name].glob("*.c"))), "-o", str(made)]
    if windows:
        link.append(str(import_library(platform, folder)))
    else:
        link.append("-Wl,-undefined,dynamic_lookup")
    compile_kernels.zig("cc", *platform.target, *ISO, *includes, *link)
    return made


def build(name: str) -> list[Path]:
    """Compile everything for a platform; return what was linked."""
    platform = PLATFORMS[name]
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    made = [build_module(platform, folder, module) for module in MODULES]
    kernels = folder / f"{platform.level}{compile_kernels.suffix(platform.system)}"
    compile_kernels.build_library(kernels, platform.level, platform.system)
    return [*made, kernels]


def main() -> int:
    """Compile for the platforms that are named, or for all; report each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("platforms", nargs="*", metavar="|".join(PLATFORMS))
    failures = 0
    for name in parser.parse_args().platforms or PLATFORMS:
        try:
            made = [f"{path.name} ({path.stat().st_size})" for path in build(name)]
            print(f"{name}: linked {', '.join(made)}", flush=True)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {error.stderr or error}", flush=True)
            failures += 1
    return failures


if __name__ == "__main__":
    sys.exit(main())
