"""What plugrad-cpu has in C; without compilers it is left out, and all runs on NumPy.

The module ``_native`` is compiled by the system's C compiler. The kernels are sources
of plugrad-wasm, compiled for processors by clang out of ziglang, into
``src/plugrad_cpu/lib``. PLUGRAD_CPU_LEVELS names the levels of processors; wheels have
``x86_64_v2``, too. PLUGRAD_CPU_LIBC names the C library as zig does. With
PLUGRAD_CPU_SANITIZE=1 both are compiled for AddressSanitizer and UBSan: see
``tests/native/sanitized.py``.
"""

import os
import platform
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from pathlib import Path

import numpy
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
SOURCES = ["activation", "binary", "cast", "compare", "conv", "cumulative", "depthwise"]
SOURCES += ["elementwise", "gather", "gemm", "integer", "integer_depthwise", "matmul"]
SOURCES += ["norm", "pool", "recurrent", "reduce", "region", "resize", "unary"]
SOURCES += ["winograd"]
TARGET = ["blocks", "copy", "threads", "together"]
# Loops that wait for memory. On Zen 4, whose caches move 256 bits at once, vectors of
# 512 take up to a third longer. Not measured on processors of Intel.
NARROW = {"binary", "cast", "compare"}
FLAGS = ["-std=gnu17", "-O3", "-fPIC", "-ffp-contract=off", "-fno-math-errno"]
FLAGS += ["-fno-trapping-math", "-Isrc_c/target", "-Isrc_c/kernels"]
FLAGS += ["-Wall", "-Wno-unknown-attributes", "-Wno-unknown-pragmas"]
SANITIZE = os.environ.get("PLUGRAD_CPU_SANITIZE", "0") != "0"
# zig has the runtime of UBSan. It drops -fsanitize=address, for which it has none: the
# compiler behind it takes the option, and the runtime of gcc fits.
FLAGS += (
    ["-g", "-fsanitize=undefined", "-Xclang", "-fsanitize=address"]
    if SANITIZE
    else ["-fno-sanitize=all"]
)
MODULE_FLAGS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
MUSL = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "")
LIBC = os.environ.get("PLUGRAD_CPU_LIBC", "musl" if MUSL else "gnu.2.17")


class Build(build_ext):
    """Build the module, and the library of kernels where its toolchain is there."""

    def run(self):
        """Build both; what fails is reported and left out."""
        super().run()
        target = ROOT / "src" if self.inplace else Path(self.build_lib)
        try:
            build_kernels(target / "plugrad_cpu" / "lib")
        except (OSError, subprocess.CalledProcessError) as error:
            said = getattr(error, "stderr", "") or error
            print(
                f"plugrad-cpu: its kernels in C are left out: {said}", file=sys.stderr
            )

    def get_outputs(self):
        """Return the files that this command makes, for the wheel."""
        made = Path(self.build_lib) / "plugrad_cpu" / "lib"
        return [*super().get_outputs(), *map(str, made.glob("*.so"))]


def build_kernels(to: Path) -> None:
    """Write a library for each level of processors.

    Raises:
        OSError: This system is not Linux on x86-64 or arm64.
        subprocess.CalledProcessError: ziglang is missing, or fails.

    """
    defaults = {"x86_64": "x86_64_v3 x86_64_v4", "aarch64": "aarch64"}
    default = defaults.get(platform.machine())
    if sys.platform != "linux" or default is None:
        raise OSError(f"there is none for {sys.platform} on {platform.machine()}")
    to.mkdir(parents=True, exist_ok=True)
    for level in os.environ.get("PLUGRAD_CPU_LEVELS", default).split():
        build_library(to / f"{level}.so", level)


def build_library(to: Path, level: str) -> None:
    """Compile the sources for one level, side by side, and link them."""
    folder = ROOT / "build" / ("sanitized" if SANITIZE else "kernels") / level
    folder.mkdir(parents=True, exist_ok=True)
    machine = "aarch64" if level == "aarch64" else "x86_64"
    target = ["-target", f"{machine}-linux-{LIBC}"]
    target += [f"-mcpu={level}"] if machine == "x86_64" else []
    files = {name: f"src_c/kernels/{name}.c" for name in SOURCES}
    files |= {name: f"src_c/target/{name}.c" for name in TARGET}
    objects = {name: str(folder / f"{name}.o") for name in files}

    def compiled(name: str) -> None:
        wide = [f"-mprefer-vector-width={256 if name in NARROW else 512}"]
        of_target = [*target, *(wide if level == "x86_64_v4" else [])]
        zig("cc", *of_target, *FLAGS, "-c", files[name], "-o", objects[name])

    with ThreadPoolExecutor(os.cpu_count()) as executor:
        list(executor.map(compiled, files))
    new = to.with_suffix(".new")  # programs may be using the old one
    options = ["-fsanitize=undefined"] if SANITIZE else ["-s"]
    zig("cc", *target, "-shared", *options, *objects.values(), "-lm", "-o", str(new))
    new.replace(to)


def zig(*arguments: str) -> None:
    """Run a tool of ziglang."""
    cache = str(ROOT / "build" / "zig")
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), cache)
    subprocess.run(
        [sys.executable, "-m", "ziglang", *arguments],
        check=True,
        cwd=ROOT,
        env=caches | os.environ,
        stderr=subprocess.PIPE,
        text=True,
    )


setup(
    cmdclass={"build_ext": Build},
    ext_modules=[
        Extension(
            "plugrad_cpu._native",
            sorted(glob("src_c/*.c")),
            depends=[
                "src_c/native.h",
                "src_c/kernels/region.h",
                "src_c/target/blocks.h",
            ],
            include_dirs=[numpy.get_include()],
            define_macros=[("NPY_NO_DEPRECATED_API", "NPY_2_1_API_VERSION")],
            extra_compile_args=MODULE_FLAGS if SANITIZE else [],
            extra_link_args=MODULE_FLAGS if SANITIZE else [],
            optional=True,  # without a compiler or Python's headers all runs on NumPy
        )
    ],
)
