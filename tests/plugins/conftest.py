"""Fixtures for plugin tests: fake distributions, and real ones in wheels."""

import fcntl
import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points

import pytest

from tests.plugins.wheels import Environment, build

# Other plugins of this checkout, which tests with fake distributions block.
OTHER_PLUGINS = sorted(
    {point.name for point in entry_points(group="plugrad.v1")}
    & {"attribution", "gradient-packs", "llvm", "opencl", "wasm", "webgpu"}
)


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory):
    """Return a folder with the wheels of this repository; tests add their own.

    They are built once, even if pytest-xdist runs several workers.
    """
    house = tmp_path_factory.mktemp("wheelhouse")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    with (shared / "wheels.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "wheels").exists():
            folder = tmp_path_factory.mktemp("made")
            build(folder, tmp_path_factory.mktemp("sources"))
            folder.rename(shared / "wheels")
    for wheel in (shared / "wheels").iterdir():
        (house / wheel.name).symlink_to(wheel.resolve())
    return house


@pytest.fixture(scope="session")
def environment(tmp_path_factory, wheelhouse):
    """Return an environment with the core; each test must restore it."""
    created = Environment(tmp_path_factory.mktemp("environment"), wheelhouse)
    created.install("plugrad")
    return created


@pytest.fixture
def site(tmp_path):
    """Install fake distributions: ``site(name, module source, entry points)``."""

    def install(name, source="", entry_points=None, group="plugrad.v1"):
        module = name.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        default = f"[{group}]\n{name.removeprefix('plugrad-')} = {module}\n"
        (info / "entry_points.txt").write_text(entry_points or default)

    return install


@pytest.fixture
def python(tmp_path):
    """Run code with cpu and the fake distributions; warnings are errors."""

    def run(code, **environment):
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        blocked = [
            *OTHER_PLUGINS,
            *filter(None, [environment.pop("PLUGRAD_BLOCK", "")]),
        ]
        environment |= {"PYTHONPATH": path, "PLUGRAD_BLOCK": ",".join(blocked)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run
