"""Creating arrays, and moving their elements without arithmetic.

- ``blocks``: blocks of pixels, moved to and from the batch and the channels.
- ``gather``: gathering by index, sums by segment, and one-hot encoding.
- ``grids``: identity matrices, triangular parts of matrices, and coordinate grids.
- ``ranges``: sequences of numbers, ``arange`` and ``linspace``.
- ``rearrange``: rolling, repeating and moving axes; broadcasting arrays.
- ``slicing``: slices of tensors, and padding.
"""
