"""A custom C kernel: the example compiles, prints what it promises, and is correct."""

import runpy
from pathlib import Path

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.registry import registry
from plugrad_conformance.check import check_gradients

from tests.docs.blocks import promised

pytest.importorskip("plugrad_wasm", reason="plugrad-wasm is not installed")
pytest.importorskip("ziglang", reason="ziglang, which compiles, is not installed")

PROGRAM = Path(__file__).parents[2] / "examples" / "wasm_kernel" / "softsign.py"


@pytest.fixture
def example(monkeypatch, tmp_path, capsys):
    """Run the program; forget the contract that it declares."""
    for name in ("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(registry, "contracts", registry.contracts)
    return runpy.run_path(str(PROGRAM), run_name="__main__")


def test_the_example_prints_what_it_promises_and_is_correct(example, capsys):
    promises = promised(PROGRAM.read_text())
    assert len(promises) == 7
    assert capsys.readouterr().out.splitlines() == promises

    kernel, softsign = example["SOFTSIGN"], example["softsign"]
    x = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    load = example["load_kernel"]
    pg.register_kernel(kernel, "wasm", load(example["module"], kernel))
    try:
        with pg.use_backend("wasm"):
            found = softsign(x, scale=0.5).numpy()
            np.testing.assert_allclose(found, x / (0.5 + abs(x)), rtol=1e-6)
            check_gradients(lambda x: softsign(x, scale=0.5), x[:, :2].astype(float))
            slope = pg.grad(lambda x: pg.sum(softsign(x)))
            twice = pg.grad(lambda x: pg.sum(slope(x)))(pg.asarray(x)).numpy()
            exact = -2 * np.sign(x) / (1 + abs(x)) ** 3
            np.testing.assert_allclose(twice, exact, rtol=1e-5)
    finally:
        pg.unregister_kernel(kernel.name, "wasm")
