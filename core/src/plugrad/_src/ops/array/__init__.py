"""Ops that make arrays, and read and move elements without computing with them.

- ``blocks``: blocks of pixels, moved to and from the batch and the channels.
- ``gather``: slices by index, their sums by segment, and one-hot encoding.
- ``grids``: matrices with diagonals, triangles, and grids.
- ``ranges``: sequences of numbers, ``arange`` and ``linspace``.
- ``rearrange``: rolling, repeating, moving axes, and shapes that broadcast.
- ``slicing``: parts of tensors, and padding.
"""
