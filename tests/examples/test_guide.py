"""The guide to custom ops, kernels and gradients: its files run and are in its text."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.registry import registry
from plugrad_conformance.check import check_gradients

from tests.docs.blocks import blocks, promised
from tests.plugins.wheels import install

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "examples" / "guide"
TEXT = (ROOT / "docs" / "guide.md").read_text()
PROGRAMS = {
    path.stem: path for path in [*GUIDE.glob("*.py"), GUIDE / "plugin" / "program.py"]
}
BUILD_FILES = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
SECTIONS = [
    "Op",
    "Kernel",
    "Gradient",
    "Kernel registry",
    "Gradient registry",
    "Code organisation",
    "Custom ops",
    "Custom kernels",
    "Custom gradients",
    "customGrad: `custom_grad`",
    "Put it in a plugin",
]


@pytest.fixture
def restored_registry(backend, monkeypatch):
    """Forget the contracts that a program declares; check that it undoes the rest.

    Contracts would stay in the process, and other tests examine all of them.
    """
    state = lambda: (
        pg.backends(),
        pg.get_kernels_for_backend("cpu"),
        list(registry.gradients._user),
        pg.get_backend(),
    )
    before = state()
    monkeypatch.setattr(registry, "contracts", registry.contracts)
    yield
    assert state() == before


def run(name):
    return runpy.run_path(str(PROGRAMS[name]), run_name="__main__")


@pytest.mark.parametrize("name", sorted(p.stem for p in GUIDE.glob("*.py")))
def test_a_program_prints_what_it_promises(name, restored_registry, capsys):
    run(name)
    promises = promised(PROGRAMS[name].read_text())
    assert promises
    assert all(promises)
    assert capsys.readouterr().out.splitlines() == promises


def test_the_custom_ops_agree_and_check_their_arguments(restored_registry):
    x = np.random.default_rng(0).normal(size=9)
    exact = np.convolve(x, np.full(4, 0.25), "valid").astype(np.float32)
    for name in ("custom_op", "kernel_by_name", "custom_kernel"):
        moving_average = run(name)["moving_average"]
        y = moving_average(pg.asarray(x, dtype="float32"), window=4)
        np.testing.assert_allclose(y.numpy(), exact, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match=r"window 10 does not fit shape \(9,\)"):
        run("custom_op")["moving_average"](x, window=10)


def test_the_kernels_of_two_authors_agree(restored_registry):
    guide = run("custom_kernel")
    x = np.random.default_rng(0).normal(size=(2, 9)).astype(np.float32)
    for window in (1, 4, 9):
        with pg.use_backend("cpu"):
            expected = guide["moving_average"](x, window=window).numpy()
        for kernel in (guide["by_windows"], guide["by_sums"]):
            found = kernel(x, window=window)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2, 5])
def test_gradients_of_a_moving_average(window, restored_registry):
    x = np.random.default_rng(0).normal(size=5)
    for name in ("custom_op", "kernel_by_name", "custom_kernel"):
        moving_average = run(name)["moving_average"]
        with pg.use_backend("cpu"):
            check_gradients(lambda x, f=moving_average: f(x, window=window), x)


def test_gradients_of_swish(restored_registry):
    swish = run("kernel_by_name")["swish"]
    with pg.use_backend("cpu"):
        check_gradients(lambda x: swish(x, beta=1.5), [-2.0, 0.0, 3.0])


def test_gradients_of_an_inverse(restored_registry):
    guide = run("new_gradient")
    x = np.random.default_rng(0).normal(size=(2, 3, 3)) + 3 * np.eye(3)
    pg.register_kernel(guide["INVERSE"], "cpu", np.linalg.inv)
    try:
        with (
            pg.use_backend("cpu"),
            pg.override_gradient("guide.Inverse", x=guide["inverse_gradient"]),
        ):
            check_gradients(guide["inverse"], x)
    finally:
        pg.unregister_kernel("guide.Inverse", "cpu")


def test_cross_entropy_to_the_second_order(restored_registry):
    guide = run("custom_grad")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 5))
    labels = rng.random((4, 5))  # rows need not add up to one
    with pg.use_backend("cpu"):
        labels = pg.asarray(labels)
        y = guide["cross_entropy"](labels, x)
        np.testing.assert_allclose(y.numpy(), guide["naive"](labels, x).numpy())
        check_gradients(lambda x: guide["cross_entropy"](labels, x), x)
        twice = lambda f: pg.grad(lambda x: pg.sum(pg.grad(f)(x) * labels))(x)
        custom = twice(lambda x: pg.sum(guide["cross_entropy"](labels, x)))
        composed = twice(lambda x: pg.sum(guide["naive"](labels, x)))
        np.testing.assert_allclose(custom.numpy(), composed.numpy(), atol=1e-12)
        large = pg.asarray(1000 * x)
        slope = pg.grad(lambda x: pg.sum(guide["cross_entropy"](labels, x)))(large)
        assert np.isfinite(slope.numpy()).all()


def test_the_plugin(tmp_path):
    """Install the plugin as in the guide; the program imports only installed files."""
    folder = tmp_path / "plugin"
    target = tmp_path / "site"
    shutil.copytree(GUIDE / "plugin", folder, ignore=BUILD_FILES)
    install(folder, target)
    assert not (target / "program.py").exists()
    path = os.pathsep.join([str(target), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-P", "-W", "error", folder / "program.py"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == promised(PROGRAMS["program"].read_text())


def test_the_text_contains_the_whole_programs():
    files = [path for path in GUIDE.rglob("*") if path.suffix in (".py", ".toml")]
    assert len(files) == 11
    found = blocks(r"(?:python|toml)", TEXT)
    assert sorted(found) == sorted(path.read_text() for path in files)


def test_the_text_has_its_sections_in_order():
    assert re.findall(r"^## (.*)$", TEXT, re.M) == SECTIONS
