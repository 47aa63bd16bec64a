"""Wheels written by hand, and environments of their own to install them in.

An environment holds the core alone; a test installs wheels and removes them again.
What numpy and the core's other needs come from is downloaded once, into .cache/.
"""

import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from release.build import SHARES_NATIVE
from tests.docs.blocks import published_backend

ROOT = Path(__file__).parents[2]
NEEDS = [
    f"{name}=={importlib.metadata.version(name)}"
    for name in ("numpy", "pluggy", "importlib-metadata", "packaging")
]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

PROGRAM = """
import plugrad as pg
x = pg.asarray([1.0, 1.0])
print(pg.grad(lambda x: pg.sum(pg.softmax(x) * x))(x).tolist(), x.backend)
"""


def clean():
    """Return the environment without what would lead to other installations."""
    ours = ("PLUGRAD_", "PYTHONPATH")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def run(*command, **environment):
    """Run a command that must succeed; its errors are shown."""
    env = clean() | environment
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def install(folder, target):
    """Install the distribution in a folder, with what is here alone."""
    alone = ("--no-index", "--no-deps", "--no-build-isolation", "--target", str(target))
    run(*PIP, "install", *alone, str(folder))


def copied(name, folder):
    """Copy the sources of a distribution, without what builds have left there.

    As in an sdist, the copy has the sources that distributions share.
    """
    litter = shutil.ignore_patterns(
        "build", "dist", "*.egg-info", "__pycache__", "*.so"
    )
    made = Path(shutil.copytree(ROOT / name, folder, ignore=litter))
    if name in SHARES_NATIVE:
        shutil.copytree(ROOT / "native", made / "native")
    return made


def package(source, folder, *, kind="wheel", **environment):
    """Build a wheel or an sdist with what is installed here; return its path."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation"]
    command += ["--outdir", str(folder), str(source)]
    before = {*folder.glob("*")}
    run(*command, **environment)
    (made,) = {*folder.glob("*")} - before
    return made


def downloaded(needs=NEEDS):
    """Return a folder with the wheels of ``needs`` and of what these need."""
    kept = ROOT / ".cache" / "wheels" / "-".join([sys.implementation.cache_tag, *needs])
    if not kept.exists():
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        run(*PIP, "download", "--only-binary", ":all:", "--dest", str(partial), *needs)
        with contextlib.suppress(OSError):  # another process was first
            partial.rename(kept)
        shutil.rmtree(partial, ignore_errors=True)
    return kept


def build(house, sources):
    """Put the wheels of the core, of cpu and of the smallest backend into a folder."""
    for wheel in downloaded().iterdir():
        (house / wheel.name).symlink_to(wheel)
    copied("core", sources / "core")
    copied("plugins/cpu", sources / "cpu")
    (sources / "mine").mkdir()
    published_backend(sources / "mine")
    for name in ("core", "cpu", "mine"):
        package(sources / name, house)


class Environment:
    """A virtual environment without pip, into which the outer pip installs."""

    def __init__(self, folder, wheelhouse):
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / "bin" / "python")
        self.wheelhouse = wheelhouse
        self.site = next(folder.glob("lib/python*/site-packages"))

    def pip(self, *arguments):
        run(*PIP, "--python", self.python, *arguments)

    def install(self, *names):
        found = ("--no-index", "--find-links", str(self.wheelhouse))
        self.pip("install", "--no-compile", *found, *names)

    def force(self, name):
        """Install a distribution whatever it requires."""
        self.pip("install", "--no-deps", "--no-index", *self._wheels(name))

    def _wheels(self, name):
        return [str(w) for w in self.wheelhouse.glob(f"{name.replace('-', '_')}-*.whl")]

    @contextlib.contextmanager
    def having(self, *names):
        """Install distributions for the block."""
        self.install(*names)
        try:
            yield
        finally:
            self.pip("uninstall", "--yes", *names)

    def run(self, *arguments, **environment):
        """Run Python here, with warnings as errors."""
        command = [self.python, "-I", "-W", "error", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=clean() | environment
        )

    def prints(self, code, **environment):
        """Return what a program prints that must succeed."""
        done = self.run("-c", code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def told(self, *command):
        """Return what ``python -m plugrad ... --json`` says, and its status."""
        done = self.run("-m", "plugrad", *command, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.returncode
