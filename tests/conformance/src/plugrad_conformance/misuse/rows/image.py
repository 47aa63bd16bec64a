"""Valid calls of image kernels."""

from .. import call, floats, ints

CALLS = {
    "Draw": call(floats(2, 5, 3)),
    "FlipLeftRight": call(floats(2, 5, 6, 3)),
    "FromPixels": call(ints(2, 5, 4, below=256), num_channels=3),
    "RotateWithOffset": call(
        floats(2, 5, 6, 3), radians=0.5, fill_value=(0.5, 1.0, 2.0), center=(0.25, 0.5)
    ),
}
