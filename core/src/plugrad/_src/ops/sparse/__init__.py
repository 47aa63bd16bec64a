"""Sparse and ragged tensors, public in ``plugrad.sparse``.

- ``_results``: the named tuples that functions in ``sparse`` and ``text`` return.
- ``ragged``: rows that differ in length.
- ``sparse``: coordinates, values and a shape.
"""
