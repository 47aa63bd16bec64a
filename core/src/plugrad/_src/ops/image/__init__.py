"""Images, the namespace ``plugrad.image``.

- ``_sampling``: reading images between pixels.
- ``boxes``: non-maximum suppression of boxes.
- ``image``: conversion from and to pixels, flips and rotation, colours.
- ``interpolation``: cubic resizing, and images read at grids.
- ``resize``: resizing, cropping and transforming.
"""
