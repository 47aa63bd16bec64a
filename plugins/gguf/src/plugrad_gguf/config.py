"""The sizes of a model, from the metadata of its file, and checks of its tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from plugrad.importing import ModelError

from .reader import GgufFile
from .rope import SCALINGS, RopeScaling
from .weights import is_supported

__all__ = ["ARCHITECTURES", "Config", "matrix_shapes", "read_config"]

Shapes: TypeAlias = dict[str, tuple[int, ...]]
# Whether the rotary embedding rotates neighboring elements, by architecture.
ARCHITECTURES = {"llama": True, "qwen2": False}
# Settings that are not supported: the values that have no effect, and the beginning of
# the message about any other value.
UNSUPPORTED: dict[str, tuple[tuple[Any, ...], str]] = {
    "expert_count": ((0,), "a mixture of experts is"),
    "logit_scale": ((0, 1), "scaled logits are"),
    "residual_scale": ((0, 1), "scaled residuals are"),
    "embedding_scale": ((0, 1), "scaled embeddings are"),
    "attention.scale": ((0,), "scaled attention is"),
}
MAX_SIZE = 2**31  # limit for each size in the metadata
MAX_LAYERS = 10_000
ROTATIONS = "a number from 0.001 to 1000000"


@dataclass(frozen=True)
class Config:
    """The sizes and settings of a model.

    Attributes:
        architecture: The name of the architecture in the file.
        layers: The number of layers.
        width: The size of the residual stream.
        hidden: The width of the hidden layer of an MLP.
        heads: The number of query heads.
        kv_heads: The number of key and value heads.
        head_size: The size of a query or key.
        vocabulary: The number of tokens.
        context: The largest number of tokens in a text.
        epsilon: Added to the mean of squares in RMS norms.
        rope_base: The base of the frequencies of rotary embeddings.
        rope_size: The number of elements of a query that rotate.
        interleaved: Whether rotary embeddings rotate neighboring elements.
        rope_scaling: How the frequencies of rotary embeddings are scaled.

    """

    architecture: str
    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int
    epsilon: float
    rope_base: float
    rope_size: int
    interleaved: bool
    rope_scaling: RopeScaling = field(default_factory=RopeScaling)


def read_config(file: GgufFile) -> Config:
    """Return the sizes of a model after checking its metadata and tensors.

    Raises:
        ModelError: Something is missing, wrong or not supported; the error lists all
            problems.

    """
    architecture = file.metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ModelError(
            [
                f"its architecture is {architecture!r}; supported are "
                f"{' and '.join(ARCHITECTURES)} (Llama, Mistral, SmolLM2, TinyLlama, "
                "Qwen2 and models that use their layers)"
            ]
        )
    problems: list[str] = []
    config = _Reading(file, architecture, problems).config()
    if not problems:
        problems += _check_sizes(config)
    if not problems:
        problems += _check_tensors(file, config)
    if problems:
        raise ModelError(problems)
    return config


class _Reading:
    """Reads numbers from the metadata and collects the problems."""

    def __init__(self, file: GgufFile, name: str, problems: list[str]) -> None:
        self.file, self.name, self.problems = file, name, problems

    def config(self) -> Config:
        """Return the sizes; those that could not be read are 1."""
        self.reject_unsupported()
        width = self.integer("embedding_length")
        heads = self.integer("attention.head_count")
        head_size = self.integer("attention.key_length", width // heads)
        context = self.integer("context_length")
        embedding = self.file.tensors.get("token_embd.weight")
        shape = embedding.shape if embedding else ()
        if len(shape) != 2:
            self.problems.append("there is no matrix token_embd.weight")
        value_size = self.integer("attention.value_length", head_size)
        if value_size != head_size:
            self.problems.append(
                f"values of size {value_size} and keys of size {head_size} in one head "
                "are not supported"
            )
        return Config(
            architecture=self.name,
            layers=self.integer("block_count"),
            width=width,
            hidden=self.integer("feed_forward_length"),
            heads=heads,
            kv_heads=self.integer("attention.head_count_kv", heads),
            head_size=head_size,
            vocabulary=shape[0] if shape else 1,
            # Up to the window size, sliding-window attention equals full attention.
            context=min(context, self.integer("attention.sliding_window", context)),
            epsilon=self.number("attention.layer_norm_rms_epsilon"),
            rope_base=self.number("rope.freq_base", 10000.0),
            rope_size=self.integer("rope.dimension_count", head_size),
            interleaved=ARCHITECTURES[self.name],
            rope_scaling=self.rope_scaling(context),
        )

    def rope_scaling(self, context: int) -> RopeScaling:
        """Return how rotary embeddings are scaled; ``context`` is that of the file."""
        kind = self.file.metadata.get(f"{self.name}.rope.scaling.type")
        if kind is None and f"{self.name}.rope.scale_linear" in self.file.metadata:
            kind, key = "linear", "rope.scale_linear"
        else:
            kind, key = "none" if kind is None else kind, "rope.scaling.factor"
        if not isinstance(kind, str) or kind not in SCALINGS:
            self.problems.append(
                f"{self.name}.rope.scaling.type is {kind!r}: supported are "
                f"{', '.join(SCALINGS)}; choose a model that uses one of them"
            )
            return RopeScaling()
        if kind == "none":
            return RopeScaling()
        fits = lambda x: type(x) in (int, float) and 0 <= x < MAX_SIZE
        factor = float(self.value(key, 1.0, "a number that is not negative", fits))
        if kind == "yarn" and self.number("rope.freq_base", 10000.0) <= 1:
            self.problems.append(f"{self.name}.rope.freq_base must be above 1 for YaRN")
        name = "rope.scaling.original_context_length"
        return RopeScaling(
            kind,
            factor or 1.0,  # files write 0 for "not scaled"
            self.integer(name, context),
            self.number("rope.scaling.attn_factor", 1.0),
            float(self.value("rope.scaling.yarn_ext_factor", 1.0, "a number", fits)),
            self.rotations("yarn_beta_fast", 32.0),
            self.rotations("yarn_beta_slow", 1.0),
        )

    def rotations(self, key: str, default: float) -> float:
        """Return a number of rotations, which begins or ends YaRN's ramp."""
        fits = lambda x: type(x) in (int, float) and 1e-3 <= x <= 1e6
        return float(self.value(f"rope.scaling.{key}", default, ROTATIONS, fits))

    def reject_unsupported(self) -> None:
        """Add a problem for each setting that would change the results."""
        for key, (plain, what) in UNSUPPORTED.items():
            value = self.file.metadata.get(f"{self.name}.{key}")
            is_scalar = isinstance(value, int | float | str)
            if value is not None and not (is_scalar and value in plain):
                self.problems.append(
                    f"{self.name}.{key} is {value!r}: {what} not supported; choose a "
                    "model without it"
                )

    def value(self, key: str, default: Any, what: str, fits: Any) -> Any:
        """Return a number from the metadata, or 1 after adding a problem."""
        full = f"{self.name}.{key}"
        value = self.file.metadata.get(full, default)
        if value is None:
            self.problems.append(f"the metadata {full} is missing")
            return 1
        if not fits(value):
            self.problems.append(f"{full} is {value!r}; it must be {what}")
            return 1
        return value

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a positive integer from the metadata."""
        fits = lambda x: type(x) is int and 0 < x < MAX_SIZE
        return int(self.value(key, default, "one positive integer", fits))

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number from the metadata."""
        fits = lambda x: type(x) in (int, float) and math.isfinite(x) and x > 0
        return float(self.value(key, default, "a positive number", fits))


