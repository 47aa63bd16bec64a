"""Models of TensorFlow.js on every backend of plugrad, with gradients.

``load`` reads a ``model.json`` and its weights: a layers model, which Keras and
``tf.layers`` write, or a graph model, which the converter makes of a SavedModel.
``basic_lstm_cell`` and ``multi_rnn_cell`` are functions of TensorFlow.js itself.
"""

from typing import Any

from plugrad.importing import ModelError, ValueInfo

from .cells import basic_lstm_cell, multi_rnn_cell
from .model import Explanation, Model, load

__all__ = [
    "Explanation",
    "Model",
    "ModelError",
    "ValueInfo",
    "basic_lstm_cell",
    "load",
    "multi_rnn_cell",
]


def __getattr__(name: str) -> Any:
    """Read the version."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-tfjs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
