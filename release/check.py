"""Checks the results of `release.build`: SBOMs, installations and reproducibility.

Validates the SBOM of each wheel against the CycloneDX schema. Installs each wheel
alone, and all together, in fresh environments without a compiler: dependencies come
from the package index, our own packages from the folder. Then builds everything again
in another folder and compares hashes.

    python -m release.check --dist dist --python python3.12
"""

import argparse
import hashlib
import os
import subprocess
import sys
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from release import build, sbom

# The test program of each distribution; it runs where only that distribution and its
# dependencies are installed.
GRADIENT = """
import plugrad as pg
{choose}
x = pg.asarray([1.0, 1.0])
assert pg.grad(lambda x: pg.sum(pg.softmax(x) * x))(x).tolist() == [0.5, 0.5]
assert pg.get_backend() == {name!r}
"""
BACKENDS = ("cpu", "wasm", "opencl")
PROGRAMS = {
    f"plugrad-{name}": GRADIENT.format(choose=f"pg.set_backend({name!r})", name=name)
    for name in BACKENDS
}
PROGRAMS["plugrad-cpu"] += "import plugrad._speedups, plugrad_cpu._native\n"
PROGRAMS["plugrad-llvm"] = """
import plugrad as pg
f = pg.jit(lambda x: pg.tanh(x * x) + 1.0)
assert [f(pg.asarray([0.0])).tolist() for _ in range(3)] == [[1.0]] * 3
import plugrad_llvm
"""
MODULES = (
    *("webgpu", "mpi", "onnx", "train", "tfjs", "gguf"),
    *("conformance", "gradient_packs"),
)
PROGRAMS |= {
    f"plugrad-{name.replace('_', '-')}": f"import plugrad_{name}" for name in MODULES
}
EXTRAS = ("cpu", "wasm", "opencl", "llvm", "onnx", "train", "mpi", "tfjs", "gguf")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=Path("dist"))
    parser.add_argument("--work", type=Path, default=Path("build/dist-check"))
    parser.add_argument("--python", action="append", default=[])
    given = parser.parse_args()
    dist = given.dist.absolute()
    work = given.work.absolute()
    check_sboms(dist)
    check_installations(dist, work)
    check_bytes(dist, work, given.python or [sys.executable])


def check_sboms(dist: Path) -> None:
    """Validate the SBOM of each wheel; exit with the faults."""
    wheels = sorted(dist.glob("*.whl"))
    faults = [fault for wheel in wheels for fault in sbom.faults(wheel)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"{len(wheels)} wheels have a valid SBOM")


def check_bytes(dist: Path, work: Path, pythons: Sequence[str]) -> None:
    """Build again in another folder; exit with a message if files differ."""
    again = work / "again"
    build.build(again, work / "build", pythons)
    first = hashes(dist)
    second = hashes(again)
    if alone := sorted(first.keys() ^ second.keys()):
        sys.exit(
            f"only one of two builds has {', '.join(alone)}; give dist-check the "
            "PYTHONS that dist was given"
        )
    if different := [name for name in first if first[name] != second[name]]:
        sys.exit(f"two builds differ: {', '.join(different)}")
    print(f"{len(first)} files are the same in two builds")


def hashes(folder: Path) -> dict[str, str]:
    """Return the hash of each file."""
    files = sorted(folder.iterdir())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def check_installations(dist: Path, work: Path) -> None:
    """Install and test each distribution alone, and each extra of the core."""
    for name, program in PROGRAMS.items():
        install(name, [program], dist, work / name)
    for extra in EXTRAS:
        install(f"plugrad[{extra}]", [PROGRAMS[f"plugrad-{extra}"]], dist, work / extra)
    everything = [PROGRAMS[f"plugrad-{extra}"] for extra in EXTRAS]
    install("plugrad[all]", everything, dist, work / "all")


def install(name: str, programs: Sequence[str], dist: Path, folder: Path) -> None:
    """Install in a fresh environment, run programs, print time and size."""
    venv.create(folder, with_pip=False, clear=True)
    python = folder / "bin" / "python"
    begin = time.perf_counter()
    pip = (sys.executable, "-m", "pip", "--quiet", "--python", python, "install")
    # Only wheels: the environment has no compiler for sdists.
    build.run(*pip, "--only-binary", ":all:", "--find-links", dist, name)
    seconds = time.perf_counter() - begin
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{name}: {size / 1e6:.0f} MB in {seconds:.0f} s", flush=True)
    bare = {"PATH": "/nonexistent", "HOME": str(folder / "home")}
    for program in programs:
        done = subprocess.run(
            [python, "-W", "error", "-c", program],
            env={k: v for k, v in os.environ.items() if k == "TMPDIR"} | bare,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            sys.exit(f"{name} does not work:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    main()
