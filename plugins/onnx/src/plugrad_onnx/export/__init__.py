"""Exports functions: ``save`` writes the kernels of a function as ops of ONNX.

Map: ``saving`` has ``save``; ``table`` a row for each kernel; ``writer`` makes nodes.
"""

from .saving import save

__all__ = ["save"]
