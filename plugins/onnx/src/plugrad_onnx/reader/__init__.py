"""Reads model files: ``Reader`` builds a graph and collects all problems.

Contents: ``wire`` charges a file before protobuf reads it; ``inference`` infers types
and checks function calls; ``tensors`` reads values and external data; ``scopes`` sorts
nodes; ``functions`` inlines functions; ``reader`` builds the graph.
"""

from .reader import Reader
from .tensors import to_array
from .wire import charge

__all__ = ["Reader", "charge", "to_array"]
