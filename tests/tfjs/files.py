"""Write model files, with the same weights and inputs that ``peer.mjs`` computes."""

import json

import numpy as np

from tests.tfjs.peer import recorded


def numbers(shape, start):
    """Return numbers that depend only on their index and on ``start``."""
    count = int(np.prod(shape))
    return np.sin(0.7 * np.arange(count) + start).astype(np.float32).reshape(shape)


def weight(name, shape, i):
    """Return weight number ``i`` of a model."""
    values = numbers(shape, i)
    return values**2 + np.float32(0.5) if name.endswith("variance") else values / 2


def inputs_of(model):
    """Return an array for each input of a model."""
    found = []
    for info in model.inputs:
        shape = [2 if n is None else n for n in info.shape]
        values = numbers(shape, 0.5)
        if info.dtype == "int32":
            values = (np.arange(values.size) * 3 + 1) % 5
            values = values.astype(np.int32).reshape(shape)
        found.append(values)
    return found


def write(folder, topology, arrays, shards=1, quantized=None, **fields):
    """Write a model.json and its weights in ``shards`` files; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    specs, parts = [], []
    for name, x in arrays.items():
        spec = {"name": name, "shape": [*x.shape], "dtype": str(x.dtype)}
        if quantized and x.dtype == np.float32:
            rule, x = quantize(x, quantized)
            spec["quantization"] = rule
        specs.append(spec)
        parts.append(x.tobytes())
    data = b"".join(parts)
    size = -(-len(data) // shards)
    paths = [f"group1-shard{i + 1}of{shards}.bin" for i in range(shards)]
    for i, path in enumerate(paths):
        (folder / path).write_bytes(data[i * size : (i + 1) * size])
    manifest = [{"paths": paths, "weights": specs}]
    model = {"modelTopology": topology, "weightsManifest": manifest, **fields}
    (folder / "model.json").write_text(json.dumps(model))
    return folder / "model.json"


def quantize(x, dtype):
    """Return how a weight is quantized, and its values in ``dtype``."""
    if dtype == "float16":
        return {"dtype": dtype}, x.astype(np.float16)
    low = float(x.min())
    high = float(x.max())
    scale = (high - low) / np.iinfo(dtype).max or 1.0
    values = np.round((x - low) / scale).astype(dtype)
    return {"dtype": dtype, "min": low, "scale": scale}, values


def layers_model(folder, name, start=0, **options):
    """Write one of the recorded models."""
    (case,) = (row for row in recorded()["layers"] if row["name"] == name)
    specs = enumerate(case["weights"], start)
    arrays = {s["name"]: weight(s["name"], s["shape"], i) for i, s in specs}
    return write(folder / name, case["topology"], arrays, **options), case["answers"]
