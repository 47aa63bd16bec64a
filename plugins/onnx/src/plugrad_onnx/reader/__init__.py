"""Reads the file of a model: ``Reader`` makes a graph, and collects all problems.

Map: ``wire`` charges a file before protobuf reads it; ``inference`` finds types and
checks calls of functions; ``tensors`` has values and external data; ``scopes`` orders
nodes; ``functions`` writes functions out; ``reader`` makes the graph.
"""

from .reader import Reader
from .tensors import to_array
from .wire import charge

__all__ = ["Reader", "charge", "to_array"]
