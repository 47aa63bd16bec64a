"""ONNX models on every plugrad backend, with gradients.

``load`` reads a model, ``save`` writes one, and ``op`` registers ops of other domains.
``backend`` implements the ONNX backend interface.
"""

from typing import Any

from plugrad.importing import ModelError, ValueInfo

from .export import save
from .graph import Graph, Node
from .model import Model, OnnxExplanation, load
from .registry import op

__all__ = [
    "Graph",
    "Model",
    "ModelError",
    "Node",
    "OnnxExplanation",
    "ValueInfo",
    "load",
    "op",
    "save",
]


def __getattr__(name: str) -> Any:
    """Look up the version of the distribution."""
    if name == "__version__":
        from importlib.metadata import version

        return version("plugrad-onnx")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
