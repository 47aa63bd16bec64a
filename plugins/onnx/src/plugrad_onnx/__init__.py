"""ONNX models on every backend of plugrad, with gradients."""

from .graph import Graph, Node
from .model import Explanation, Model, load
from .proto import ModelError, ValueInfo
from .registry import op

__all__ = [
    "Explanation",
    "Graph",
    "Model",
    "ModelError",
    "Node",
    "ValueInfo",
    "load",
    "op",
]
