"""Record the surrogate gradients of snntorch, which the tests compare with.

``python -m tests.attribution.reference_surrogates`` writes two files. It needs torch
and snntorch: ``pip install torch snntorch``. ``reference_surrogates.json`` contains the
gradient of each surrogate at 1,000 points in float64. ``reference_spikes.json``
contains the loss and the gradients of a spiking network in float32, because the spikes
of snntorch are float32.

Contents: the points and the network; both in PyTorch; the records.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("reference_surrogates.json")
SPIKES_PATH = Path(__file__).with_name("reference_spikes.json")
SURROGATES = (
    "fast_sigmoid",
    "atan",
    "sigmoid",
    "triangular",
    "spike_rate_escape",
    "straight_through",
)
# Some potentials are far below the threshold, where snntorch's sigmoid is NaN.
TRAINED = tuple(name for name in SURROGATES if name != "sigmoid")
STEPS, BATCH, INPUTS, HIDDEN, OUTPUTS = 25, 4, 8, 6, 3
BETA = 0.9  # the share of its potential that a neuron keeps in a step


def points() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs of a step function, and cotangents."""
    random = np.random.default_rng(21)
    x = random.normal(size=1000)
    x[:3] = 0.0, 1.0, -1.0
    return x, np.round(random.normal(size=1000) * 8) / 8


def weights() -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of a network with two layers of neurons."""
    random = np.random.default_rng(22)
    first = random.normal(size=(INPUTS, HIDDEN)) / 2
    second = random.normal(size=(HIDDEN, OUTPUTS)) / 2
    return first.astype(np.float32), second.astype(np.float32)


def inputs() -> np.ndarray:
    """Return the currents into the network in each step."""
    random = np.random.default_rng(23)
    return random.uniform(size=(STEPS, BATCH, INPUTS)).astype(np.float32)


# --- snntorch --------------------------------------------------------------------


def surrogate(name: str) -> Any:
    """Return snntorch's spike function with the parameters of our pack."""
    from snntorch import surrogate as found

    parameters = {
        "fast_sigmoid": {"slope": 25},
        "atan": {"alpha": 2.0},
        "sigmoid": {"slope": 25},
        "triangular": {"threshold": 1},
        "spike_rate_escape": {"beta": 1, "slope": 25},
    }
    if name == "straight_through":
        return found.straight_through_estimator()
    return getattr(found, name)(**parameters[name])


def gradient(name: str) -> np.ndarray:
    """Return the gradient of a spike at the points."""
    import torch

    x, dy = points()
    x = torch.tensor(x, requires_grad=True)
    y = surrogate(name)(x)
    (found,) = torch.autograd.grad(y, x, torch.tensor(dy).to(y.dtype))
    return found.numpy()


def train(name: str) -> tuple[float, list[np.ndarray]]:
    """Return the loss of the network, and the gradients of its weights."""
    import snntorch
    import torch

    first, second = (torch.tensor(w, requires_grad=True) for w in weights())
    layers = [
        snntorch.Leaky(
            beta=BETA, spike_grad=surrogate(name), reset_mechanism="subtract"
        )
        for _ in range(2)
    ]
    potentials = [layer.init_leaky() for layer in layers]
    total = 0
    for current in torch.tensor(inputs()):
        spikes, potentials[0] = layers[0](current @ first, potentials[0])
        spikes, potentials[1] = layers[1](spikes @ second, potentials[1])
        total = total + spikes
    loss = (total * total).mean()
    found = torch.autograd.grad(loss, (first, second))
    return loss.item(), [w.numpy() for w in found]


# --- the records -----------------------------------------------------------------


def record() -> None:
    """Compute the gradients with snntorch, and write them."""
    lines = [f'"{name}": {_row(gradient(name))}' for name in SURROGATES]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    lines = []
    for name in TRAINED:
        loss, (first, second) = train(name)
        rows = [json.dumps(loss), _row(first.ravel()), _row(second.ravel())]
        lines.append(f'"{name}": [{", ".join(rows)}]')
    SPIKES_PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _row(values: np.ndarray) -> str:
    return json.dumps(values.tolist())


def recorded() -> dict[str, np.ndarray]:
    """Return the recorded gradients at the points, by surrogate."""
    return {name: np.asarray(row) for name, row in json.loads(PATH.read_text()).items()}


def recorded_training(name: str) -> tuple[float, list[np.ndarray]]:
    """Return the recorded loss of the network, and the gradients of its weights."""
    loss, first, second = json.loads(SPIKES_PATH.read_text())[name]
    shapes = [(INPUTS, HIDDEN), (HIDDEN, OUTPUTS)]
    rows = zip((first, second), shapes, strict=True)
    return loss, [np.asarray(w, np.float32).reshape(shape) for w, shape in rows]


if __name__ == "__main__":
    record()
