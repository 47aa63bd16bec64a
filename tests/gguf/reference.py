"""Llama-like models in NumPy, written independently of plugrad-gguf.

Everything is float64. The rotary embedding multiplies complex numbers; attention loops
over heads and positions.
"""

import numpy as np


def rms(x, scale, epsilon):
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + epsilon) * scale


def rotate(x, positions, base, size, neighbours, factors, magnitude=1.0):
    """Rotate the first ``size`` elements of a head, ``[positions, head]``."""
    pairs = size // 2
    first = x[:, 0:size:2] if neighbours else x[:, :pairs]
    second = x[:, 1:size:2] if neighbours else x[:, pairs:size]
    speed = np.exp(-np.log(base) * 2 * np.arange(pairs) / size) / factors
    turned = (first + 1j * second) * np.exp(1j * np.outer(positions, speed))
    turned *= magnitude
    y = x.copy()
    if neighbours:
        y[:, 0:size:2], y[:, 1:size:2] = turned.real, turned.imag
    else:
        y[:, :pairs], y[:, pairs:size] = turned.real, turned.imag
    return y


def attention(q, k, v):
    """Attend causally within one head."""
    rows = []
    for i, query in enumerate(q):
        scores = k[: i + 1] @ query / np.sqrt(len(query))
        chances = np.exp(scores - scores.max())
        rows.append(chances @ v[: i + 1] / chances.sum())
    return np.array(rows)


def logits(model, tokens=None, x=None, steering=None):
    """Return the logits of a ``Tiny``, for tokens or for their embeddings."""
    w = {name: np.float64(value) for name, value in model.arrays.items()}
    c = model.sizes
    x = w["token_embd.weight"][tokens] if x is None else np.float64(x)
    positions = np.arange(len(x))
    factors = w.get("rope_freqs.weight", 1.0)
    head = c["head_size"]
    rope = lambda y: rotate(
        y,
        positions,
        c["base"],
        c["rope_size"],
        c["neighbours"],
        c.get("factors", factors),
        c.get("magnitude", 1.0),
    )
    for i in range(c["layers"]):
        dense = lambda name, y, i=i: (
            y @ w[f"blk.{i}.{name}.weight"].T + w.get(f"blk.{i}.{name}.bias", 0.0)
        )
        h = rms(x, w[f"blk.{i}.attn_norm.weight"], c["epsilon"])
        q, k, v = (dense(name, h) for name in ("attn_q", "attn_k", "attn_v"))
        found = []
        for j in range(c["heads"]):
            cut = slice(j * head, (j + 1) * head)
            shared = j // (c["heads"] // c["kv_heads"])
            kv = slice(shared * head, (shared + 1) * head)
            found.append(attention(rope(q[:, cut]), rope(k[:, kv]), v[:, kv]))
        x = x + dense("attn_output", np.concatenate(found, -1))
        h = rms(x, w[f"blk.{i}.ffn_norm.weight"], c["epsilon"])
        gate = dense("ffn_gate", h)
        x = x + dense("ffn_down", gate / (1 + np.exp(-gate)) * dense("ffn_up", h))
        if steering and i in steering:
            x = x + steering[i]
    x = rms(x, w["output_norm.weight"], c["epsilon"])
    return x @ w.get("output.weight", w["token_embd.weight"]).T
