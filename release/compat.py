"""Tests plugins of one version of plugrad with the core of another.

For each release in `releases.toml`, its plugins run on the current core, and the
current plugins on its core: `doctor` loads and tests all of them, each backend runs the
conformance kit of the older version, and other plugins run a short program. A plugin
must work, or the core must refuse it with a message. Each pair also includes plugins
that no core can accept, so that a core that refuses nothing fails the check.

    .venv/bin/python -m release.compat
    .venv/bin/python -m release.compat --release 0.1.0 --backend cpu -- -k Conv2D
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from release import archives, host
from release.build import ROOT
from release.check import PROGRAMS

RELEASES = tomllib.loads((ROOT / "release" / "releases.toml").read_text())
BACKENDS = ("cpu", "wasm", "opencl")
WORK = ROOT / ".cache" / "compat"
KIT = [
    "-m",
    "pytest",
    "--pyargs",
    "plugrad_conformance",
    "-q",
    "-n",
    "auto",
    "-p",
    "no:cacheprovider",
]
KIT += ["-c", os.devnull]  # ignores the settings of this checkout

NO_PLUGINS = ("plugrad-conformance", "plugrad-gradient-packs")  # the kit, an example
PROGRAMS = {n: text for n, text in PROGRAMS.items() if n not in NO_PLUGINS} | {
    "plugrad-train": """
import plugrad as pg, plugrad_train as pt
params = {"w": pg.asarray([1.0, 2.0])}
optimizer = pt.adam(0.1)
state = optimizer.init(params)
loss = lambda params: pg.sum(params["w"] ** 2)
for _ in range(3):
    params, state = optimizer.update(pg.grad(loss)(params), state, params)
assert loss(params).item() < 4.0
""",
    "plugrad-attribution": """
import plugrad as pg, plugrad_attribution as attr
model = lambda x: pg.relu(x @ pg.asarray([[1.0], [2.0]]))
found = attr.attribute(model, [[3.0, 1.0]], attr.EpsilonPlus(), target=0)
assert abs(found.input.numpy() - [[3.0, 2.0]]).max() < 1e-5
""",
    "plugrad-onnx": """
import numpy as np, onnx, plugrad as pg, plugrad_onnx
from onnx import helper
x, y = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "xy"]
graph = helper.make_graph([helper.make_node("Tanh", ["x"], ["y"])], "g", [x], [y])
model = plugrad_onnx.load(helper.make_model(graph))
f = pg.jit(lambda x: model(x))
for _ in range(4):
    assert np.allclose(np.asarray(f(pg.asarray([0.0, 1.0]))), [0.0, np.tanh(1.0)])
