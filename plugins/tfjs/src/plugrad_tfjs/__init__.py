"""TensorFlow.js models on every plugrad backend, with gradients.

``load`` reads a ``model.json`` and its weights. The model is a layers model, which
Keras or ``tf.layers`` writes, or a graph model, which the converter creates from a
SavedModel. ``basic_lstm_cell`` and ``multi_rnn_cell`` are functions of the
TensorFlow.js API.
"""

from typing import Any

from plugrad.importing import ModelError, ValueInfo

from .cells import basic_lstm_cell, multi_rnn_cell
from .model import Model, TfjsExplanation, load

__all__ = [
    "Model",
    "ModelError",
    "TfjsExplanation",
    "ValueInfo",
    "basic_lstm_cell",
    "load",
    "multi_rnn_cell",
]


def __getattr__(name: str) -> Any:
    """Look up the version of the distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-tfjs")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
