"""The forward pass of Llama-like models, from embeddings to logits.

Each layer runs in a scope such as ``blk.3``, the prefix of the names of its weights.
Inside it are the scopes ``attention`` and ``mlp``.

The residual stream ``x`` is ``[positions, width]``. Caches are ``[1, heads, positions,
size]``; a pass writes the keys and values of its tokens to them, beginning at position
``start``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import plugrad as pg

from .adapters import Pairs
from .config import Config
from .rope import scaled_frequencies
from .weights import Params

__all__ = ["Caches", "Changes", "embed", "rotary_tables", "run", "to_logits"]

EMBEDDINGS, HEAD = "token_embd.weight", "output.weight"


class Changes(NamedTuple):
    """Changes to a model that apply during a call.

    Attributes:
        steering: Vectors that are added after layers, by layer.
        adapter: Low-rank matrices that are added to those of layers, by name.

    """

    steering: Mapping[int, pg.Tensor] = {}  # never assigned to
    adapter: Pairs = {}  # noqa: RUF012  # never assigned to


UNCHANGED = Changes()


@dataclass(frozen=True)
class Caches:
    """The keys and values of all positions, a tensor for each layer.

    Attributes:
        keys: The keys.
        values: The values.

    """

    keys: tuple[pg.Tensor, ...]
    values: tuple[pg.Tensor, ...]

    @classmethod
    def empty(cls, config: Config, positions: int) -> Caches:
        """Return caches with room for a number of positions."""
        shape = (1, config.kv_heads, positions, config.head_size)
        keys = tuple(pg.zeros(shape) for _ in range(config.layers))
        return cls(keys, tuple(pg.zeros(shape) for _ in range(config.layers)))


def rotary_tables(
    config: Config, params: Params, positions: int
) -> tuple[pg.Tensor, pg.Tensor]:
    """Return the cosines and sines of the angles, each ``[positions, pairs]``.

    Source:
        J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding",
        2021; ``rope_freqs.weight`` divides the frequencies, as in Llama 3.1. Those of
        scaled embeddings: ``scaled_frequencies``.
    """
    powers = np.arange(0, config.rope_size, 2) / config.rope_size
    factors = params.vectors.get("rope_freqs.weight")
    with np.errstate(all="ignore"):  # factors may be 0, inf or nan
        frequencies = config.rope_base**-powers
        if factors is not None:
            frequencies = frequencies / factors.numpy()
        scaling = config.rope_scaling
        frequencies = scaled_frequencies(
            frequencies, scaling, config.rope_base, config.rope_size
        )
        angles = np.arange(positions)[:, None] * frequencies
        cos, sin = (scaling.magnitude * f(angles) for f in (np.cos, np.sin))
    return pg.asarray(cos.astype(np.float32)), pg.asarray(sin.astype(np.float32))


def embed(params: Params, codes: pg.Tensor) -> pg.Tensor:
    """Return the embeddings of tokens, ``[*codes.shape, width]``."""
    return params.matrices[EMBEDDINGS].rows(codes)


def to_logits(params: Params, x: pg.Tensor) -> pg.Tensor:
    """Return the logits ``[positions, tokens]``; without a head, use the embeddings."""
    name = HEAD if HEAD in params.matrices else EMBEDDINGS
    return params.matrices[name].product(x)


def run(
    params: Params,
    config: Config,
    x: pg.Tensor,
    rotary: tuple[pg.Tensor, pg.Tensor],
    caches: Caches | None = None,
    start: int | pg.Tensor = 0,
    changes: Changes = UNCHANGED,
) -> pg.Tensor:
    """Return the residual stream after the last norm.

    Args:
        params: The weights.
        config: The sizes.
        x: Embeddings, ``[positions, width]``.
        rotary: The tables that ``rotary_tables`` returns.
        caches: The caches to which keys and values are written; None: no caches.
        start: The position of the first token. It may be a tensor, ``int32[]``, if
            ``x`` is a single token.
        changes: The changes to the model: steering vectors and an adapter.

    """
    length = x.shape[0]
    if isinstance(start, int):
        cos, sin = (table[start : start + length] for table in rotary)
    else:
        cos, sin = (table[start] for table in rotary)
    for i in range(config.layers):
        layer = _Layer(params, config, changes.adapter, f"blk.{i}.")
        cache = None if caches is None else (caches.keys[i], caches.values[i])
        with pg.name_scope(f"blk.{i}"):
            x = x + layer.attend(layer.norm(x, "attn_norm"), (cos, sin), cache, start)
            x = x + layer.mlp(layer.norm(x, "ffn_norm"))
            if i in changes.steering:
                x = x + changes.steering[i]
    return pg.rms_norm(x, params.vectors["output_norm.weight"], epsilon=config.epsilon)


@dataclass(frozen=True)
class _Layer:
    """The functions of one layer; ``prefix`` begins the names of its weights."""

    params: Params
    config: Config
    adapter: Pairs
    prefix: str

    def norm(self, x: pg.Tensor, name: str) -> pg.Tensor:
        scale = self.params.vectors[f"{self.prefix}{name}.weight"]
        return pg.rms_norm(x, scale, epsilon=self.config.epsilon)

    def dense(self, x: pg.Tensor, name: str) -> pg.Tensor:
        """Multiply by a weight; add its bias and its adapter, if there are any."""
        y = self.params.matrices[f"{self.prefix}{name}.weight"].product(x)
        if (pair := self.adapter.get(f"{self.prefix}{name}")) is not None:
            a, b = pair
            low = pg.matmul(x, a, transpose_b=True)
            y = y + pg.matmul(low, b, transpose_b=True)
        bias = self.params.vectors.get(f"{self.prefix}{name}.bias")
        return y if bias is None else y + bias

    def heads(self, x: pg.Tensor, name: str, count: int) -> pg.Tensor:
        """Return queries, keys or values, ``[1, heads, positions, size]``."""
        y = self.dense(x, name)
        if x.shape[0] == 1:  # a single position is written and read without transposing
            return pg.reshape(y, (1, count, 1, -1))
        return pg.permute_dims(pg.reshape(y, (1, x.shape[0], count, -1)), (0, 2, 1, 3))

    @pg.name_scope("attention")
    def attend(
        self,
        x: pg.Tensor,
        rotary: tuple[pg.Tensor, pg.Tensor],
        cache: tuple[pg.Tensor, pg.Tensor] | None,
        start: int | pg.Tensor,
    ) -> pg.Tensor:
        """Return the output of the attention for normalized ``x``."""
        config, length = self.config, x.shape[0]
        kind = config.interleaved
        q = self.heads(x, "attn_q", config.heads)
        k = self.heads(x, "attn_k", config.kv_heads)
        v = self.heads(x, "attn_v", config.kv_heads)
        q, k = (pg.rotary_embedding(y, *rotary, interleaved=kind) for y in (q, k))
        filled: int | pg.Tensor | None = None
        if cache is not None:
            _write(cache, k, v, start)
            if not isinstance(start, int) or start > 0:
                k, v = cache
                filled = start + length
        y = pg.scaled_dot_product_attention(
            q, k, v, length=filled, is_causal=True, enable_gqa=True
        )
        if length > 1:
            y = pg.permute_dims(y, (0, 2, 1, 3))
        return self.dense(pg.reshape(y, (length, -1)), "attn_output")

    @pg.name_scope("mlp")
    def mlp(self, x: pg.Tensor) -> pg.Tensor:
        """Return the output of the gated MLP for normalized ``x``."""
        gate = pg.silu(self.dense(x, "ffn_gate"))
        return self.dense(gate * self.dense(x, "ffn_up"), "ffn_down")


def _write(
    cache: tuple[pg.Tensor, pg.Tensor],
    k: pg.Tensor,
    v: pg.Tensor,
    start: int | pg.Tensor,
) -> None:
    """Write keys and values into a cache, beginning at position ``start``."""
    for target, rows in zip(cache, (k, v), strict=True):
        if isinstance(start, int):
            target[:, :, start : start + rows.shape[2]] = rows
        else:
            target[:, :, start] = rows[:, :, 0]
