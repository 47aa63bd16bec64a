"""Explain where a network hears a voice, and test the explanations.

The sounds of a short recording are known, so the maps can be compared with them::

    pip install --group demo --group gallery ./core ./plugins/cpu ./plugins/onnx
    pip install ./plugins/attribution ./plugins/train
    pip install --no-deps silero-vad f5-tts
    python -m examples.gallery.voice
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

from examples import voices
from examples.voices import LENGTH, PATCH, RATE, STEP, Network, Scene

Array = np.ndarray[Any, np.dtype[Any]]
REMOVED = np.linspace(0, 1, 11)  # shares of the patches


class Row(NamedTuple):
    """A method's map, the share of it that is on the voice, and a deletion curve."""

    values: Array
    on_voice: float
    curve: Array


# --- explanations ----------------------------------------------------------------


def score_of(network: Network, cells: Array) -> Callable[[pg.Tensor], pg.Tensor]:
    """Return a function of masks of the cells: the mean probability of a voice."""

    def score(masks: pg.Tensor) -> pg.Tensor:
        kept = pg.asarray(cells) * pg.astype(masks[0], "complex64")
        padded = pg.pad(kept, [(0, 0), (0, LENGTH // 2 + 1 - kept.shape[1])])
        sound = pg.signal.istft(padded, LENGTH, STEP)[LENGTH:]
        return pg.reshape(pg.mean(network(voices.chunked(sound))), (1,))

    return score


def methods(score: Any, cells: Array) -> dict[str, Callable[[], Any]]:
    """Return functions that give each cell a value, and two that ask no network."""
    ones = pg.ones((1, *cells.shape))
    silence = pg.zeros_like(ones)
    random = np.random.default_rng(2)
    return {
        "gradient": lambda: pg.grad(lambda mask: score(mask)[0])(ones),
        "guided_backprop": lambda: attr.guided_backprop(score, ones).input,
        "integrated_gradients": lambda: (
            attr.integrated_gradients(score, ones, silence).input
        ),
        "deep_lift": lambda: attr.deep_lift(score, ones, silence).input,
        "EpsilonPlus": lambda: attr.attribute(score, ones, attr.EpsilonPlus()).input,
        "loudness": lambda: np.abs(cells[None]),
        "random order": lambda: random.random((1, *cells.shape)),
    }


def patches_of(values: Array) -> Array:
    """Return the sums over patches of cells."""
    rows, columns = (size // PATCH for size in values.shape)
    return values.reshape(rows, PATCH, columns, PATCH).sum((1, 3))


def enlarged(patches: Array) -> Array:
    """Return an array of cells, given one of patches."""
    return patches.repeat(PATCH, 0).repeat(PATCH, 1)


def deletion(score: Any, values: Array) -> Array:
    """Return the score while patches become silent, the most relevant ones first."""
    patches = patches_of(values)
    ranks = np.argsort(np.argsort(-patches.ravel())).reshape(patches.shape)
    masks = [enlarged(ranks >= share * ranks.size) for share in REMOVED]
    floats = np.asarray(masks, np.float32)[:, None]
    return np.asarray([score(pg.asarray(mask)).item() for mask in floats])


def explain(network: Network, scene: Scene) -> dict[str, Row]:
    """Return a row for each method."""
    score = score_of(network, scene.cells)
    rows = {}
    for name, method in methods(score, scene.cells).items():
        values = np.asarray(method())[0]
        positive = np.maximum(values, 0)
        on_voice = positive[scene.is_voice].sum() / positive.sum()
        rows[name] = Row(values, on_voice, deletion(score, values))
    return rows


# --- the picture -----------------------------------------------------------------


def draw(scene: Scene, rows: dict[str, Row], path: Path) -> None:
    """Write a PNG of the spectrogram, the maps and the deletion curves."""
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(13, 8.5), layout="constrained")
    top, bottom = figure.subfigures(2, height_ratios=[3, 1.4])
    axes = top.subplots(3, 2, sharex=True, sharey=True).ravel()
    seconds, kilohertz = np.array(scene.cells.shape) * (STEP, RATE / LENGTH / 1000)
    options = {"origin": "lower", "aspect": "auto", "interpolation": "nearest"}
    options["extent"] = (0, seconds / RATE, 0, kilohertz)
    level = 20 * np.log10(np.abs(scene.cells) + 1e-3)
    axes[0].imshow(level.T, cmap="gray", vmin=-40, **options)
    axes[0].set_title("voice, noise and beeps: level in dB")
    axes[1].imshow(scene.is_voice.T, cmap="gray", **options)
    axes[1].set_title("white: the voice is the loudest")
    shown = ("gradient", "integrated_gradients", "deep_lift", "EpsilonPlus")
    for axis, name in zip(axes[2:], shown, strict=True):
        sums = patches_of(rows[name].values)
        limit = float(np.quantile(np.abs(sums), 0.995)) or 1.0
        axis.imshow(sums.T, cmap="RdBu_r", vmin=-limit, vmax=limit, **options)
        axis.set_title(name)
    axes[4].set(xlabel="seconds", ylabel="kHz")
    axis = bottom.subplots()
    for name, row in rows.items():
        style = ":" if name in ("loudness", "random order") else "-"
        axis.plot(100 * REMOVED, row.curve, label=name, ls=style)
    axis.set(xlabel="silent patches in percent", ylabel="probability of a voice")
    bottom.legend(loc="outside right upper")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=72)
    rgb = Image.open(path).convert("RGB")
    rgb.quantize(palette=rgb.quantize(256)).save(path, optimize=True)


def main(arguments: list[str] | None = None) -> dict[str, Row]:
    """Read the options, explain, print and draw; return a row for each method."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=int, default=0, help="steps of a small network")
    parser.add_argument("--out", type=Path, default=Path("out/voice.png"))
    options = parser.parse_args(arguments)
    network, scene = voices.load(options.train)
    rows = explain(network, scene)
    print(
        f"{'the voice is the loudest in':30} {scene.is_voice.mean():6.1%} of the cells"
    )
    print(f"{'':22} relevance on the voice   area below the curve")
    for name, row in rows.items():
        area = float(np.trapezoid(row.curve, REMOVED))
        print(f"{name:22} {row.on_voice:22.1%} {area:22.2f}")
    print(f"{time.process_time():.0f} seconds of processor time")
    draw(scene, rows, options.out)
    return rows


if __name__ == "__main__":
    main()