def _check_sizes(config: Config) -> list[str]:
    """Return a problem for each contradiction between sizes."""
    problems = []
    if config.heads % config.kv_heads:
        problems.append(
            f"{config.heads} query heads cannot share {config.kv_heads} key heads"
        )
    if config.rope_size > config.head_size or config.rope_size % 2:
        problems.append(
            f"the number of rotated elements per head, {config.rope_size}, must be "
            f"even and at most the head size, {config.head_size}"
        )
    if config.layers > MAX_LAYERS:
        problems.append(f"{config.layers} layers; at most {MAX_LAYERS} are supported")
    return problems


def _check_tensors(file: GgufFile, config: Config) -> list[str]:
    """Return a problem for each tensor that is missing, wrong or unknown."""
    required, optional = _expected_shapes(config)
    known = required | optional
    problems = [
        f"tensor {name!r} is missing" for name in required if name not in file.tensors
    ]
    for name, info in file.tensors.items():
        if name not in known:
            problems.append(
                f"tensor {name!r} is unknown: the supported models of the architecture "
                f"{config.architecture!r} have no such tensor"
            )
        elif info.shape != known[name]:
            problems.append(
                f"tensor {name!r} has the shape {info.shape}, but the metadata implies "
                f"{known[name]}"
            )
        elif not is_supported(info.kind):
            problems.append(
                f"tensor {name!r} has the type {info.kind.name}, which is not "
                "supported; quantize the model in another way, such as Q4_K_M"
            )
    return problems


def matrix_shapes(config: Config) -> Shapes:
    """Return the shapes ``(outputs, inputs)`` of the matrices of a layer, by name."""
    width, hidden = config.width, config.hidden
    q, kv = config.heads * config.head_size, config.kv_heads * config.head_size
    return {
        "attn_q": (q, width),
        "attn_k": (kv, width),
        "attn_v": (kv, width),
        "attn_output": (width, q),
        "ffn_gate": (hidden, width),
        "ffn_up": (hidden, width),
        "ffn_down": (width, hidden),
    }


def _expected_shapes(config: Config) -> tuple[Shapes, Shapes]:
    """Return the shapes of the required and of the optional tensors, by name."""
    width, tokens = config.width, config.vocabulary
    required: Shapes = {
        "token_embd.weight": (tokens, width),
        "output_norm.weight": (width,),
    }
    optional: Shapes = {
        "output.weight": (tokens, width),
        "rope_freqs.weight": (config.rope_size // 2,),
    }
    for i in range(config.layers):
        for name in ("attn_norm", "ffn_norm"):
            required[f"blk.{i}.{name}.weight"] = (width,)
        for name, shape in matrix_shapes(config).items():
            required[f"blk.{i}.{name}.weight"] = shape
            optional[f"blk.{i}.{name}.bias"] = shape[:1]
    return required, optional
