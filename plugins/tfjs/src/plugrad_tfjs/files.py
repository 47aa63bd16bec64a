"""Reads and writes the files of a model: ``model.json`` and the shards of its weights.

Memory for the weights is allocated only after the sizes of their files have been
checked against the manifest.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import plugrad as pg
from plugrad.importing import ModelError

__all__ = ["Array", "read", "size_of", "write"]

Array = np.ndarray[Any, Any]
DTYPES = {"float32": "<f4", "int32": "<i4", "bool": "|u1", "complex64": "<c8"}
QUANTIZED = {"uint8": "|u1", "uint16": "<u2", "float16": "<f2"}


def read(path: Path, budget: pg.Budget) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the content of a ``model.json`` and the weights by name."""
    try:
        model = budget.json(budget.read(path))
    except pg.BudgetError:
        raise
    except ValueError as error:
        raise ModelError([f"{path.name} is not JSON: {error}"]) from None
    if not isinstance(model, dict):
        raise ModelError([f"{path.name} is not a JSON object"])
    manifest = model.get("weightsManifest")
    if not isinstance(manifest, list):
        raise ModelError(
            [f"{path.name} has no weightsManifest; save the model with its weights"]
        )
    problems: list[str] = []
    seen: set[Path] = set()
    weights: dict[str, Array] = {}
    for i, group in enumerate(manifest):
        try:
            for name, values in _read_group(group, path.parent, seen, budget):
                if name in weights:
                    raise ValueError(f"weight {name!r} occurs twice")
                weights[name] = values
        except pg.BudgetError:
            raise
        except (ValueError, TypeError, OSError) as error:
            problems.append(f"weightsManifest[{i}]: {error}")
    if problems:
        raise ModelError(problems)
    return model, weights


def _read_group(
    group: Any, folder: Path, seen: set[Path], budget: pg.Budget
) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a group after the whole group has been checked."""
    if not isinstance(group, dict) or not all(
        isinstance(group.get(key), list) for key in ("paths", "weights")
    ):
        raise TypeError("it must be an object with the lists paths and weights")
    budget.count(len(group["weights"]) + len(group["paths"]))
    sizes = [_stored_bytes(spec) for spec in group["weights"]]
    stored_bytes = sum(
        _file_bytes(path, folder, seen, budget) for path in group["paths"]
    )
    if stored_bytes != sum(sizes):
        raise ValueError(
            f"its files contain {stored_bytes} bytes, but its weights need {sum(sizes)}"
        )
    data = b"".join(budget.read(path, folder) for path in group["paths"])
    begin = 0
    for spec, size in zip(group["weights"], sizes, strict=True):
        budget.allocate(math.prod(_shape(spec)) * np.dtype(spec["dtype"]).itemsize)
        yield spec["name"], _decode(spec, data[begin : begin + size])
        begin += size


def _file_bytes(path: Any, folder: Path, seen: set[Path], budget: pg.Budget) -> int:
    """Return the size of a shard, which must be in the folder of the model."""
    if not isinstance(path, str):
        raise TypeError(f"a path must be a string, not {path!r}")
    try:
        with budget.open(path, folder) as file:
            size = os.fstat(file.fileno()).st_size
    except (FileNotFoundError, IsADirectoryError):
        raise ValueError(f"the file {path!r} does not exist") from None
    resolved = (folder / path).resolve()
    if resolved in seen:
        raise ValueError(f"the file {path!r} is listed twice")
    seen.add(resolved)
    return size


def size_of(value: Any) -> int:
    """Return a value as the size of an axis; raise ValueError if it is not valid."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
    if type(value) is not int or not 0 <= value < 2**48:
        raise ValueError(f"{value!r} is not a valid size of an axis")
    return value


def _stored_bytes(spec: Any) -> int:
    """Check a weight and return its number of bytes in the file."""
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        raise TypeError("a weight must be an object with a name")
    name = spec["name"]
    dtype = str(spec.get("dtype"))
    shape = spec.get("shape")
    if not isinstance(shape, list) or len(shape) > 32:
        raise TypeError(f"weight {name!r}: its shape {shape!r} is not a list of sizes")
    if dtype not in DTYPES:
        raise TypeError(f"weight {name!r}: the dtype {dtype!r} is not supported")
    stored = DTYPES[dtype]
    if spec.get("quantization") is not None:
        stored = _quantized_dtype(name, dtype, spec["quantization"])
    return math.prod(_shape(spec)) * np.dtype(stored).itemsize


def _shape(spec: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(map(size_of, spec["shape"]))


def _quantized_dtype(name: str, dtype: str, rule: Any) -> str:
    """Check a quantization ``rule`` and return the dtype of the quantized values."""
    if not isinstance(rule, dict):
        raise TypeError(
            f"weight {name!r}: its quantization must be an object, not {rule!r}"
        )
    kind = str(rule.get("dtype"))
    if kind not in QUANTIZED or dtype not in ("float32", "int32"):
        raise TypeError(f"weight {name!r}: {dtype} cannot be quantized by {kind!r}")
    if kind == "float16" and dtype != "float32":
        raise TypeError(f"weight {name!r}: float16 can quantize float32, not {dtype}")
    numbers = [rule.get(key) for key in ("min", "scale")]
    if kind != "float16" and not all(map(_is_finite, numbers)):
        raise TypeError(f"weight {name!r}: {kind} needs the numbers min and scale")
    return QUANTIZED[kind]


def _is_finite(value: Any) -> bool:
    """Return whether a value is a number in the range of finite floats."""
    return type(value) in (int, float) and abs(value) < 1e300


def _decode(spec: Mapping[str, Any], data: bytes) -> Array:
    """Return the values of a weight, dequantized as in TensorFlow.js."""
    dtype = spec["dtype"]
    rule = spec.get("quantization")
    stored = QUANTIZED[rule["dtype"]] if rule else DTYPES[dtype]
    values = np.frombuffer(data, stored)
    if rule and rule["dtype"] != "float16":
        values = values * float(rule["scale"]) + float(rule["min"])
        values = np.floor(values + 0.5) if dtype == "int32" else values
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype).reshape(_shape(spec))


def write(path: Path, model: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
    """Write a model to ``path`` and its weights to one file next to it."""
    shard = path.with_name(f"{path.stem}.weights.bin")
    specs = [
        {"name": name, "shape": [*x.shape], "dtype": str(x.dtype)}
        for name, x in weights.items()
    ]
    manifest = [{"paths": [shard.name], "weights": specs}]
    arrays = (np.asarray(x, DTYPES[str(x.dtype)]) for x in weights.values())
    _replace(shard, b"".join(x.tobytes() for x in arrays))
    _replace(path, json.dumps({**model, "weightsManifest": manifest}).encode())


def _replace(path: Path, data: bytes) -> None:
    """Write a file; an existing one is replaced only when the new one is complete."""
    temporary = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
