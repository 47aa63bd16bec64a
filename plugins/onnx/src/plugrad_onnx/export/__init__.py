"""Exports functions: ``save`` writes the kernels of a function as ONNX ops.

Contents: ``saving`` defines ``save``; ``table`` has a row for each kernel; ``writer``
creates the nodes.
"""

from .saving import save

__all__ = ["save"]
