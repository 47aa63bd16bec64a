"""Builds the wheels of all distributions for this machine and installs them.

`make test` runs the suite on these wheels, installed as users would install them.
Wheels are cached in `.cache/wheels` under a digest of their folder, so an unchanged
folder is not built again. Only changed wheels are installed again. `make demo` names
the distributions that it needs; by default all are built.

    build/installed/bin/python -m release.host --into .cache/wheels --install
    build/installed/bin/python -m release.host --install core plugins/cpu
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from release.build import ROOT, files_of, packages

MAX_CACHED_WHEELS = 4  # per distribution
# Inputs of a wheel other than the files of its folder.
PLATFORM = f"{sys.implementation.cache_tag} {sysconfig.get_platform()}"
VARIABLES = ("CC", "CFLAGS", "PLUGRAD_CPU_LEVELS", "PLUGRAD_CPU_LIBC")
# Build outputs that speed up the next build.
KEPT_OBJECTS = ("build/kernels", "build/zig", "build/temp")


def files(package: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files of a distribution that git does not ignore, like ``files_of``."""
    return files_of(package, "--cached", "--others", "--exclude-standard")


def digest(package: Path) -> str:
    """Return a digest of everything from which the wheel of a distribution is built.

    The inputs include sources that the distribution shares with others.
    """
    found = hashlib.sha256(PLATFORM.encode())
    for variable in VARIABLES:
        found.update(f"\0{variable}={os.environ.get(variable, '')}".encode())
    for name, path in files(package):
        found.update(f"\0{name}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]


def copy(package: Path, to: Path) -> None:
    """Copy a distribution to a folder, but keep the object files of the last build.

    Unchanged files keep their modification time, so they are not compiled again.
    """
    wanted = dict(files(package))
    for path in [path for path in to.rglob("*") if path.is_file()]:
        name = path.relative_to(to)
        if name not in wanted and not name.as_posix().startswith(KEPT_OBJECTS):
            path.unlink()
    for name, path in wanted.items():
        target = to / name
        if target.exists() and target.read_bytes() == path.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def build(package: Path, cache: Path) -> Path:
    """Return the wheel of a distribution; build it unless it is cached."""
    key = digest(package)
    made = cache / package.name / key
    if not (found := [*made.glob("*.whl")]):
        print(f"building {package.name}", flush=True)
        source = cache / package.name / "source"
        copy(package, source)
        partial = made.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        pip("wheel", "--no-deps", "--no-build-isolation", "-w", partial, source)
        partial.rename(made)
        found = [*made.glob("*.whl")]
        kept = sorted(
            [path for path in made.parent.iterdir() if path != source],
            key=lambda path: path.stat().st_mtime,
        )
        for path in kept[:-MAX_CACHED_WHEELS]:
            shutil.rmtree(path)
    return found[0]


def build_all(folders: Sequence[Path], cache: Path) -> list[Path]:
    """Return the wheels of distributions, built in parallel on all CPUs.

    Distributions with the most C code come first.
    """
    longest_first = sorted(folders, key=compiled_bytes, reverse=True)
    with ThreadPoolExecutor(os.cpu_count()) as executor:
        return [*executor.map(partial(build, cache=cache), longest_first)]


def compiled_bytes(package: Path) -> int:
    """Return the size of the C sources of a distribution."""
    return sum(path.stat().st_size for _, path in files(package) if path.suffix == ".c")


def install(wheels: Sequence[Path]) -> None:
    """Install the wheels that differ from those installed in this environment."""
    stamp = Path(sys.prefix) / ".wheels.json"
    before = json.loads(stamp.read_text()) if stamp.exists() else {}
    now = {distribution_of(wheel): wheel.parent.name for wheel in wheels}
    added = [w for w in wheels if distribution_of(w) not in before]
    new = [w for w in wheels if before.get(distribution_of(w)) != w.parent.name]
    if not new:
        return
    stamp.unlink(missing_ok=True)  # after an interruption, all are installed again
    # New distributions are installed with their dependencies. Those that are present
    # are reinstalled by force, because pip keeps a distribution of the same version.
    present = installed_distributions()
    old = [wheel for wheel in new if distribution_of(wheel) in present]
    if added:
        pip("install", *added)
    if old:
        pip("install", "--no-deps", "--force-reinstall", *old)
    stamp.write_text(json.dumps(before | now))


def installed_distributions() -> set[str]:
    """Return the names of installed distributions, spelled as in wheel names."""
    return {d.name.replace("-", "_") for d in importlib.metadata.distributions()}


def distribution_of(wheel: Path) -> str:
    """Return the name of a distribution, as spelled in the name of its wheel."""
    return wheel.name.partition("-")[0]


def cache_of(folder: Path) -> Path:
    """Return the cache folder of this Python."""
    return folder.absolute() / (sys.implementation.cache_tag or "python")


def pip(*arguments: str | Path) -> None:
    """Run pip; exit if it fails."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*command, *map(str, arguments)], cwd=ROOT).returncode:
        sys.exit(f"release.host: pip {arguments[0]} has failed")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=Path(".cache/wheels"))
    parser.add_argument("--install", action="store_true")
    parser.add_argument("folders", nargs="*", type=Path, help="all by default")
    given = parser.parse_args()
    folders = [ROOT / folder for folder in given.folders] or packages()
    if unknown := [*map(str, {*folders} - {*packages()})]:
        parser.error(f"no distribution is in {', '.join(unknown)}")
    wheels = build_all(folders, cache_of(given.into))
    if given.install:
        install(wheels)
    else:
        print("\n".join(map(str, wheels)))


if __name__ == "__main__":
    main()
