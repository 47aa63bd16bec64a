"""Draw seven explanations of an image network, and test how they rank pixels.

The score of the class falls sooner if the patches removed first are relevant::

    pip install --group demo --group gallery ./core ./plugins/cpu ./plugins/train
    pip install ./plugins/attribution
    python -m examples.gallery.relevance
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad_attribution as attr

from examples import efficientnet, look_inside, photographs

Array = np.ndarray[Any, np.dtype[Any]]
PATCH = 8  # height and width of a removed patch, in pixels
REMOVED = np.linspace(0, 1, 11)  # shares of the patches
FLAT, BOX = attr.EpsilonPlusFlat(), attr.EpsilonGammaBox(-1.0, 1.0)


class Model(NamedTuple):
    """A network for standardized images; ``at`` is its last convolution's scope."""

    logits: Callable[..., pg.Tensor]
    standardized: Callable[..., Any]
    at: str
    names: tuple[str, ...]


class Row(NamedTuple):
    """An image and its class, and the map and the deletion curve of each method."""

    name: str
    image: Array
    maps: dict[str, Array]
    curves: dict[str, Array]


def load_model(steps: int) -> Model:
    """Return EfficientNet-Lite0, or a small network that is trained here."""
    path = efficientnet.packaged(efficientnet.PACKAGE, efficientnet.WEIGHTS)
    if path and not steps:
        params, names = efficientnet.load(path), efficientnet.class_names()
        f = lambda x: efficientnet.logits_of_standardized(params, x)
        return Model(f, efficientnet.standardized, "head", names)
    print(f"a small network is trained instead of {efficientnet.PACKAGE}")
    small, _ = photographs.train(steps or 500)
    f = lambda x: photographs.logits_of_standardized(small, x)[:, 1:]  # no background
    return Model(f, lambda image: image - 0.5, "conv3", photographs.CLASSES[1:])


def methods(model: Model, x: pg.Tensor, x0: pg.Tensor, k: int) -> dict[str, Any]:
    """Return functions that explain the score ``k`` of ``x``; ``x0`` is a baseline."""
    f = model.logits
    cam = lambda: attr.grad_cam(f, x, k, at=model.at).numpy()[0]
    return {
        "gradient": lambda: pg.abs(pg.grad(lambda x: f(x)[0, k])(x)),
        "guided_backprop": lambda: pg.abs(attr.guided_backprop(f, x, k).input),
        "EpsilonPlusFlat": lambda: attr.attribute(f, x, FLAT, k).input,
        "EpsilonGammaBox": lambda: attr.attribute(f, x, BOX, k).input,
        "integrated_gradients": lambda: attr.integrated_gradients(f, x, x0, k).input,
        "deep_lift": lambda: attr.deep_lift(f, x, x0, k).input,
        "grad_cam": lambda: look_inside.enlarged(cam(), x.shape[1:3])[None, ..., None],
    }


def deletion(f: Callable[..., Any], xs: Array, k: int, values: Array) -> Array:
    """Return the score, scaled from 1 to 0, while the baseline replaces patches."""
    rows, columns = (size // PATCH for size in values.shape)
    patches = values.reshape(rows, PATCH, columns, PATCH).sum((1, 3))
    ranks = np.argsort(np.argsort(-patches.ravel()))
    is_removed = (ranks < REMOVED[:, None] * ranks.size).reshape(-1, rows, columns)
    mask = is_removed.repeat(PATCH, 1).repeat(PATCH, 2)[..., None]
    scores = f(pg.asarray(np.where(mask, xs[1], xs[0])))[:, k].numpy()
    return (scores - scores[-1]) / (scores[0] - scores[-1])


def explain(model: Model, image: Array) -> Row:
    """Explain the class with the largest score, and test each explanation."""
    xs = model.standardized(np.stack([image, look_inside.blurred(image)]))
    k = int(pg.argmax(model.logits(pg.asarray(xs[:1]))[0]).item())
    row = Row(model.names[k] if model.names else f"class {k}", image, {}, {})
    for name, method in methods(model, *map(pg.asarray, (xs[:1], xs[1:])), k).items():
        row.maps[name] = np.asarray(method())[0].sum(-1)
        row.curves[name] = deletion(model.logits, xs, k, row.maps[name])
    random = np.random.default_rng(k).random(image.shape[:2])
    row.curves["random order"] = deletion(model.logits, xs, k, random)
    return row


def draw(rows: list[Row], path: Path) -> None:
    """Write a PNG of the maps, and of the deletion curves below."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(14, 1.3 * len(rows) + 3.5), layout="constrained")
    top, bottom = figure.subfigures(2, height_ratios=[1.3 * len(rows), 3.5])
    for axes, row in zip(top.subplots(len(rows), 8), rows, strict=True):
        gray = 0.4 + 0.6 * row.image.mean(-1, keepdims=True)
        axes[0].imshow(row.image)
        for axis, values in zip(axes[1:], row.maps.values(), strict=True):
            scaled = np.clip(values / (np.quantile(np.abs(values), 0.99) or 1), -1, 1)
            colors = colormaps["RdBu_r"](0.5 + scaled / 2)[..., :3]
            axis.imshow(gray + (colors - gray) * np.abs(scaled)[..., None] ** 0.7)
        for axis, name in zip(axes, [row.name, *row.maps], strict=True):
            axis.set_title(name, fontsize=8)
            axis.axis("off")
    axis = bottom.subplots()
    for name in rows[0].curves:
        mean = np.mean([row.curves[name] for row in rows], axis=0)
        axis.plot(100 * REMOVED, mean, label=name, ls="-" if name in row.maps else ":")
    axis.set(xlabel="removed patches in percent", ylabel="score of the class")
    axis.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=95)
    rgb = Image.open(path).convert("RGB")
    rgb.quantize(palette=rgb.quantize(256)).save(path, optimize=True)


def main(arguments: list[str] | None = None) -> list[Row]:
    """Read the options, explain, print and draw; return a row for each photograph."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=int, default=0, help="steps of a small network")
    parser.add_argument("--out", type=Path, default=Path("out/relevance.png"))
    options = parser.parse_args(arguments)
    model = load_model(options.train)
    size, photos = efficientnet.SIZE, photographs.PHOTOS
    rows = [explain(model, photographs.read(p.file, None, size)) for p in photos]
    print(f"{'area below the curve':22}", *(f"{row.name:>12}" for row in rows), "mean")
    for name in rows[0].curves:
        areas = [float(np.trapezoid(row.curves[name], REMOVED)) for row in rows]
        print(f"{name:22}", *(f"{a:12.2f}" for a in areas), f"{np.mean(areas):.2f}")
    print(f"{time.process_time():.0f} seconds of processor time")
    draw(rows, options.out)
    return rows


if __name__ == "__main__":
    main()
