"""Check that models go from one backend of Keras to another, and back.

Run it once on each of two backends, with the same folder::

    KERAS_BACKEND=jax python -m tests.keras.exchange save folder
    KERAS_BACKEND=plugrad python -m tests.keras.exchange check folder
    KERAS_BACKEND=plugrad python -m tests.keras.exchange save other
    KERAS_BACKEND=jax python -m tests.keras.exchange check other

``save`` writes models, three applications among them, with what they predict. ``check``
loads them, compares the predictions, saves the models again, and compares the weights.
"""

import functools
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.keras.models import MODELS, set_weights

SIDE = 96
LIMIT = 1e-4  # of the largest difference over the largest prediction


def applications():
    """Return functions that create applications, by name."""
    import keras

    shape = (SIDE, SIDE, 3)
    options = {"input_shape": shape, "weights": None, "classifier_activation": None}
    names = "MobileNetV2", "ResNet50", "EfficientNetB0"
    functions = [getattr(keras.applications, name) for name in names]
    return {
        name: functools.partial(function, **options)
        for name, function in zip(names, functions, strict=True)
    }


def set_spread_weights(model):
    """Give a deep model weights with which values keep their size from layer to layer.

    With those of a new model, they shrink so much that all predictions are the same.
    """
    random = np.random.default_rng(0)
    values = []
    for weight in model.weights:
        shape = tuple(weight.shape)
        is_depthwise = "depthwise" in weight.path
        inputs = math.prod(shape[:2] if is_depthwise else shape[:-1])
        if len(shape) > 1:
            values.append(random.normal(size=shape) * np.sqrt(2 / inputs))
        elif weight.name in ("gamma", "moving_variance", "variance"):
            values.append(random.uniform(0.5, 1.5, shape))
        else:
            values.append(random.normal(size=shape) / 10)
    model.set_weights(values)


def examples(model):
    """Return the same two examples on every backend."""
    shape = (2, *model.input_shape[1:])
    return np.random.default_rng(3).uniform(0, 1, shape).astype(np.float32)


def save(folder):
    """Write each model, and what it predicts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, create in {**MODELS, **applications()}.items():
        model = create()
        (set_weights if name in MODELS else set_spread_weights)(model)
        model.save(folder / f"{name}.keras")
        np.save(folder / f"{name}.npy", model.predict(examples(model), verbose=0))


def check(folder):
    """Load each model, compare its predictions, and save and load it again.

    Returns the number of models that differ.
    """
    import keras

    wrong = 0
    for path in sorted(folder.glob("*.keras")):
        model = keras.models.load_model(path)
        expected = np.load(path.with_suffix(".npy"))
        found = model.predict(examples(model), verbose=0)
        difference = np.abs(found - expected).max() / np.abs(expected).max()
        with tempfile.TemporaryDirectory() as again:
            model.save(Path(again) / "again.keras")
            loaded = keras.models.load_model(Path(again) / "again.keras")
        pairs = zip(model.get_weights(), loaded.get_weights(), strict=True)
        same = all(np.array_equal(one, other) for one, other in pairs)
        spread = expected.std() / np.abs(expected).max()
        numbers = f"spread {spread:.2f}, difference {difference:.1e}"
        print(f"{path.stem:16} {numbers}, weights the same: {same}")
        wrong += difference > LIMIT or not same
    return wrong


if __name__ == "__main__":
    action, path = sys.argv[1:]
    sys.exit({"save": save, "check": check}[action](Path(path)))
