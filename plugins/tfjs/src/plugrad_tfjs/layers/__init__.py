"""Keras and TensorFlow.js layers; importing a module registers its layers."""

from . import basic, conv, merge, pooling, recurrent

__all__ = ["basic", "conv", "merge", "pooling", "recurrent"]
