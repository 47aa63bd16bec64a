"""Record zennit's relevances, which the tests compare with.

``python -m tests.attribution.reference`` writes ``reference.json``. It needs torch,
torchvision and zennit: ``pip install torch torchvision zennit``. The numbers are
float64; the networks have random weights.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

PATH = Path(__file__).with_name("reference.json")
TARGET = 1
LOW, HIGH = -3.0, 3.5


def weights() -> dict[str, np.ndarray]:
    """Return the parameters of a small network, in plugrad's layout."""
    random = np.random.default_rng(5)
    shapes = {
        "w1": (3, 3, 2, 4),
        "b1": (4,),
        "w2": (3, 3, 4, 4),
        "b2": (4,),
        "w3": (16, 6),
        "b3": (6,),
        "w4": (6, 3),
        "b4": (3,),
    }
    return {name: random.normal(size=shape) / 2 for name, shape in shapes.items()}


def examples() -> np.ndarray:
    """Return inputs of both signs."""
    return np.random.default_rng(6).normal(size=(2, 8, 8, 2))


def network(
    first: str = "ReLU",
    pool: str = "MaxPool2d",
    second: str = "ReLU",
    third: str = "ReLU",
) -> Any:
    """Return a PyTorch network with the named activation and pooling modules."""
    import torch

    nn, given = torch.nn, weights()
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        getattr(nn, first)(),
        getattr(nn, pool)(2),
        nn.Conv2d(4, 4, 3, padding=1),
        getattr(nn, second)(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 6),
        getattr(nn, third)(),
        nn.Linear(6, 3),
    ).double()
    layers = [layer for layer in net if hasattr(layer, "weight")]
    with torch.no_grad():
        for number, layer in enumerate(layers, 1):
            w = given[f"w{number}"]
            if number == 3:  # PyTorch flattens images with the channels first
                w = w.reshape(2, 2, 4, 6).transpose(2, 0, 1, 3).reshape(16, 6)
            moved = w.transpose(3, 2, 0, 1) if w.ndim == 4 else w.T
            layer.weight.copy_(torch.tensor(np.ascontiguousarray(moved)))
            layer.bias.copy_(torch.tensor(given[f"b{number}"]))
    return net.eval()


def composites() -> dict[str, Any]:
    """Return zennit's composites."""
    import torch
    from zennit import composites, rules
    from zennit.types import Activation, AvgPool, Convolution, Linear

    def composite(conv: Any, dense: Any, first: Any = None) -> Any:
        table = [
            (Activation, rules.Pass()),
            (AvgPool, rules.Norm()),
            (Convolution, conv),
            (Linear, dense),
        ]
        first_map = [] if first is None else [(Convolution, first)]
        return composites.SpecialFirstLayerMapComposite(table, first_map)

    def both(make: Any) -> Any:
        return composite(make(), make())

    epsilon = rules.Epsilon()
    low, high = [torch.full((1, 2, 1, 1), v, dtype=torch.float64) for v in (LOW, HIGH)]
    return {
        "Epsilon()": both(rules.Epsilon),
        "Epsilon(0.25)": both(lambda: rules.Epsilon(0.25)),
        "ZPlus()": both(rules.ZPlus),
        "ZPlus(zero_bias)": both(lambda: rules.ZPlus(zero_params="bias")),
        "Gamma()": both(lambda: rules.Gamma(0.25)),
        "AlphaBeta()": both(lambda: rules.AlphaBeta(2, 1)),
        "AlphaBeta(1, 0)": composite(rules.AlphaBeta(1, 0), epsilon),
        "WSquare()": composite(rules.ZPlus(), epsilon, rules.WSquare()),
        "EpsilonPlus": composites.EpsilonPlus(),
        "EpsilonPlusFlat": composites.EpsilonPlusFlat(),
        "EpsilonGammaBox": composites.EpsilonGammaBox(low=low, high=high),
        "EpsilonAlpha2Beta1": composites.EpsilonAlpha2Beta1(),
        "EpsilonAlpha2Beta1Flat": composites.EpsilonAlpha2Beta1Flat(),
        "ExcitationBackprop": composites.ExcitationBackprop(),
    }


def record() -> None:
    """Compute the relevances with zennit, and write them."""
    import torch
    from zennit.attribution import Gradient

    net = network()
    x = torch.tensor(examples().transpose(0, 3, 1, 2).copy())
    hot = torch.zeros(2, 3, dtype=torch.float64)
    hot[:, TARGET] = 1
    lines = []
    for name, chosen in composites().items():
        with Gradient(net, chosen) as attributor:
            _, relevance = attributor(x, lambda y: y * hot)
        values = relevance.detach().numpy().transpose(0, 2, 3, 1).ravel()
        lines.append(f'"{name}": [{", ".join(f"{value:.14e}" for value in values)}]')
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> dict[str, np.ndarray]:
    """Return the recorded relevances by case."""
    found = json.loads(PATH.read_text())
    return {name: np.reshape(row, (2, 8, 8, 2)) for name, row in found.items()}


if __name__ == "__main__":
    record()
