"""Reading and writing elements at indices, sorting and searching.

These modules build on ``gather`` and ``slicing``, which are in ``array``.

- ``indexing``: Python's ``x[...]`` and ``x[...] = y``, and ``strided_slice``.
- ``scatter``: reading, writing and combining slices at multidimensional indices.
- ``search``: positions in sorted sequences, unique elements, masks.
- ``segments``: maxima, minima and products of slices with the same segment id.
- ``sorting``: sorting, the k largest elements, and quantiles.
"""
