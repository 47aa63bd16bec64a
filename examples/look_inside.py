"""Look into an image network: four maps of what it looks at, by overridden gradients.

The network is not changed: an installed gradient pack and a block that overrides
gradients change what ``pg.grad`` gives::

    python -m pip install --upgrade pip  # --group needs 25.1
    pip install --group demo scikit-image ./core ./plugins/cpu ./examples/gradient_packs
    python -m examples.look_inside
    python -m examples.look_inside --model net.onnx --images a.jpg b.jpg

Without ``--model``, a small network learns to tell the objects of four photographs in
about a minute.

- gradient: of the score of the object in the photograph, for each pixel;
- integrated gradients (Sundararajan et al., arXiv:1703.01365): their mean on the way
  from a blurred photograph, times the way;
- guided backpropagation (Springenberg et al., arXiv:1412.6806): the pack ``guided``;
- Grad-CAM (Selvaraju et al., arXiv:1610.02391): the last feature maps, weighted by
  their mean gradients. An override of the gradient of ``Relu`` reads both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg

from examples import photographs

Array = np.ndarray[Any, np.dtype[Any]]
Score = Callable[[pg.Tensor], pg.Tensor]  # of an image [height, width, 3]

MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of the pixels of ImageNet
STD = np.array([0.229, 0.224, 0.225], np.float32)


class Network(NamedTuple):
    """The scores of the classes of an image, their names, and the size it needs."""

    scores: Score
    names: tuple[str, ...]
    size: tuple[int, int] | None


class Row(NamedTuple):
    """The name of the class, the image ``[height, width, 3]``, and its maps."""

    name: str
    image: Array
    maps: dict[str, Array]


# --- four maps -------------------------------------------------------------------


def gradient(score: Score, image: Array) -> Array:
    """Return the gradient of the score, the largest of the channels."""
    return np.abs(pg.grad(score)(pg.asarray(image)).numpy()).max(-1)


def guided(score: Score, image: Array) -> Array:
    """Return the gradient with the guided gradient of Relu, only in this block."""
    with pg.use_gradients("guided"):
        return gradient(score, image)


def integrated(score: Score, image: Array, steps: int = 24) -> Array:
    """Return the integrated gradients on the straight way from a blurred image."""
    way = image - blurred(image)
    total = np.zeros_like(image)
    for part in (np.arange(steps, dtype=np.float32) + 0.5) / steps:
        total += pg.grad(score)(pg.asarray(image - (1 - part) * way)).numpy()
    return np.abs((total / steps * way).sum(-1))


def grad_cam(score: Score, image: Array) -> Array:
    """Return the last feature maps, weighted by their mean gradients."""
    seen: list[tuple[Array, Array]] = []

    def rule(dy: pg.Tensor, y: pg.Tensor, original: Any) -> Any:
        if y.ndim == 4 and min(y.shape[1:3]) > 1:
            seen.append((y.numpy()[0], dy.numpy()[0]))
        return original(dy)

    with ExitStack() as blocks:
        for kernel in ("Relu", "Relu6", "Conv2D"):
            blocks.enter_context(pg.override_gradient(kernel, x=rule))
        pg.grad(score)(pg.asarray(image))
    features, slopes = seen[0]  # backward, the last comes first
    return enlarged(np.maximum(features @ slopes.mean((0, 1)), 0), image.shape[:2])


MAPS = {
    "gradient": gradient,
    "integrated gradients": integrated,
    "guided backpropagation": guided,
    "Grad-CAM": grad_cam,
}


# --- images ----------------------------------------------------------------------


def blurred(image: Array, radius: int = 12) -> Array:
    """Return the image blurred by three box filters, the edges repeated."""
    width = 2 * radius + 1
    for axis in (0, 1) * 3:
        around = [(0, 0)] * image.ndim
        around[axis] = (radius + 1, radius)
        sums = np.cumsum(np.pad(image, around, mode="edge"), axis, dtype=np.float64)
        first, last = (
            np.split(sums, [-width], axis)[0],
            np.split(sums, [width], axis)[1],
        )
        image = ((last - first) / width).astype(np.float32)
    return image


def enlarged(values: Array, size: tuple[int, int]) -> Array:
    """Return a map resized to this height and width."""
    image = pg.asarray(values[None, ..., None])
    large = pg.image.resize_bilinear(image, size, half_pixel_centers=True)
    return large.numpy()[0, ..., 0]


def scaled(values: Array) -> Array:
    """Return a smoothed map from 0 to 1; the largest percent of its values are 1."""
    values = blurred(values, 1)
    return np.clip(values / max(float(np.quantile(values, 0.99)), 1e-12), 0, 1)


def over(image: Array, values: Array, title: str) -> Array:
    """Return a map in colours over the photograph, which is gray and dark."""
    from matplotlib import colormaps

    colours = colormaps["turbo" if title == "Grad-CAM" else "inferno"]
    weight = scaled(values)[..., None]
    gray = 0.45 * image.mean(-1, keepdims=True)
    return gray * (1 - weight) + colours(weight[..., 0])[..., :3] * weight


def draw(rows: Sequence[Row], path: Path, width: int = 1100) -> None:
    """Write a PNG of 256 colours with a row for each image: itself, then its maps."""
    from matplotlib.figure import Figure
    from PIL import Image

    titles = ["photograph", *MAPS]
    heights = [row.image.shape[0] / row.image.shape[1] for row in rows]
    across = width / 100 / len(titles)
    size = (width / 100, across * sum(heights) + 0.3)
    figure = Figure(figsize=size)
    figure.set_layout_engine("constrained", w_pad=0.01, h_pad=0.02, hspace=0, wspace=0)
    lines = figure.subplots(
        len(rows), len(titles), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    label = {"va": "top", "color": "white", "weight": "bold"}
    box = {"color": "black", "alpha": 0.5, "pad": 3, "lw": 0}
    for line, row in zip(lines, rows, strict=True):
        shown = [over(row.image, row.maps[title], title) for title in MAPS]
        for axis, pixels in zip(line, [row.image, *shown], strict=True):
            axis.imshow(pixels, interpolation="lanczos")
            axis.axis("off")
        line[0].text(8, 8, row.name, bbox=box, **label)
    for axis, title in zip(lines[0], titles, strict=True):
        axis.set_title(title, fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    with Image.open(path) as image:
        whole = image.convert("RGB")
    whole.quantize(palette=whole.quantize(256)).save(path, optimize=True)


# --- the network and the command line ----------------------------------------------


def trained(steps: int) -> Network:
    """Return the network of ``photographs.py``, trained on random crops."""
    began = time.perf_counter()
    params, accuracy = photographs.train(steps)
    seconds = time.perf_counter() - began
    print(f"{steps} steps in {seconds:.0f} s; {accuracy:.1%} of new crops are right")

    def score(image: pg.Tensor) -> pg.Tensor:  # without the background
        return photographs.logits_of(params, image[None])[0, 1:]

    return Network(score, tuple(photo.name for photo in photographs.PHOTOS), None)


def loaded(path: Path) -> Network:
    """Return a network of ONNX that takes images ``[n, 3, height, width]``.

    The pixels are standardized as networks for ImageNet take them.
    """
    from plugrad_onnx import load

    model = load(path)
    size = [n if isinstance(n, int) else 224 for n in (model.inputs[0].shape or ())[2:]]

    def score(image: pg.Tensor) -> pg.Tensor:
        x = pg.permute_dims(((image - MEAN) / STD)[None], (0, 3, 1, 2))
        y = model(x)
        return pg.reshape(y[0] if isinstance(y, tuple) else y, (-1,))

    return Network(score, (), (size[0], size[1]))


def look(network: Network, image: Array) -> Row:
    """Return the class with the largest score, and the maps of its score."""
    index = int(pg.argmax(network.scores(pg.asarray(image))).item())
    name = network.names[index] if network.names else f"class {index}"
    score = lambda image: network.scores(image)[index]
    return Row(name, image, {title: f(score, image) for title, f in MAPS.items()})


def difference(one: Array, other: Array) -> float:
    """Return the largest difference of two maps, of the largest value."""
    return float(np.abs(one - other).max() / max(np.abs(one).max(), 1e-12))


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Read the options, look and draw; return the rows of each backend."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=["cpu", "wasm", "opencl"])
    parser.add_argument("--steps", type=int, default=500, help="of training")
    parser.add_argument("--model", type=Path, help="a network of ONNX")
    parser.add_argument("--images", type=Path, nargs="+", help="your photographs")
    parser.add_argument("--out", type=Path, default=Path("out/look_inside.png"))
    options = parser.parse_args(arguments)
    files = options.images or [photo.file for photo in photographs.PHOTOS]
    with pg.use_backend(options.backends[0]):
        network = loaded(options.model) if options.model else trained(options.steps)
    images = [photographs.read(file, network.size) for file in files]
    found = {}
    for name in options.backends:
        with pg.use_backend(name):
            look(network, images[0])  # what a first call loads is not timed
            began = time.perf_counter()
            found[name] = [look(network, image) for image in images]
        print(f"{name}: {len(images)} images in {time.perf_counter() - began:.1f} s")
    first = found[options.backends[0]]
    for name in options.backends[1:]:
        pairs = list(zip(first, found[name], strict=True))
        worst = max(difference(a.maps[m], b.maps[m]) for a, b in pairs for m in MAPS)
        print(f"{name}: maps within {worst:.1e} of those of {options.backends[0]}")
    draw(first, options.out)
    print(f"picture: {options.out}")
    return found


if __name__ == "__main__":
    main()
