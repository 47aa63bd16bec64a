"""Write random weights with the names and shapes of GPT-2 or ViT-B/16.

With these files, you can time ``gpt2.py`` and ``vit.py`` and see which file format they
read. The answers are meaningless::

    python -m examples.random_weights gpt2 gpt2.safetensors
    python -m examples.random_weights vit vit.safetensors
"""

import argparse
from pathlib import Path

import numpy as np
import plugrad as pg

Shapes = dict[str, tuple[int, ...]]


def gpt2(layers: int = 12, width: int = 768, context: int = 1024) -> Shapes:
    """Return the shapes of GPT-2; by default those of the smallest model."""
    shapes: Shapes = {"wte.weight": (50257, width), "wpe.weight": (context, width)}
    dense = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1)}
    dense |= {"mlp.c_fc": (1, 4), "mlp.c_proj": (4, 1)}
    norms = ["ln_f"]
    for i in range(layers):
        norms += [f"h.{i}.ln_1", f"h.{i}.ln_2"]
        for name, (rows, columns) in dense.items():
            shapes[f"h.{i}.{name}.weight"] = rows * width, columns * width
            shapes[f"h.{i}.{name}.bias"] = (columns * width,)
    return shapes | norm_shapes(norms, width)


def vit(layers: int = 12, width: int = 768, image: int = 224, size: int = 16) -> Shapes:
    """Return the shapes of ViT with 1,000 classes; by default those of ViT-B/16."""
    prefix = "vit.embeddings"
    shapes: Shapes = {
        f"{prefix}.cls_token": (1, 1, width),
        f"{prefix}.position_embeddings": (1, (image // size) ** 2 + 1, width),
        f"{prefix}.patch_embeddings.projection.weight": (width, 3, size, size),
        f"{prefix}.patch_embeddings.projection.bias": (width,),
        "classifier.weight": (1000, width),
        "classifier.bias": (1000,),
    }
    dense = {f"attention.attention.{x}": (1, 1) for x in ("query", "key", "value")}
    dense |= {"attention.output.dense": (1, 1), "intermediate.dense": (4, 1)}
    dense |= {"output.dense": (1, 4)}
    norms = ["vit.layernorm"]
    for i in range(layers):
        layer = f"vit.encoder.layer.{i}"
        norms += [f"{layer}.layernorm_before", f"{layer}.layernorm_after"]
        for name, (outputs, inputs) in dense.items():
            shapes[f"{layer}.{name}.weight"] = outputs * width, inputs * width
            shapes[f"{layer}.{name}.bias"] = (outputs * width,)
    return shapes | norm_shapes(norms, width)


def norm_shapes(norms: list[str], width: int) -> Shapes:
    """Return the shapes of the scales and offsets of layer norms."""
    return {f"{norm}.{end}": (width,) for norm in norms for end in ("weight", "bias")}


def write(shapes: Shapes, path: Path) -> None:
    """Write random numbers of standard deviation 0.02, and ones as scales of norms."""
    rng = np.random.default_rng(0)
    tensors = {}
    for name, shape in shapes.items():
        scale = len(shape) == 1 and name.endswith("weight")
        values = np.ones(shape) if scale else 0.02 * rng.standard_normal(shape)
        tensors[name] = pg.asarray(values.astype(np.float32))
    pg.save(path, tensors)


def main(arguments: list[str] | None = None) -> None:
    """Read the options and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", choices=("gpt2", "vit"))
    parser.add_argument("out", type=Path)
    given = parser.parse_args(arguments)
    shapes = gpt2() if given.model == "gpt2" else vit()
    write(shapes, given.out)
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    print(f"{given.out}: {len(shapes)} tensors, {count:,} random numbers")


if __name__ == "__main__":
    main()
