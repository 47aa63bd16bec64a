"""The networks that the package onnx has for its tests: AlexNet to DenseNet."""

from pathlib import Path

import numpy as np
import onnx
import plugrad as pg
import pytest
from plugrad_onnx import load

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
PATHS = {path.stem.removeprefix("light_"): path for path in FOLDER.glob("*.onnx")}
QUICK = ("shufflenet", "squeezenet")


@pytest.mark.parametrize("name", sorted(PATHS))
def test_answers_are_those_of_onnx_runtime(name, backend, request):
    if name not in QUICK and not request.config.getoption("all"):
        pytest.skip("it takes seconds: runs with --all")
    ort = pytest.importorskip("onnxruntime", reason="it has no wheel for this Python")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(PATHS[name]), options)
    loaded = load(PATHS[name])
    rng = np.random.default_rng(3)
    inputs = {
        info.name: rng.normal(size=info.shape).astype(np.float32)
        for info in loaded.inputs
    }
    (expected,) = session.run(None, inputs)
    found = loaded(**inputs).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
    if name == "squeezenet":
        assert loaded.explain().transposes <= 2
        assert differentiable(loaded, inputs)


def differentiable(loaded, inputs):
    """Tell whether the gradient in the input is finite."""
    (x,) = inputs.values()
    slope = pg.grad(lambda x: pg.sum(loaded(x) ** 2))(x).numpy()
    return np.isfinite(slope).all()
