"""Classify an image with a vision transformer, from weights in a safetensors file.

The file uses the names under which ViT is published
(``vit.encoder.layer.0.attention.attention.query.weight``), and the image is an array of
numbers from -1 to 1, ``[height, width, 3]``::

    python -m examples.vit model.safetensors image.npy --backend wasm
"""

import argparse
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import plugrad as pg

Params = Mapping[str, pg.Tensor]
EPSILON = 1e-12


def load(path: Path) -> dict[str, pg.Tensor]:
    """Return the parameters by name.

    PyTorch stores dense layers as ``[outputs, inputs]``, and filters with channels
    first; this function transposes both.
    """
    params = pg.load(path)
    for name, x in params.items():
        if name.endswith("projection.weight"):
            params[name] = pg.asarray(pg.permute_dims(x, (2, 3, 1, 0)), copy=True)
        elif name.endswith("weight") and x.ndim == 2:
            params[name] = pg.asarray(x.mT, copy=True)
    return params


def dense(params: Params, name: str, x: pg.Tensor) -> pg.Tensor:
    """Apply a dense layer."""
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]


def norm(params: Params, name: str, x: pg.Tensor) -> pg.Tensor:
    """Apply a layer norm."""
    scale = params[f"{name}.weight"]
    offset = params[f"{name}.bias"]
    return pg.layer_norm(x, scale, offset, epsilon=EPSILON)


def embed(params: Params, images: pg.Tensor) -> pg.Tensor:
    """Return a vector for the class and one for each patch, ``[batch, n, width]``."""
    name = "vit.embeddings.patch_embeddings.projection"
    filters = params[f"{name}.weight"]
    x = pg.conv2d(images, filters, strides=filters.shape[:2]) + params[f"{name}.bias"]
    batch, rows, columns, width = x.shape
    patches = pg.reshape(x, (batch, rows * columns, width))
    first = pg.broadcast_to(params["vit.embeddings.cls_token"], (batch, 1, width))
    positions = params["vit.embeddings.position_embeddings"]
    return pg.concat([first, patches], axis=1) + positions


def attention(params: Params, name: str, x: pg.Tensor, heads: int) -> pg.Tensor:
    """Return the self-attention: at each position, a weighted mean of all values."""
    batch, length, width = x.shape
    shape = (batch, length, heads, width // heads)
    q, k, v = (
        pg.permute_dims(
            pg.reshape(dense(params, f"{name}.attention.{part}", x), shape),
            (0, 2, 1, 3),
        )
        for part in ("query", "key", "value")
    )
    y = pg.permute_dims(pg.scaled_dot_product_attention(q, k, v), (0, 2, 1, 3))
    return dense(params, f"{name}.output.dense", pg.reshape(y, x.shape))


def logits_of(params: Params, images: pg.Tensor, heads: int) -> pg.Tensor:
    """Return the logits ``[batch, classes]`` of a batch of images."""
    x = embed(params, images)
    count = sum(name.endswith("layernorm_before.weight") for name in params)
    for i in range(count):
        name = f"vit.encoder.layer.{i}"
        y = norm(params, f"{name}.layernorm_before", x)
        x = x + attention(params, f"{name}.attention", y, heads)
        y = norm(params, f"{name}.layernorm_after", x)
        y = pg.gelu(dense(params, f"{name}.intermediate.dense", y))
        x = x + dense(params, f"{name}.output.dense", y)
    return dense(params, "classifier", norm(params, "vit.layernorm", x)[:, 0])


def main(arguments: list[str] | None = None) -> None:
    """Read the options, load the weights, and print the likeliest classes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=Path)
    parser.add_argument("image", type=Path, help="a .npy file")
    parser.add_argument("--head-size", type=int, default=64, help="64 in ViT-B and -L")
    parser.add_argument("--backend", default=pg.get_backend())
    given = parser.parse_args(arguments)
    with pg.use_backend(given.backend):
        params = load(given.weights)
        heads = params["vit.embeddings.cls_token"].shape[-1] // given.head_size
        image = pg.asarray(np.load(given.image).astype(np.float32)[None])
        predict = pg.jit(lambda image: pg.softmax(logits_of(params, image, heads)))
        predict(image)  # records
        start = time.perf_counter()
        found = predict(image)[0].numpy()
        seconds = time.perf_counter() - start
    for label in np.argsort(-found)[:5]:
        print(f"class {label}: {found[label]:.3f}")
    print(f"{1e3 * seconds:.1f} ms, {given.backend}")


if __name__ == "__main__":
    main()
