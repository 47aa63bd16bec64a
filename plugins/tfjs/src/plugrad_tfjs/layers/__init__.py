"""The layers of Keras and TensorFlow.js; importing a module registers its layers."""

from . import basic, conv, merge, pooling, recurrent

__all__ = ["basic", "conv", "merge", "pooling", "recurrent"]
