"""Functions that build wheels, and virtual environments to install them in.

An environment contains only the core; a test installs wheels and removes them again.
The wheels of numpy and the core's other dependencies are downloaded once, to .cache/.
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
    for name in ("numpy", "ml_dtypes", "pluggy", "importlib-metadata", "packaging")
]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

PROGRAM = """
import plugrad as pg
x = pg.asarray([1.0, 1.0])
print(pg.grad(lambda x: pg.sum(pg.softmax(x) * x))(x).tolist(), x.backend)
"""


def clean_variables():
    """Return the environment variables, except those for other installations."""
    ours = ("PLUGRAD_", "PYTHONPATH")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)}


def run(*command, **environment):
    """Run a command that must succeed; its errors are shown."""
    env = clean_variables() | environment
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def install(folder, target):
    """Install the distribution in a folder without a package index."""
    options = (
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(target),
    )
    run(*PIP, "install", *options, str(folder))


def copied(name, folder):
    """Copy the sources of a distribution, without the outputs of builds.

    As in an sdist, the copy includes the sources that distributions share.
    """
    build_outputs = shutil.ignore_patterns(
        "build", "dist", "*.egg-info", "__pycache__", "*.so"
    )
    copy = Path(shutil.copytree(ROOT / name, folder, ignore=build_outputs))
    if name in SHARES_NATIVE:
        shutil.copytree(ROOT / "native", copy / "native")
    return copy


def package(source, folder, *, kind="wheel", **environment):
    """Build a wheel or an sdist with the installed build tools; return its path."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation"]
    command += ["--outdir", str(folder), str(source)]
    before = {*folder.glob("*")}
    run(*command, **environment)
    (archive,) = {*folder.glob("*")} - before
    return archive


def downloaded(needs=NEEDS):
    """Return a folder with the wheels of ``needs`` and of their dependencies."""
    folder = (
        ROOT / ".cache" / "wheels" / "-".join([sys.implementation.cache_tag, *needs])
    )
    if not folder.exists():
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        run(*PIP, "download", "--only-binary", ":all:", "--dest", str(partial), *needs)
        with contextlib.suppress(OSError):  # another process was first
            partial.rename(folder)
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def build(wheelhouse, sources):
    """Put wheels of the core, plugrad-cpu and the smallest backend into a folder."""
    for wheel in downloaded().iterdir():
        (wheelhouse / wheel.name).symlink_to(wheel)
    copied("core", sources / "core")
    copied("plugins/cpu", sources / "cpu")
    (sources / "mine").mkdir()
    published_backend(sources / "mine")
    for name in ("core", "cpu", "mine"):
        package(sources / name, wheelhouse)


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
        """Install a distribution without its dependencies."""
        self.pip("install", "--no-deps", "--no-index", *self._wheels(name))

    def _wheels(self, name):
        return [str(w) for w in self.wheelhouse.glob(f"{name.replace('-', '_')}-*.whl")]

    @contextlib.contextmanager
    def installed(self, *names):
        """Install distributions during a ``with`` block."""
        self.install(*names)
        try:
            yield
        finally:
            self.pip("uninstall", "--yes", *names)

    def run(self, *arguments, **environment):
        """Run Python here, with warnings as errors."""
        command = [self.python, "-I", "-W", "error", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=clean_variables() | environment
        )

    def prints(self, code, **environment):
        """Run a program that must succeed, and return what it prints."""
        done = self.run("-c", code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def report(self, *command):
        """Return the output of ``python -m plugrad ... --json``, and its status."""
        done = self.run("-m", "plugrad", *command, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.returncode
