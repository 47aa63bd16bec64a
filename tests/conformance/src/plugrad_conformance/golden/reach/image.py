"""How the golden cases reach the ops of ``image``."""

import plugrad as pg


def rotate_with_offset(image, radians, fillValue=0, center=0.5):
    return pg.image.rotate_with_offset(
        image, radians, fill_value=fillValue, center=center
    )


KERNELS = {
    "FlipLeftRight": lambda image: pg.image.flip_left_right(image),
    "RotateWithOffset": rotate_with_offset,
}

OPS = {
    "fromPixels": pg.image.from_pixels,
    "grayscaleToRGB": pg.image.grayscale_to_rgb,
    "rgbToGrayscale": pg.image.rgb_to_grayscale,
    "rotateWithOffset": rotate_with_offset,
}
