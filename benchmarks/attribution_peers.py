"""Compare AttnLRP with lxt, and surrogate gradients with snntorch: values and time.

A transformer and a spiking network exist twice, in PyTorch and in plugrad, with the
same random weights in float32. For each, the script prints the largest difference of
the results, relative to the largest result; the time of the other library; and the time
of plugrad divided by that time, eager and with ``jit``. The libraries take turns in one
process, and the best turn counts::

    OMP_NUM_THREADS=1 python -m benchmarks.attribution_peers

In addition to plugrad, it needs ``pip install torch torchvision lxt snntorch``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import snntorch
import snntorch.surrogate
import torch
from lxt.explicit import functional, rules

from benchmarks.turns import best_ms

Arrays = dict[str, np.ndarray[Any, Any]]

# --- the transformer -------------------------------------------------------------

BATCH, TOKENS, WIDTH, HEADS, CLASSES, BLOCKS = 4, 32, 64, 4, 10, 2
EPSILON = 1e-5  # added to the variance in layer norms
TARGET = 3


def matrix(random: np.random.Generator, rows: int, columns: int) -> Any:
    """Return weights that keep the variance of their input."""
    values = random.normal(size=(rows, columns)) / math.sqrt(rows)
    return values.astype(np.float32)


def transformer_weights() -> Iterator[Arrays]:
    """Yield the parameters of each block, and finally those of the head."""
    random = np.random.default_rng(0)

    def vector(size: int, mean: float = 0.0) -> Any:
        return (mean + random.normal(size=size) / 10).astype(np.float32)

    for _ in range(BLOCKS):
        shapes = {name: (WIDTH, WIDTH) for name in "qkvo"}
        shapes |= {"up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
        found = {f"w_{name}": matrix(random, *shape) for name, shape in shapes.items()}
        found |= {f"b_{name}": vector(shape[1]) for name, shape in shapes.items()}
        for number in "12":
            found |= {f"scale{number}": vector(WIDTH, 1.0)}
            found |= {f"offset{number}": vector(WIDTH)}
        yield found
    head = {"scale1": vector(WIDTH, 1.0), "offset1": vector(WIDTH)}
    yield head | {"w_out": matrix(random, WIDTH, CLASSES), "b_out": vector(CLASSES)}


def lxt_transformer() -> Callable[[Any], Any]:
    """Return the transformer in PyTorch, with the functions of lxt."""
    *blocks, head = [
        {name: torch.tensor(w.T.copy()) for name, w in found.items()}
        for found in transformer_weights()
    ]
    gelu = torch.nn.functional.gelu

    def norm(p: Any, number: int, x: Any) -> Any:
        scale, offset = p[f"scale{number}"], p[f"offset{number}"]
        return functional.layer_norm(x, scale, offset, EPSILON)

    def linear(p: Any, name: str, x: Any) -> Any:
        return functional.linear_epsilon(x, p[f"w_{name}"], p[f"b_{name}"])

    def heads(x: Any) -> Any:
        return x.reshape(BATCH, TOKENS, HEADS, -1).transpose(1, 2)

    def network(x: Any) -> Any:
        for p in blocks:
            y = norm(p, 1, x)
            q, k, v = [heads(linear(p, name, y)) for name in "qkv"]
            scores = functional.matmul(q, k.transpose(-1, -2))
            temperature = math.sqrt(WIDTH // HEADS)
            y = functional.softmax(scores, -1, temperature=temperature)
            y = functional.matmul(y, v).transpose(1, 2).reshape(BATCH, TOKENS, WIDTH)
            x = functional.add2(x, linear(p, "o", y))
            y = rules.identity(gelu, linear(p, "up", norm(p, 2, x)))
            x = functional.add2(x, linear(p, "down", y))
        return linear(head, "out", norm(head, 1, x)[:, 0])

    return network


def plugrad_transformer() -> Callable[[Any], Any]:
    """Return the transformer in plugrad."""
    *blocks, head = [
        {name: pg.asarray(w) for name, w in found.items()}
        for found in transformer_weights()
    ]

    def norm(p: Any, number: int, x: Any) -> Any:
        scale, offset = p[f"scale{number}"], p[f"offset{number}"]
        return pg.layer_norm(x, scale, offset, epsilon=EPSILON)

    def linear(p: Any, name: str, x: Any) -> Any:
        return x @ p[f"w_{name}"] + p[f"b_{name}"]

    def heads(x: Any) -> Any:
        return pg.permute_dims(pg.reshape(x, (BATCH, TOKENS, HEADS, -1)), (0, 2, 1, 3))

    def network(x: Any) -> Any:
        for p in blocks:
            y = norm(p, 1, x)
            q, k, v = [heads(linear(p, name, y)) for name in "qkv"]
            y = pg.permute_dims(pg.scaled_dot_product_attention(q, k, v), (0, 2, 1, 3))
            x = x + linear(p, "o", pg.reshape(y, (BATCH, TOKENS, WIDTH)))
            y = pg.gelu(linear(p, "up", norm(p, 2, x)))
            x = x + linear(p, "down", y)
        return linear(head, "out", norm(head, 1, x)[:, 0])

    return network


def compare_with_lxt() -> None:
    """Print a row about the relevances of the transformer."""
    examples = np.random.default_rng(1).normal(size=(BATCH, TOKENS, WIDTH))
    examples = examples.astype(np.float32)
    theirs, ours = lxt_transformer(), plugrad_transformer()
    composite = attr.AttnLRP()
    x = torch.tensor(examples, requires_grad=True)
    tensor = pg.asarray(examples)

    def relevance_of_lxt() -> Any:
        y = theirs(x)[:, TARGET]
        return torch.autograd.grad(y, x, y.detach())[0].numpy()

    attribute = lambda x: attr.attribute(ours, x, composite, TARGET).input
    compare("lxt, AttnLRP", relevance_of_lxt, attribute, tensor)


# --- the spiking network ---------------------------------------------------------

STEPS, INPUTS, HIDDEN, OUTPUTS, SPIKE_BATCH = 25, 100, 64, 10, 32
BETA = 0.9  # the share of its potential that a neuron keeps in a step
SLOPE = 25.0


def spiking_weights() -> list[Any]:
    """Return the weights of two layers of neurons."""
    random = np.random.default_rng(2)
    shapes = [(INPUTS, HIDDEN), (HIDDEN, OUTPUTS)]
    return [3 * matrix(random, *shape) for shape in shapes]


def currents() -> Any:
    """Return the inputs of each step."""
    random = np.random.default_rng(3)
    return random.uniform(size=(STEPS, SPIKE_BATCH, INPUTS)).astype(np.float32)


def snntorch_gradients() -> Callable[[], Any]:
    """Return a function that computes the gradient of the first weights."""
    first, second = [torch.tensor(w, requires_grad=True) for w in spiking_weights()]
    surrogate = snntorch.surrogate.fast_sigmoid(slope=SLOPE)
    layers = [
        snntorch.Leaky(beta=BETA, spike_grad=surrogate, reset_mechanism="subtract")
        for _ in range(2)
    ]
    steps = torch.tensor(currents())

    def gradients() -> Any:
        potentials = [layer.init_leaky() for layer in layers]
        total: Any = 0.0
        for current in steps:
            spikes, potentials[0] = layers[0](current @ first, potentials[0])
            spikes, potentials[1] = layers[1](spikes @ second, potentials[1])
            total = total + spikes
        loss = (total * total).mean()
        return torch.autograd.grad(loss, (first, second))[0].numpy()

    return gradients


def fire(current: Any, potential: Any) -> tuple[Any, Any]:
    """Return spikes and potentials of leaky integrate-and-fire neurons after a step."""
    reset = pg.stop_gradient(pg.step(potential - 1.0))
    potential = BETA * potential + current - reset
    return pg.step(potential - 1.0), potential


def plugrad_loss() -> Callable[[Any, Any], Any]:
    """Return the loss of the spiking network in plugrad."""
    steps = [pg.asarray(current) for current in currents()]

    def loss(first: Any, second: Any) -> Any:
        hidden = pg.zeros((SPIKE_BATCH, HIDDEN))
        output = pg.zeros((SPIKE_BATCH, OUTPUTS))
        total = pg.zeros((SPIKE_BATCH, OUTPUTS))
        for current in steps:
            spikes, hidden = fire(current @ first, hidden)
            spikes, output = fire(spikes @ second, output)
            total = total + spikes
        return pg.mean(total * total)

    return loss


def compare_with_snntorch() -> None:
    """Print a row about the gradients of the spiking network."""
    first, second = [pg.asarray(w) for w in spiking_weights()]
    gradients = pg.grads(plugrad_loss())
    surrogate = attr.surrogates.fast_sigmoid(slope=SLOPE)
    with pg.use_gradients(surrogate):
        ours = lambda w: gradients(w, second)[0]
        compare("snntorch, fast_sigmoid", snntorch_gradients(), ours, first)


# --- comparing -------------------------------------------------------------------


CALLS = 8  # in a turn


def compare(
    name: str, theirs: Callable[[], Any], ours: Callable[[Any], Any], x: pg.Tensor
) -> None:
    """Print the difference of the results, and the times."""
    expected, found = theirs(), ours(x).numpy()
    difference = np.abs(found - expected).max() / np.abs(expected).max()
    jitted = pg.jit(ours)
    peer, eager, replayed = best_ms(
        [theirs, lambda: ours(x).numpy(), lambda: jitted(x).numpy()], calls=CALLS
    )
    reason = jitted.explain(x).reason
    if reason:
        raise RuntimeError(f"{name}: jit does not replay: {reason}")
    line = f"{name:23} {difference:8.0e} {peer:7.1f}ms"
    print(f"{line} {eager / peer:8.3f} {replayed / peer:6.3f}", flush=True)


def main() -> None:
    """Print a table."""
    torch.set_num_threads(1)
    print("peer                    difference   peer   plugrad    jit")
    compare_with_lxt()
    compare_with_snntorch()


if __name__ == "__main__":
    main()
