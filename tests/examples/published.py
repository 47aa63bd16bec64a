"""Small GPT-2 and ViT models: tensors with the published names and fixed values."""

import numpy as np

LAYERS = 2
HEADS = 2
WIDTH = 16
TOKENS = 11
CONTEXT = 12
CODES = [3, 1, 4, 1, 5, 9, 2]
PATCH = 4
IMAGE = 8
CLASSES = 5

GPT2 = {"wte.weight": (TOKENS, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
NORM = {"weight": (WIDTH,), "bias": (WIDTH,)}
VIT = {
    "vit.embeddings.cls_token": (1, 1, WIDTH),
    "vit.embeddings.position_embeddings": (1, (IMAGE // PATCH) ** 2 + 1, WIDTH),
    "vit.embeddings.patch_embeddings.projection.weight": (WIDTH, 3, PATCH, PATCH),
    "vit.embeddings.patch_embeddings.projection.bias": (WIDTH,),
}
GPT2_LAYER = {"attn.c_attn": (1, 3), "attn.c_proj": (1, 1), "mlp.c_fc": (1, 4)}
GPT2_LAYER |= {"mlp.c_proj": (4, 1)}
VIT_LAYER = {
    f"attention.attention.{part}": (1, 1) for part in ("query", "key", "value")
}
VIT_LAYER |= {"attention.output.dense": (1, 1), "intermediate.dense": (1, 4)}
VIT_LAYER |= {"output.dense": (4, 1)}
for i in range(LAYERS):
    for name, (rows, columns) in GPT2_LAYER.items():
        GPT2[f"h.{i}.{name}.weight"] = (rows * WIDTH, columns * WIDTH)
        GPT2[f"h.{i}.{name}.bias"] = (columns * WIDTH,)
    for name, (rows, columns) in VIT_LAYER.items():
        VIT[f"vit.encoder.layer.{i}.{name}.weight"] = (columns * WIDTH, rows * WIDTH)
        VIT[f"vit.encoder.layer.{i}.{name}.bias"] = (columns * WIDTH,)
    GPT2 |= {f"h.{i}.{n}.{k}": x for n in ("ln_1", "ln_2") for k, x in NORM.items()}
    norms = ("layernorm_before", "layernorm_after")
    VIT |= {f"vit.encoder.layer.{i}.{n}.{k}": x for n in norms for k, x in NORM.items()}
GPT2 |= {f"ln_f.{key}": shape for key, shape in NORM.items()}
VIT |= {f"vit.layernorm.{key}": shape for key, shape in NORM.items()}
VIT |= {"classifier.weight": (CLASSES, WIDTH), "classifier.bias": (CLASSES,)}


def draw(shapes):
    """Return the same random tensors in each call; the weights of norms are about 1."""
    rng = np.random.Generator(np.random.Philox(1))
    found = {}
    for name, shape in shapes.items():
        x = 0.3 * rng.standard_normal(shape)
        is_norm = name.endswith("weight") and len(shape) == 1
        found[name] = (x + is_norm).astype(np.float32)
    return found


def image():
    """Return a batch of one image, ``[1, rows, columns, 3]``."""
    rng = np.random.Generator(np.random.Philox(8))
    return rng.uniform(-1, 1, (1, IMAGE, IMAGE, 3)).astype(np.float32)
