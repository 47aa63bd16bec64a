"""Read and write elements at positions, and find positions; sorting.

``array`` has what these are made of: ``gather`` and ``slicing``.

- ``indexing``: Python's ``x[...]`` and ``x[...] = y``, and ``strided_slice``.
- ``scatter``: slices at multi-dimensional indices, read, written and combined.
- ``search``: positions in sorted sequences, unique elements, masks.
- ``sorting``: sorting, the largest elements, and quantiles.
"""
