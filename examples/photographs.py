"""A small convolutional network, trained on photographs that two packages ship.

The wheels of scikit-image and scikit-learn contain the photographs. The network sees
crops of 64 x 64 pixels, and learns which object is in the crop, or that there is none.
It is fully convolutional, so it accepts images of any size. ``look_inside.py`` uses it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad_train as pt

Array = np.ndarray[Any, np.dtype[Any]]
Params = dict[str, pg.Tensor]

HEIGHT = 208  # of a photograph, in pixels
CROP = 64  # height and width of a crop, in pixels
BACKGROUND = 0  # the class of a crop without an object
CHANNELS = (3, 16, 32, 64, 96)


class Photo(NamedTuple):
    """A photograph, and where its object is: left, top, right, bottom, from 0 to 1."""

    name: str
    package: str
    path: str
    box: tuple[float, float, float, float]

    @property
    def file(self) -> Path:
        """The path of the file in the installed package."""
        found = find_spec(self.package)
        if found is None or found.origin is None:
            raise FileNotFoundError(
                f"{self.name}: {self.package} is not installed; run pip install "
                "scikit-image scikit-learn"
            )
        return Path(found.origin).parent / self.path


PHOTOS = (
    Photo("cat", "skimage", "data/chelsea.png", (0.0, 0.0, 0.8, 1.0)),
    Photo("dahlia", "sklearn", "datasets/images/flower.jpg", (0.26, 0.2, 0.7, 0.84)),
    Photo("pagoda", "sklearn", "datasets/images/china.jpg", (0.13, 0.05, 0.53, 0.92)),
    Photo("coffee", "skimage", "data/coffee.png", (0.12, 0.03, 0.78, 0.97)),
)
CLASSES = ("background", *(photo.name for photo in PHOTOS))


# --- the photographs -------------------------------------------------------------


def read(
    file: Path, size: tuple[int, int] | None = None, height: int | None = None
) -> Array:
    """Return a photograph as float32 ``[height, width, 3]``, from 0 to 1.

    Without a size, the height is ``height`` or ``HEIGHT``, and the width is a multiple
    of 8.
    """
    from PIL import Image

    with Image.open(file) as image:
        height = height or HEIGHT
        height, width = size or (height, image.width * height // image.height // 8 * 8)
        small = image.convert("RGB").resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(small, np.float32) / 255


@cache
def at_height(photo: Photo, height: int) -> Array:
    """Return a photograph at a height; cached, because ``crop`` reads it often."""
    _, width, _ = read(photo.file).shape
    return read(photo.file, (height, width * height // HEIGHT))


def crop(rng: np.random.Generator) -> tuple[Array, int]:
    """Return a random crop, and the class of the object at its center."""
    while True:
        index = int(rng.integers(len(PHOTOS)))
        left, top, right, bottom = PHOTOS[index].box
        image = at_height(PHOTOS[index], int(rng.choice([144, 176, HEIGHT, 272])))
        y = rng.integers(image.shape[0] - CROP + 1)
        x = rng.integers(image.shape[1] - CROP + 1)
        across = (x + CROP / 2) / image.shape[1]
        down = (y + CROP / 2) / image.shape[0]
        u = 2 * (across - left) / (right - left) - 1  # the object is an ellipse
        v = 2 * (down - top) / (bottom - top) - 1
        distance = math.hypot(u, v)
        if distance < 0.9 or distance > 1.2:  # no crops at the edge of the object
            inside = distance < 1
            if inside or rng.random() < 0.5:
                return image[y : y + CROP, x : x + CROP], (index + 1) * inside


def batches(rng: np.random.Generator, steps: int, size: int) -> Iterator[Any]:
    """Yield random crops with random light, mirrored or not, and their classes."""
    for _ in range(steps):
        crops, labels = zip(*(crop(rng) for _ in range(size)), strict=True)
        images = np.stack(crops)
        mirrored = rng.random(size) < 0.5
        images[mirrored] = images[mirrored, :, ::-1]
        gray = rng.uniform(0, 1, (size, 1, 1, 1)) ** 2  # some have little color
        images += gray * (images.mean(-1, keepdims=True) - images)
        images *= rng.uniform(0.7, 1.2, (size, 1, 1, 3))
        yield images.astype(np.float32), np.array(labels, np.int32)


# --- the network -----------------------------------------------------------------


def new_params(seed: int) -> Params:
    """Return random weights (He et al., 2015) of four convolutions and a matrix."""
    rng = np.random.default_rng(seed)
    shapes = {
        f"conv{i}": (3, 3, *CHANNELS[i : i + 2]) for i in range(len(CHANNELS) - 1)
    }
    shapes["dense"] = (CHANNELS[-1], len(CLASSES))
    params = {}
    for name, shape in shapes.items():
        scale = math.sqrt(2 / math.prod(shape[:-1]))
        params[name] = pg.asarray(rng.normal(0, scale, shape).astype(np.float32))
        params[f"{name}_bias"] = pg.zeros(shape[-1])
    return params


def logits_of(params: Params, images: pg.Tensor) -> pg.Tensor:
    """Return the logits ``[n, classes]`` of images ``[n, height, width, 3]``."""
    return logits_of_standardized(params, images - 0.5)


def logits_of_standardized(params: Params, x: pg.Tensor) -> pg.Tensor:
    """Return the logits of images from -0.5 to 0.5."""
    last = len(CHANNELS) - 2
    for i in range(last + 1):
        with pg.name_scope(f"conv{i}"):
            x = pg.conv2d(x, params[f"conv{i}"], pad="same") + params[f"conv{i}_bias"]
            x = pg.relu(x)
        x = pg.max_pool(x, 2) if i < last else x
    return pg.mean(x, axis=(1, 2)) @ params["dense"] + params["dense_bias"]


def train(steps: int, *, batch: int = 32, seed: int = 0) -> tuple[Params, float]:
    """Train on random crops; return the parameters and the accuracy on new crops."""

    def loss(params: Params, batch: Any) -> pg.Tensor:
        images, labels = batch
        logits = logits_of(params, images)
        return pg.losses.sparse_softmax_cross_entropy(labels, logits)

    rng = np.random.default_rng(seed)
    step = pt.train_step(loss, pt.adam(pt.schedules.one_cycle(4e-3, steps)))
    params = new_params(seed)
    state = step.optimizer.init(params)
    for images, labels in batches(rng, steps, batch):
        batch_of_crops = pg.asarray(images), pg.asarray(labels)
        params, state, _ = step.run(params, state, batch_of_crops)
    images, labels = next(batches(rng, 1, 256))
    guesses = pg.argmax(logits_of(params, pg.asarray(images)), axis=-1).numpy()
    return params, float(np.mean(guesses == labels))
