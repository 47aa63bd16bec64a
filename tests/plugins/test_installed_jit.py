"""`jit` replays code of installed packages: imported models, and user packages.

They are installed from wheels in a fresh environment; programs run in an empty folder.
"""

import subprocess

import pytest

from release.archives import write_module_wheel
from tests.onnx.networks import image
from tests.plugins.wheels import (
    NEEDS,
    Environment,
    clean_variables,
    copied,
    downloaded,
    package,
)
from tests.tfjs.files import layers_model

USER_PACKAGE = """
import plugrad as pg

RATE = 2.0
OPTIONS = {"shift": 1.0}


def helper(x):
    return x * RATE


class Dense:
    def __init__(self, w):
        self.w, self.is_active, self.calls = w, True, 0

    def __call__(self, x):
        y = x @ self.w + OPTIONS["shift"]
        return pg.relu(y) if self.is_active else y


class Network:
    def __init__(self, count):
        weights = [pg.ones((4, 4)) * (0.1 * (n + 1)) for n in range(count)]
        self.layers = [Dense(w) for w in weights]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return helper(x)
"""

USER_PROGRAM = """
import plugrad as pg
import user_package
assert "site-packages" in user_package.__file__

network, x = user_package.Network(3), pg.ones((2, 4))
jitted = pg.jit(network)


def compare():
    for _ in range(4):
        assert jitted(x).tolist() == network(x).tolist()
    found = jitted.explain(x)
    assert found.graph is not None and found.confirmed, found.reason


compare()
network.layers[1].is_active = False
compare()
network.layers[0].w = pg.ones((4, 4))
compare()
user_package.OPTIONS["shift"] = -3.0
compare()
user_package.RATE = 0.5
compare()
user_package.helper = lambda x: x - 1.0
compare()
count = len(jitted.explain(x).retraces)
for layer in network.layers:
    layer.calls += 1  # no code reads this attribute
compare()
assert len(jitted.explain(x).retraces) == count
print("replays")
"""

MODEL_PROGRAM = """
import sys
import plugrad as pg
import {package}
assert "site-packages" in {package}.__file__

model = {package}.load(sys.argv[1])
info = model.inputs[0]
x = pg.ones([n if type(n) is int else 1 for n in info.shape])
assert model(x).shape == model(x).shape
jitted = pg.jit(model)
expected = model(x).tolist()
for _ in range(4):
    assert jitted(x).tolist() == expected
found = jitted.explain(x)
assert found.graph is not None and found.confirmed, found.reason
assert found.retraces == [], found.retraces
print("replays", len(found.graph.steps) > 3)
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheelhouse):
    """Return an environment with the core, cpu, both importers and a user's package."""
    sources = tmp_path_factory.mktemp("sources")
    for name in ("onnx", "tfjs"):
        package(copied(f"plugins/{name}", sources / name), wheelhouse)
    for wheel in downloaded([*NEEDS, "onnx"]).iterdir():
        target = wheelhouse / wheel.name
        if not target.exists():
            target.symlink_to(wheel)
    write_module_wheel(wheelhouse, "user-package", USER_PACKAGE, "", ["plugrad"])
    environment = Environment(tmp_path_factory.mktemp("environment"), wheelhouse)
    environment.install("plugrad-cpu", "plugrad-onnx", "plugrad-tfjs", "user-package")
    return environment


def printed(environment, folder, program, *arguments):
    """Run a program in an empty folder, and return what it prints."""
    script = folder / "program.py"
    script.write_text(program)
    command = [environment.python, "-I", "-W", "error", str(script), *arguments]
    empty = folder / "empty"
    empty.mkdir()
    done = subprocess.run(
        command, capture_output=True, text=True, env=clean_variables(), cwd=empty
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_user_package_is_replayed(installed, tmp_path):
    assert printed(installed, tmp_path, USER_PROGRAM) == "replays"


def test_an_onnx_model_is_replayed(installed, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(image().SerializeToString())
    program = MODEL_PROGRAM.format(package="plugrad_onnx")
    assert printed(installed, tmp_path, program, str(path)) == "replays True"


def test_a_tensorflow_js_model_is_replayed(installed, tmp_path):
    path, _ = layers_model(tmp_path, "conv2d")
    program = MODEL_PROGRAM.format(package="plugrad_tfjs")
    assert printed(installed, tmp_path, program, str(path)) == "replays True"
