"""What plugrad-cpu has in C; without compilers it is left out, and all runs on NumPy.

The module ``_native`` is compiled by the system's C compiler, and the kernels by clang
out of ziglang, into ``src/plugrad_cpu/lib``: see ``compile_kernels.py``. Their sources
are in ``native``, at the top of a checkout; an sdist has a copy of that folder.
PLUGRAD_CPU_LEVELS names the levels of processors; wheels have ``x86_64_v2``, too.
PLUGRAD_CPU_LIBC names the C library of Linux as zig does. With PLUGRAD_CPU_SANITIZE=1
both are compiled for AddressSanitizer and UBSan: see ``tests/native/sanitized.py``.
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
sys.path.insert(0, str(ROOT))  # which pip and build leave out
import compile_kernels  # noqa: E402  # of this folder

MODULE_FLAGS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MODULE_FLAGS = MODULE_FLAGS if compile_kernels.SANITIZE else []
MUSL = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
LIBC = os.environ.get("PLUGRAD_CPU_LIBC", "musl" if MUSL else "gnu.2.17")
# zig's name of each system, by the first word of Python's.
MACOS = os.environ.get("MACOSX_DEPLOYMENT_TARGET", "11.0")
SYSTEMS = {"linux": f"linux-{LIBC}", "macosx": f"macos.{MACOS}", "win": "windows-gnu"}


class Build(build_ext):
    """Build the module, and the library of kernels where its toolchain is there."""

    def run(self):
        """Build both; what fails is reported and left out."""
        super().run()
        target = ROOT / "src" if self.inplace else Path(self.build_lib)
        try:
            build_kernels(target / "plugrad_cpu" / "lib")
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            print(
                f"plugrad-cpu: its kernels in C are left out: {said}", file=sys.stderr
            )

    def build_extensions(self):
        """Have MSVC compile C11, which it does not by default."""
        if self.compiler.compiler_type == "msvc":
            for extension in self.extensions:
                extension.extra_compile_args.append("/std:c11")
        super().build_extensions()

    def get_outputs(self):
        """Return the files that this command makes, for the wheel."""
        made = Path(self.build_lib) / "plugrad_cpu" / "lib"
        libraries = [*made.glob("*.so"), *made.glob("*.dll")]
        return [*super().get_outputs(), *map(str, libraries)]


class SourceDistribution(sdist):
    """Copy the sources that other distributions have, too."""

    def make_release_tree(self, base_dir, files):
        """Put a copy of ``native`` beside the files of this distribution."""
        super().make_release_tree(base_dir, files)
        to = Path(base_dir) / "native"
        shutil.copytree(compile_kernels.NATIVE, to, dirs_exist_ok=True)


def build_kernels(to: Path) -> None:
    """Write a library for each level of processors.

    Raises:
        OSError: There are no kernels for this platform.
        ValueError: A kernel has no prototype that Python can call.
        subprocess.CalledProcessError: ziglang is missing, or fails.

    """
    system, *_, machine = sysconfig.get_platform().split("-")  # linux-x86_64, win-amd64
    machine = platform.machine() if machine == "universal2" else machine
    levels = compile_kernels.default_levels(machine)
    if system not in SYSTEMS or levels is None:
        raise OSError(f"there are none for {sysconfig.get_platform()}")
    to.mkdir(parents=True, exist_ok=True)
    chosen = os.environ.get("PLUGRAD_CPU_LEVELS", levels).split()
    suffix = compile_kernels.suffix(SYSTEMS[system])
    for old in to.glob(f"*{suffix}"):
        if old.stem not in chosen:  # an older build has left it
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
            optional=True,  # without a compiler or Python's headers all runs on NumPy
        )
    ],
)
