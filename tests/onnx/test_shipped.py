"""The networks in the onnx package's own tests: AlexNet, DenseNet and others.

In these files all weights are equal, so all classes would get the same score. The
networks that are not too large get random weights instead.
"""

from pathlib import Path

import numpy as np
import onnx
import plugrad as pg
import pytest
from onnx import numpy_helper
from plugrad_onnx import load

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
PATHS = {path.stem.removeprefix("light_"): path for path in FOLDER.glob("*.onnx")}
LARGE = ("bvlc_alexnet", "vgg19", "zfnet512")
QUICK = ("shufflenet", "squeezenet")


MAX_RANDOM_WEIGHTS = 2**25


def with_weights(path):
    """Return a network with random weights, unless it has too many."""
    proto = onnx.load(path)
    shapes = {x.name: numpy_helper.to_array(x) for x in proto.graph.initializer}
    filled = [n for n in proto.graph.node if n.op_type == "ConstantOfShape"]
    if sum(np.prod(shapes[node.input[0]]) for node in filled) > MAX_RANDOM_WEIGHTS:
        return proto
    rng = np.random.default_rng(7)
    for node in filled:
        shape = shapes[node.input[0]]
        x = rng.normal(size=shape) / np.sqrt(max(np.prod(shape[1:]) / 2, 1))
        x = x if len(shape) > 1 else 0.5 + 0.1 * np.abs(x)  # variances are positive
        array = numpy_helper.from_array(x.astype(np.float32), node.output[0])
        proto.graph.initializer.append(array)
        proto.graph.node.remove(node)
    return proto


@pytest.mark.parametrize("name", sorted(PATHS))
def test_answers_are_those_of_onnx_runtime(name, backend, request):
    if name not in QUICK and not request.config.getoption("all"):
        pytest.skip("it takes seconds: runs with --all")
    ort = pytest.importorskip("onnxruntime", reason="it has no wheel for this Python")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    proto = with_weights(PATHS[name])
    session = ort.InferenceSession(proto.SerializeToString(), options)
    loaded = load(proto)
    rng = np.random.default_rng(3)
    inputs = {
        info.name: rng.normal(size=info.shape).astype(np.float32)
        for info in loaded.inputs
    }
    (expected,) = session.run(None, inputs)
    try:
        found = loaded(**inputs).numpy()
    except MemoryError as error:
        if backend != "webgpu" or name not in LARGE:
            raise
        pytest.skip(f"a weight is too large for the adapter: {error}")
    assert name in LARGE or np.ptp(expected) > 1e-4
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * expected.max())
    if name == "squeezenet":
        assert loaded.explain().transposes <= 2
        assert has_finite_gradient(loaded, inputs)


def has_finite_gradient(loaded, inputs):
    """Return whether the gradient in the input is finite."""
    (x,) = inputs.values()
    slope = pg.grad(lambda x: pg.sum(loaded(x) ** 2))(x).numpy()
    return np.isfinite(slope).all()
