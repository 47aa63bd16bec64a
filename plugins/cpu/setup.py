"""Build the C parts of plugrad-cpu; without compilers, everything runs on NumPy.

The system's C compiler compiles the module ``_native``. The clang in ziglang compiles
the kernels into ``src/plugrad_cpu/lib``: see ``compile_kernels.py``. The sources of the
kernels are in ``native`` at the top of a checkout; an sdist contains a copy of it.

Environment variables:

- PLUGRAD_CPU_LEVELS: the processor levels to compile for. For wheels, it also contains
  ``x86_64_v2``.
- PLUGRAD_CPU_LIBC: the C library on Linux, by zig's name for it.
- PLUGRAD_CPU_SANITIZE=1: compile the module and the kernels for AddressSanitizer and
  UBSan: see ``tests/native/sanitized.py``.
"""

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from glob import glob
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT))  # pip and build do not add this folder
import compile_kernels  # noqa: E402  # in this folder

MODULE_FLAGS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MODULE_FLAGS = MODULE_FLAGS if compile_kernels.SANITIZE else []
MUSL = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
LIBC = os.environ.get("PLUGRAD_CPU_LIBC", "musl" if MUSL else "gnu.2.17")
# zig's name for each system, by the first word of Python's platform name.
MACOS = os.environ.get("MACOSX_DEPLOYMENT_TARGET", "11.0")
SYSTEMS = {"linux": f"linux-{LIBC}", "macosx": f"macos.{MACOS}", "win": "windows-gnu"}


class Build(build_ext):
    """Build the module, and the kernel libraries if their toolchain is installed."""

    def run(self):
        """Build both; report a failure and continue without that part."""
        super().run()
        target = ROOT / "src" if self.inplace else Path(self.build_lib)
        try:
            build_kernels(target / "plugrad_cpu" / "lib")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or error
            print(
                f"plugrad-cpu: the C kernels were not built: {reason}", file=sys.stderr
            )

    def build_extensions(self):
        """Make MSVC compile C11, which is not its default."""
        if self.compiler.compiler_type == "msvc":
            for extension in self.extensions:
                extension.extra_compile_args.append("/std:c11")
        super().build_extensions()

    def get_outputs(self):
        """Return the files that this command builds, for the wheel."""
        made = Path(self.build_lib) / "plugrad_cpu" / "lib"
        libraries = [*made.glob("*.so"), *made.glob("*.dll")]
        return [*super().get_outputs(), *map(str, libraries)]


class SourceDistribution(sdist):
    """Add the sources that are shared with plugrad-wasm."""

    def make_release_tree(self, base_dir, files):
        """Copy ``native`` into the source distribution."""
        super().make_release_tree(base_dir, files)
        to = Path(base_dir) / "native"
        shutil.copytree(compile_kernels.NATIVE, to, dirs_exist_ok=True)


def build_kernels(to: Path) -> None:
    """Build a library for each processor level.

    Raises:
        OSError: There are no kernels for this platform.
        ValueError: A kernel has a prototype that Python cannot call.
        subprocess.CalledProcessError: ziglang is missing, or fails.

    """
    system, *_, machine = sysconfig.get_platform().split("-")  # linux-x86_64, win-amd64
    machine = platform.machine() if machine == "universal2" else machine
    levels = compile_kernels.default_levels(machine)
    if system not in SYSTEMS or levels is None:
        raise OSError(f"they do not support {sysconfig.get_platform()}")
    to.mkdir(parents=True, exist_ok=True)
    chosen = os.environ.get("PLUGRAD_CPU_LEVELS", levels).split()
    suffix = compile_kernels.suffix(SYSTEMS[system])
    for old in to.glob(f"*{suffix}"):
        if old.stem not in chosen:  # left by an older build
            old.unlink()
    for level in chosen:
        library = to / f"{level}{suffix}"
        compile_kernels.build_library(library, level, SYSTEMS[system])


setup(
    cmdclass={"build_ext": Build, "sdist": SourceDistribution},
    ext_modules=[
        Extension(
            "plugrad_cpu._native",
            sorted(glob("src_c/*.c")),
            depends=[
                "src_c/native.h",
                *sorted(glob("src_c/library/*.h")),
                str(compile_kernels.NATIVE / "kernels/region.h"),
            ],
            include_dirs=[numpy.get_include(), str(compile_kernels.NATIVE)],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_1_API_VERSION")],
            extra_compile_args=[*MODULE_FLAGS],
            extra_link_args=[*MODULE_FLAGS],
            optional=True,  # without a compiler or Python's headers, use NumPy
        )
    ],
)
