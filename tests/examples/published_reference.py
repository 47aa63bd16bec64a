"""Write ``published.json``: PyTorch's results for the models in ``published``.

Run ``python -m tests.examples.published_reference`` in an environment with torch.
"""

import json
from pathlib import Path

import torch
from torch.nn import functional as F

from tests.examples.published import (
    CODES,
    GPT2,
    HEADS,
    LAYERS,
    PATCH,
    VIT,
    WIDTH,
    draw,
    image,
)


def tensors(shapes):
    return {name: torch.tensor(x) for name, x in draw(shapes).items()}


def norm(p, name, x, eps):
    return F.layer_norm(x, (WIDTH,), p[f"{name}.weight"], p[f"{name}.bias"], eps)


def gpt2(codes):
    """Return the logits of each position; attention is written out."""
    p = tensors(GPT2)
    n = len(codes)
    x = p["wte.weight"][torch.tensor(codes)] + p["wpe.weight"][:n]
    mask = torch.full((n, n), float("-inf")).triu(1)
    for i in range(LAYERS):
        h = norm(p, f"h.{i}.ln_1", x, 1e-5)
        qkv = h @ p[f"h.{i}.attn.c_attn.weight"] + p[f"h.{i}.attn.c_attn.bias"]
        q, k, v = qkv.reshape(n, 3, HEADS, WIDTH // HEADS).permute(1, 2, 0, 3)
        scores = q @ k.transpose(1, 2) / (WIDTH // HEADS) ** 0.5 + mask
        y = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, WIDTH)
        x = x + y @ p[f"h.{i}.attn.c_proj.weight"] + p[f"h.{i}.attn.c_proj.bias"]
        h = norm(p, f"h.{i}.ln_2", x, 1e-5)
        h = h @ p[f"h.{i}.mlp.c_fc.weight"] + p[f"h.{i}.mlp.c_fc.bias"]
        h = F.gelu(h, approximate="tanh")
        x = x + h @ p[f"h.{i}.mlp.c_proj.weight"] + p[f"h.{i}.mlp.c_proj.bias"]
    return norm(p, "ln_f", x, 1e-5) @ p["wte.weight"].T


def vit():
    """Return the logits, computed by PyTorch's encoder layers."""
    p = tensors(VIT)
    name = "vit.embeddings.patch_embeddings.projection"
    pixels = torch.tensor(image()).permute(0, 3, 1, 2)
    x = F.conv2d(pixels, p[f"{name}.weight"], p[f"{name}.bias"], stride=PATCH)
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([p["vit.embeddings.cls_token"], x], 1)
    x = x + p["vit.embeddings.position_embeddings"]
    for i in range(LAYERS):
        weights = {
            key.removeprefix(f"vit.encoder.layer.{i}."): value
            for key, value in p.items()
        }
        layer = torch.nn.TransformerEncoderLayer(
            WIDTH,
            HEADS,
            4 * WIDTH,
            dropout=0.0,
            activation="gelu",
            layer_norm_eps=1e-12,
            batch_first=True,
            norm_first=True,
        )
        inner = "attention.attention"
        state = {
            f"self_attn.in_proj_{kind}": torch.cat(
                [weights[f"{inner}.{x}.{kind}"] for x in ("query", "key", "value")]
            )
            for kind in ("weight", "bias")
        }
        names = {"self_attn.out_proj": "attention.output.dense"}
        names |= {"linear1": "intermediate.dense", "linear2": "output.dense"}
        names |= {"norm1": "layernorm_before", "norm2": "layernorm_after"}
        for ours, theirs in names.items():
            for kind in ("weight", "bias"):
                state[f"{ours}.{kind}"] = weights[f"{theirs}.{kind}"]
        layer.load_state_dict(state)
        x = layer.eval()(x)
    x = norm(p, "vit.layernorm", x, 1e-12)[:, 0]
    return x @ p["classifier.weight"].T + p["classifier.bias"]


def greedy(codes, count):
    """Return the next ``count`` tokens, each found by a run on the whole text."""
    for _ in range(count):
        codes = [*codes, int(gpt2(codes)[-1].argmax())]
    return codes[-count:]


if __name__ == "__main__":
    with torch.no_grad():
        found = {
            "torch": torch.__version__,
            "gpt2": gpt2(CODES).tolist(),
            "following": greedy(CODES, 5),
            "vit": vit().tolist(),
        }
    path = Path(__file__).with_name("published.json")
    path.write_text(json.dumps(found, indent=0) + "\n")
