"""Record lxt's relevances of transformers, which the tests compare with.

``python -m tests.attribution.reference_attn`` writes ``reference_attn.json``. It needs
torch and lxt: ``pip install torch lxt``. The numbers are float64; the networks have
random weights.

lxt adds positive stabilizers even to negative denominators; plugrad-attribution gives a
stabilizer the sign of the denominator. Cases whose name ends in ``as published`` are
recorded with lxt unchanged, all others with stabilizers like those of
plugrad-attribution.

Contents: the weights; the networks in PyTorch, with lxt's functions; the record.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("reference_attn.json")
BATCH, TOKENS, WIDTH, HEADS, CLASSES, BLOCKS = 2, 6, 16, 2, 3, 2
SIZE = WIDTH // HEADS
HIDDEN = 2 * WIDTH
TARGET = 1
EPSILON = 1e-5  # added to variances and mean squares in the norms
SHAPE = (BATCH, TOKENS, WIDTH)
Weights = dict[str, np.ndarray]


def weights() -> tuple[list[Weights], Weights]:
    """Return the parameters of the blocks and of the head."""
    random = np.random.default_rng(11)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return random.normal(size=(rows, columns)) / np.sqrt(rows)

    def vector(size: int, mean: float = 0.0) -> np.ndarray:
        return mean + random.normal(size=size) / 10

    def block() -> Weights:
        found = {}
        for name in ("q", "k", "v", "o"):
            found |= {f"w{name}": matrix(WIDTH, WIDTH), f"b{name}": vector(WIDTH)}
        for name in ("1", "2"):
            found |= {
                f"scale{name}": vector(WIDTH, 1.0),
                f"offset{name}": vector(WIDTH),
            }
        found |= {"up": matrix(WIDTH, HIDDEN), "b_up": vector(HIDDEN)}
        found |= {"down": matrix(HIDDEN, WIDTH), "b_down": vector(WIDTH)}
        return found | {"gate": matrix(WIDTH, HIDDEN)}

    blocks = [block() for _ in range(BLOCKS)]
    head = {"scale": vector(WIDTH, 1.0), "offset": vector(WIDTH)}
    head |= {"w": matrix(WIDTH, CLASSES), "b": vector(CLASSES)}
    return blocks, head


def examples() -> np.ndarray:
    """Return token embeddings."""
    return np.random.default_rng(12).normal(size=SHAPE)


# --- the networks ----------------------------------------------------------------


def heads(x: Any) -> Any:
    """Move the heads of a PyTorch tensor from the last axis to axis 1."""
    return x.reshape(BATCH, TOKENS, HEADS, SIZE).transpose(1, 2)


def joined(x: Any) -> Any:
    """Move the heads of a PyTorch tensor back into the last axis."""
    return x.transpose(1, 2).reshape(BATCH, TOKENS, WIDTH)


def attention(p: Any, x: Any, is_causal: bool, is_constant: bool) -> Any:
    """Return attention by lxt's functions; CP-LRP needs ``is_constant``."""
    import torch
    from lxt.explicit import functional, rules

    biases = {} if is_causal else {n: p[f"b{n}"] for n in "qkvo"}
    q, k, v = (
        heads(functional.linear_epsilon(x, p[f"w{n}"].T, biases.get(n))) for n in "qkv"
    )
    scores = functional.matmul(q, k.transpose(-1, -2))
    if is_causal:
        future = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, -torch.inf)
    part = functional.softmax(scores, -1, temperature=SIZE**0.5)
    if is_constant:
        y = rules.epsilon_lrp(torch.matmul, 1e-6, part.detach(), v)
    else:
        y = functional.matmul(part, v)
    return functional.linear_epsilon(joined(y), p["wo"].T, biases.get("o"))


def gelu_network(x: Any, is_constant: bool = False) -> Any:
    """Return the logits of two blocks with layer norms, GELU and biases."""
    import torch
    from lxt.explicit import functional, rules

    blocks, head = tensors()
    norm, linear, add = (
        functional.layer_norm,
        functional.linear_epsilon,
        functional.add2,
    )
    for p in blocks:
        y = norm(x, p["scale1"], p["offset1"], EPSILON)
        x = add(x, attention(p, y, False, is_constant))
        y = norm(x, p["scale2"], p["offset2"], EPSILON)
        y = linear(y, p["up"].T, p["b_up"])
        y = rules.identity(torch.nn.functional.gelu, y)
        x = add(x, linear(y, p["down"].T, p["b_down"]))
    y = norm(x, head["scale"], head["offset"], EPSILON)
    return linear(y[:, 0], head["w"].T, head["b"])


def gated_network(x: Any, is_constant: bool = False) -> Any:
    """Return the logits of two blocks as in LLaMA: RMS norms, SiLU gates, no biases."""
    import torch
    from lxt.explicit import functional, rules

    blocks, head = tensors()
    linear, add = functional.linear_epsilon, functional.add2

    def norm(x: Any, scale: Any) -> Any:  # lxt's norm computes in float32
        square = lambda x: (x * x).mean(-1, keepdim=True)
        f = lambda x: x * torch.rsqrt(square(x) + EPSILON) * scale
        return rules.identity(f, x)

    for p in blocks:
        x = add(x, attention(p, norm(x, p["scale1"]), True, is_constant))
        y = norm(x, p["scale2"])
        gate = rules.identity(torch.nn.functional.silu, linear(y, p["gate"].T))
        y = functional.mul2(gate, linear(y, p["up"].T))
        x = add(x, linear(y, p["down"].T))
    return linear(norm(x, head["scale"])[:, -1], head["w"].T)


def tensors() -> tuple[list[Any], Any]:
    """Return the parameters as PyTorch tensors."""
    import torch

    blocks, head = weights()
    moved = lambda given: {name: torch.tensor(w) for name, w in given.items()}
    return [moved(block) for block in blocks], moved(head)


# --- the record ------------------------------------------------------------------

NETWORKS: dict[str, Callable[[Any], Any]] = {
    "AttnLRP": gelu_network,
    "AttnLRP gated": gated_network,
    "CPLRP": lambda x: gelu_network(x, is_constant=True),
    "CPLRP gated": lambda x: gated_network(x, is_constant=True),
}


def relevance(network: Callable[[Any], Any]) -> np.ndarray:
    """Return lxt's relevance of the tokens for a logit."""
    import torch

    x = torch.tensor(examples(), requires_grad=True)
    y = network(x)[:, TARGET]
    (found,) = torch.autograd.grad(y, x, y.detach())
    return found.numpy()


def signed(x: Any, epsilon: float = 1e-6, inplace: bool = False) -> Any:
    """Return ``x`` moved away from zero; this replaces lxt's own stabilizer."""
    import torch

    return x + torch.where(x >= 0, epsilon, -epsilon)


def record() -> None:
    """Compute the relevances with lxt, and write them."""
    from lxt.explicit import functional, rules

    found = {f"{n}, as published": relevance(f) for n, f in NETWORKS.items()}
    functional._stabilize = rules._stabilize = signed
    found = {n: relevance(f) for n, f in NETWORKS.items()} | found
    lines = []
    for name, values in found.items():
        row = ", ".join(f"{value:.14e}" for value in values.ravel())
        lines.append(f'"{name}": [{row}]')
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> dict[str, np.ndarray]:
    """Return the recorded relevances by case."""
    found = json.loads(PATH.read_text())
    return {name: np.reshape(row, SHAPE) for name, row in found.items()}


if __name__ == "__main__":
    record()
