"""Sparse and ragged tensors, public in ``plugrad.sparse``.

- ``_results``: the named tuples that functions here and in ``text`` return.
- ``ragged``: rows that differ in length.
- ``sparse``: coordinates, values and a shape.
"""
