"""Functions of images, by theme."""

from .colors import hsv_to_rgb as hsv_to_rgb
from .colors import rgb_to_grayscale as rgb_to_grayscale
from .colors import rgb_to_hsv as rgb_to_hsv
from .coordinates import map_coordinates as map_coordinates
from .filters import gaussian_blur as gaussian_blur
from .filters import sobel_edges as sobel_edges
from .resampling import scale_and_translate as scale_and_translate
from .resizing import resize as resize
from .transforms import affine_transform as affine_transform
from .transforms import compute_homography_matrix as compute_homography_matrix
from .transforms import elastic_transform as elastic_transform
from .transforms import perspective_transform as perspective_transform
