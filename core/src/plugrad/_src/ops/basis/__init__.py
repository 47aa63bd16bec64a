"""The basis of all other ops: these modules import each other, and no other family.

They depend on each other: the derivative of a sum is a broadcast, and the derivative of
a broadcast is a sum; every op converts its arguments, and the conversion runs ops.
Circular imports are allowed only in this folder.

- ``_convert``: arguments to tensors, promotion of dtypes, and calls of kernels.
- ``binary``: element-wise ops of two arguments.
- ``compare``: comparisons, ``where``, logical ops and bits.
- ``complexes``: complex numbers and their parts.
- ``creation``: constants, tensors shaped like another, and ``astype``.
- ``logic``: ``all``, ``any`` and ``count_nonzero``.
- ``reduce``: sums, means, products and maxima along axes.
- ``shape``: reshaping, broadcasting, joining, splitting and transposing.
- ``unary``: element-wise ops of one argument.
- ``variable``: ``Variable``, a mutable holder of a tensor.
"""
