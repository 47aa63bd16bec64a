"""Tiny GGUF files with random weights, and a vocabulary of bytes."""

from dataclasses import dataclass

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

SIZES = {
    "layers": 2,
    "width": 64,
    "hidden": 96,
    "heads": 4,
    "kv_heads": 2,
    "head_size": 16,
    "rope_size": 16,
    "context": 64,
    "epsilon": 1e-5,
    "base": 10000.0,
    "neighbours": True,
}
BIASED = ("attn_q", "attn_k", "attn_v")


@dataclass
class Tiny:
    """A file, the sizes of its model, and the weights that a reader must find in it."""

    path: object
    sizes: dict
    arrays: dict


def shapes(sizes, tied, biased):
    """Return the shape of each tensor by name."""
    width, hidden = sizes["width"], sizes["hidden"]
    q, kv = (sizes[n] * sizes["head_size"] for n in ("heads", "kv_heads"))
    found = {"token_embd.weight": (sizes["tokens"], width), "output_norm.weight": width}
    if not tied:
        found["output.weight"] = (sizes["tokens"], width)
    for i in range(sizes["layers"]):
        parts = {
            "attn_norm": width,
            "ffn_norm": width,
            "attn_q": (q, width),
            "attn_k": (kv, width),
            "attn_v": (kv, width),
            "attn_output": (width, q),
            "ffn_gate": (hidden, width),
            "ffn_up": (hidden, width),
            "ffn_down": (width, hidden),
        }
        found |= {f"blk.{i}.{name}.weight": shape for name, shape in parts.items()}
        found |= {f"blk.{i}.{name}.bias": parts[name][0] for name in biased}
    return found


def random_arrays(sizes, tied=True, biased=(), seed=0):
    """Return random weights with which each part of the model affects the result."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes(sizes, tied, biased).items():
        values = rng.normal(size=shape)
        if name.endswith("norm.weight"):
            values = 1 + 0.3 * values
        elif "blk" in name and np.ndim(values) == 2:
            values *= 1.5 / np.sqrt(np.shape(values)[1])
        found[name] = np.float32(values)
    return found


def add_settings(writer, architecture, sizes, without=()):
    rows = {
        "block_count": sizes["layers"],
        "embedding_length": sizes["width"],
        "feed_forward_length": sizes["hidden"],
        "attention.head_count": sizes["heads"],
        "attention.head_count_kv": sizes["kv_heads"],
        "attention.key_length": sizes["head_size"],
        "context_length": sizes["context"],
        "rope.dimension_count": sizes["rope_size"],
    }
    for key, value in rows.items():
        if key not in without:
            writer.add_uint32(f"{architecture}.{key}", value)
    writer.add_float32(
        f"{architecture}.attention.layer_norm_rms_epsilon", sizes["epsilon"]
    )
    writer.add_float32(f"{architecture}.rope.freq_base", sizes["base"])


def tiny(
    folder,
    *,
    architecture="llama",
    tied=True,
    biased=(),
    kind=Kind.F32,
    vocabulary=None,
    arrays=None,
    extra=(),
    without=(),
    seed=0,
    name="tiny.gguf",
    **changed,
):
    """Write a file and return it as a ``Tiny``.

    ``vocabulary`` is a function that adds a tokenizer to a writer; ``extra`` contains
    additional metadata; ``without`` names the keys to leave out; ``changed`` replaces
    sizes of the model.
    """
    sizes = {**SIZES, "tokens": 300, "neighbours": architecture == "llama", **changed}
    path = folder / name
    writer = gguf.GGUFWriter(path, architecture)
    add_settings(writer, architecture, sizes, without)
    if vocabulary is not None:
        vocabulary(writer)
    for key, value in dict(extra).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, str: writer.add_string}
        add |= {float: writer.add_float32, list: writer.add_array}
        add[type(value)](key, value)
    found = {}
    source = random_arrays(sizes, tied, biased, seed)
    for key, values in {**source, **(arrays or {})}.items():
        stored = kind if values.ndim == 2 else Kind.F32
        data = gguf.quantize(values, stored)
        writer.add_tensor(key, data, raw_dtype=stored)
        found[key] = gguf.dequantize(data.view(np.uint8), stored).reshape(values.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Tiny(path, sizes, found)
