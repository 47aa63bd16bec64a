"""Images, the namespace ``plugrad.image``.

- ``_sampling``: interpolation between the pixels of an image.
- ``boxes``: non-maximum suppression of boxes.
- ``image``: conversion to and from pixels, flips and rotation, colors.
- ``interpolation``: cubic resizing, and sampling at the points of a grid.
- ``resize``: resizing, cropping and transforming.
"""
