"""Making arrays, and moving their elements without computing with them.

- ``blocks``: blocks of pixels, moved to and from the batch and the channels.
- ``gather``: gathering by index, sums by segment, and one-hot encoding.
- ``grids``: matrices with diagonals, triangles of matrices, and grids.
- ``ranges``: sequences of numbers, ``arange`` and ``linspace``.
- ``rearrange``: rolling, repeating and moving axes; broadcasting arrays.
- ``slicing``: parts of tensors, and padding.
"""
