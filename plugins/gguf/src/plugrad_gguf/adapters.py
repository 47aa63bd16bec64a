"""Low-rank adapters (LoRA): small matrices that are trained in place of the weights.

An adapter of a matrix ``w`` consists of ``a``, ``[rank, inputs]``, and ``b``,
``[outputs, rank]``. The model then multiplies by ``w + alpha / rank · b a``. Files have
the layout of llama.cpp: ``w`` is ``blk.0.attn_q.weight``, say, and its adapter is
``blk.0.attn_q.weight.lora_a`` and ``blk.0.attn_q.weight.lora_b``.

Source:
    E. J. Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import gguf
import numpy as np
import plugrad as pg
from plugrad.importing import ModelError

from .config import Config, matrix_shapes
from .reader import GgufFile
from .weights import convert

__all__ = [
    "Adapter",
    "AdapterParams",
    "Pairs",
    "check_pair",
    "make_adapter",
    "read_adapter",
]

AdapterParams: TypeAlias = Mapping[str, Mapping[str, pg.Tensor]]
Pairs: TypeAlias = Mapping[str, tuple[pg.Tensor, pg.Tensor]]  # a and scaled b, by name
SUFFIXES = {"a": ".weight.lora_a", "b": ".weight.lora_b"}


@dataclass(frozen=True)
class Adapter:
    """A low-rank adapter of a model.

    Attributes:
        params: The trainable tensors, a tree: for each adapted matrix, such as
            ``"blk.0.attn_q"``, a dict of ``a``, ``[rank, inputs]``, and ``b``,
            ``[outputs, rank]``.
        alpha: The product ``b a`` is multiplied by ``alpha / rank``.
        architecture: The architecture of the model, which ``save`` writes to the file.

    """

    params: AdapterParams
    alpha: float
    architecture: str

    def with_params(self, params: AdapterParams) -> Adapter:
        """Return the adapter with other tensors, such as those after training."""
        return replace(self, params=params)

    def pairs(self) -> Pairs:
        """Return ``a`` and ``alpha / rank · b`` of each matrix."""
        return {
            name: (pair["a"], pair["b"] * (self.alpha / pair["a"].shape[0]))
            for name, pair in self.params.items()
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the adapter to a GGUF file, which llama.cpp can also read.

        Args:
            path: The file. An existing file is replaced, but only when the new one is
                complete.

        Raises:
            OSError: The file cannot be written.

        """
        path = Path(path)
        unfinished = path.with_name(f"{path.name}.unfinished")
        writer = gguf.GGUFWriter(unfinished, self.architecture)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", self.alpha)
        for name, pair in self.params.items():
            for key, suffix in SUFFIXES.items():
                values = pair[key].numpy().astype(np.float32)
                writer.add_tensor(f"{name}{suffix}", values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        unfinished.replace(path)

    def __repr__(self) -> str:
        """Return the number of matrices and elements."""
        tensors = [x for pair in self.params.values() for x in pair.values()]
        elements = sum(math.prod(x.shape) for x in tensors)
        return f"<Adapter: {len(self.params)} matrices, {elements} elements>"


def make_adapter(
    config: Config, rank: int, alpha: float, targets: Sequence[str], seed: int
) -> Adapter:
    """Return a new adapter, which does not change the model: each ``b`` is 0.

    Raises:
        ValueError: The rank is not positive, or a target is not the name of a matrix.

    """
    shapes = matrix_shapes(config)
    if rank < 1:
        raise ValueError(f"new_adapter: rank must be 1 or more, got {rank}")
    unknown = [name for name in targets if name not in shapes]
    if unknown or not targets:
        raise ValueError(
            f"new_adapter: targets must be some of {', '.join(shapes)}; got "
            f"{', '.join(unknown) or 'none'}"
        )
    random = np.random.default_rng(seed)
    params = {}
    for i in range(config.layers):
        for name in targets:
            outputs, inputs = shapes[name]
            bound = 1 / math.sqrt(inputs)
            a = random.uniform(-bound, bound, (rank, inputs)).astype(np.float32)
            b = pg.zeros((outputs, rank))
            params[f"blk.{i}.{name}"] = {"a": pg.asarray(a), "b": b}
    return Adapter(params, float(alpha), config.architecture)


def read_adapter(file: GgufFile, config: Config) -> Adapter:
    """Return the adapter in a file after checking that it fits the model.

    Raises:
        ModelError: The file is not a LoRA adapter, or does not fit the model; the error
            lists all problems.

    """
    problems = _check_metadata(file, config)
    found: dict[str, dict[str, pg.Tensor]] = {}
    for name, info in file.tensors.items():
        key = next((k for k, suffix in SUFFIXES.items() if name.endswith(suffix)), None)
        if key is None:
            problems.append(f"tensor {name!r} is not part of a LoRA adapter")
            continue
        pair = found.setdefault(name.removesuffix(SUFFIXES[key]), {})
        pair[key] = pg.asarray(convert(info))
    for name, pair in found.items():
        problems += check_pair(name, pair, config)
    if problems:
        raise ModelError(problems)
    alpha = file.metadata.get("adapter.lora.alpha")
    if not alpha:  # as in llama.cpp, 0 stands for the rank
        ranks = {pair["a"].shape[0] for pair in found.values()}
        alpha = max(ranks, default=1)
    return Adapter(found, float(alpha), config.architecture)


def _check_metadata(file: GgufFile, config: Config) -> list[str]:
    """Return a problem for each entry that does not fit a LoRA file of the model."""
    expected = {
        "general.type": "adapter",
        "adapter.type": "lora",
        "general.architecture": config.architecture,
    }
    problems = [
        f"{key} is {file.metadata.get(key)!r}; expected {value!r}"
        for key, value in expected.items()
        if file.metadata.get(key) != value
    ]
    alpha = file.metadata.get("adapter.lora.alpha", 0.0)
    if not isinstance(alpha, int | float) or not math.isfinite(alpha):
        problems.append(f"adapter.lora.alpha is {alpha!r}; it must be a finite number")
    return problems


def check_pair(name: str, pair: Mapping[str, pg.Tensor], config: Config) -> list[str]:
    """Return the problems of the tensors for one matrix."""
    layer, _, matrix = name.removeprefix("blk.").partition(".")
    shapes = matrix_shapes(config)
    is_layer = layer.isdecimal() and int(layer) < config.layers
    if not (name.startswith("blk.") and is_layer and matrix in shapes):
        return [f"the model has no matrix {name!r} that can be adapted"]
    if pair.keys() != SUFFIXES.keys():
        return [f"{name!r} needs two tensors, a and b; got {' and '.join(pair)}"]
    outputs, inputs = shapes[matrix]
    a, b = tuple(pair["a"].shape), tuple(pair["b"].shape)
    if len(a) == len(b) == 2 and a[0] == b[1] > 0 and (b[0], a[1]) == (outputs, inputs):
        return []
    return [
        f"{name!r} has tensors of shapes {a} and {b}; the model needs (rank, {inputs}) "
        f"and ({outputs}, rank)"
    ]