""",
}


class Misfit(NamedTuple):
    """A plugin that no core with this plugin surface can accept.

    Attributes:
        entry_points: Its entry points.
        source: The code of its module.
        reason: A regular expression for the reason that doctor reports.
        requires: The requirements of its distribution.

    """

    entry_points: str
    source: str
    reason: str
    requires: tuple[str, ...] = ()


MISFITS = {
    "plugrad-of-tomorrow": Misfit(
        "[plugrad.v2]\ntomorrow = plugrad_of_tomorrow\n",
        "raise SystemExit",
        r"built for the plugin surface plugrad\.v2, and plugrad \S+ has plugrad\.v1",
    ),
    "plugrad-too-new": Misfit(
        "[plugrad.v1]\ntoo-new = plugrad_too_new\n",
        "raise SystemExit",
        r"needs plugrad>=99, and plugrad \S+ is installed; upgrade plugrad",
        ("plugrad>=99",),
    ),
    "plugrad-broken": Misfit(
        "[plugrad.v1]\nbroken = plugrad_broken\n",
        "from plugrad.plugin import a_name_that_no_surface_has",
        r"ImportError: cannot import name 'a_name_that_no_surface_has'",
    ),
}


class MatrixRow(NamedTuple):
    """One row of the matrix.

    Attributes:
        core: The version of the core.
        plugin: The plugin with its version.
        result: The result, in words.
        is_expected: Whether the plugin works or is correctly refused.

    """

    core: str
    plugin: str
    result: str
    is_expected: bool


# --- wheels and environments -----------------------------------------------------


def wheels_of(commit: str | None) -> dict[str, Path]:
    """Return the wheels of a commit or of the checkout, by package name."""
    root = ROOT
    if commit is not None:
        root = WORK / commit
        if not root.exists():
            partial = root.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            git("clone", "--quiet", "--shared", "--no-checkout", ROOT, partial)
            git("-C", partial, "checkout", "--quiet", commit)
            partial.rename(root)
    patterns = ("core", "plugins/*", "tests/conformance")
    packages = [p.parent for x in patterns for p in root.glob(f"{x}/pyproject.toml")]
    cache = host.cache_of(ROOT / ".cache" / "wheels")
    built = [host.build(package, cache) for package in sorted(packages)]
    return {name_of(wheel): wheel for wheel in built}


def name_of(wheel: Path) -> str:
    """Return the name of the distribution in a wheel."""
    return wheel.name.partition("-")[0].replace("_", "-")


def git(*arguments: str | Path) -> None:
    """Run git; exit if it fails."""
    if subprocess.run(["git", *map(str, arguments)]).returncode:
        sys.exit(f"release.compat: git {arguments[0]} has failed")


def environment(name: str, core: dict[str, Path], plugins: dict[str, Path]) -> Path:
    """Install the core of one version and the plugins of another; return the Python."""
    folder = WORK / "environments" / name
    venv.create(folder, clear=True, with_pip=False)
    python = folder / "bin" / "python"
    pip = ("--python", str(python), "install")
    host.pip(*pip, "pytest-xdist", *plugins.values(), plugins["plugrad"])
    misfits = [write_misfit(name, folder) for name in MISFITS]
    host.pip(*pip, "--no-deps", "--force-reinstall", core["plugrad"], *misfits)
    return python


def write_misfit(name: str, folder: Path) -> Path:
    """Write the wheel of a plugin that no core can accept."""
    misfit = MISFITS[name]
    return archives.write_module_wheel(
        folder, name, misfit.source, misfit.entry_points, misfit.requires
    )


# --- one pair --------------------------------------------------------------------


def run(
    python: Path, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in an empty folder, without this process's plugrad variables."""
    empty = python.parents[1] / "empty"
    empty.mkdir(exist_ok=True)
    prefixes = ("PLUGRAD_", "PYTHONPATH")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    command = [str(python), *arguments]
    return subprocess.run(
        command,
        cwd=empty,
        env=clean | {"OMP_NUM_THREADS": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_doctor(python: Path, core: str, version: str) -> list[MatrixRow]:
    """Return a row for each plugin that does not work according to ``doctor``."""
    answer = run(python, "-m", "plugrad", "doctor", "--json").stdout
    try:
        rows = json.loads(answer)["plugins"]
    except ValueError:
        return [
            MatrixRow(core, f"all {version}", f"doctor fails: {answer[-300:]}", False)
        ]
    found = []
    for row in rows:
        name = row["distribution"]
        reason = f"{row['phase']}: {row['reason']}"
        if misfit := MISFITS.get(name):
            is_expected = bool(re.search(misfit.reason, reason))
            found.append(MatrixRow(core, f"{name} 1.0", reason, is_expected))
        elif row["state"] != "works":
            is_refused = row["phase"] == "incompatible"
            found.append(MatrixRow(core, f"{name} {version}", reason, is_refused))
    for name in MISFITS.keys() - {row["distribution"] for row in rows}:
        found.append(MatrixRow(core, f"{name} 1.0", "not found by doctor", False))
    return found


def run_program(python: Path, core: str, plugin: str) -> MatrixRow:
    """Run the program of a plugin and return the result."""
    done = run(python, "-I", "-c", PROGRAMS[plugin.partition(" ")[0]])
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    is_expected = done.returncode == 0
    return MatrixRow(
        core, plugin, "its program runs" if is_expected else last, is_expected
    )


def run_kit(
    python: Path, core: str, plugin: str, backend: str, options: Sequence[str]
) -> MatrixRow:
    """Run the conformance kit on a backend; return the result, print failures."""
    blocked = ",".join(MISFITS)  # doctor has tested them
    chosen = f"--plugrad-backend={backend}"
    done = run(python, *KIT, chosen, *options, PLUGRAD_BLOCK=blocked)
    if done.returncode:
        failed = re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M)
        print("\n".join(failed[:20]), flush=True)
    last = done.stdout.strip().splitlines()[-1].strip("= ")
    return MatrixRow(core, plugin, f"kit: {last}", done.returncode == 0)


def check_pair(
    python: Path,
    core: str,
    version: str,
    backends: Sequence[str],
    options: Sequence[str],
) -> list[MatrixRow]:
    """Return the rows of a pair of versions."""
    found = run_doctor(python, core, version)
    faulty = {line.plugin.partition(" ")[0] for line in found}
    names = [name for name in PROGRAMS if name not in faulty]
    found += [run_program(python, core, f"{name} {version}") for name in names]
    for backend in backends:
        if (name := f"plugrad-{backend}") not in faulty:
            plugin = f"{name} {version}"
            found.append(run_kit(python, core, plugin, backend, options))
    return found


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--release", action="append", default=[])
    parser.add_argument("--commit", help="compare with any commit instead")
    parser.add_argument("--backend", action="append", default=[])
    parser.add_argument("options", nargs="*", help="further arguments of pytest")
    given = parser.parse_args()
    chosen = {name: RELEASES[name] for name in given.release or RELEASES}
    if given.commit:
        chosen = {given.commit: given.commit}
    if not chosen:
        sys.exit("release.compat: release/releases.toml has no release yet")
    backends = given.backend or BACKENDS
    current = wheels_of(None)
    lines = []
    for version, commit in chosen.items():
        released = wheels_of(commit)
        kit = {"plugrad-conformance": released["plugrad-conformance"]}
        pairs = (
            ("current", current, version, released),
            (version, released, "current", current),
        )
        for core, core_wheels, plugin, plugin_wheels in pairs:
            python = environment(
                f"{plugin}-on-{core}", core_wheels, plugin_wheels | kit
            )
            lines += check_pair(python, core, plugin, backends, given.options)
    width = max(len(line.plugin) for line in lines)
    print(f"{'core':10}{'plugin':{width + 2}}result")
    for line in lines:
        mark = "" if line.is_expected else "BROKEN: "
        print(f"{line.core:10}{line.plugin:{width + 2}}{mark}{line.result}")
    sys.exit(not all(line.is_expected for line in lines))


if __name__ == "__main__":
    main()
