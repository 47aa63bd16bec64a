"""Compare plugrad-attribution with zennit: the relevances, and the time.

Each network exists twice, in PyTorch and in plugrad, with the same random weights. The
script prints the largest difference divided by the largest relevance, in float64 and
float32, and the time of plugrad divided by that of zennit, on one thread, eager and
with ``jit``. The libraries take turns in one process, and the best turn counts.
zennit's composite is registered once, before the clock starts::

    OMP_NUM_THREADS=1 python -m benchmarks.attribution

In addition to plugrad, it needs ``pip install torch torchvision zennit``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import torch
from torch import nn
from zennit import composites, rules
from zennit.attribution import Gradient
from zennit.layer import Sum
from zennit.types import Activation, AvgPool, Convolution, Linear

from benchmarks.turns import best_ms

TARGET = 3
LOW, HIGH = -6.0, 6.0


class Network(NamedTuple):
    """A network in both libraries, and the shape of its input, channels first."""

    torch: nn.Module
    plugrad: Callable[[Any], Any]
    shape: tuple[int, ...]


# --- layers in both libraries ----------------------------------------------------


Step = Callable[[Any], Any]


def conv(module: nn.Conv2d) -> Step:
    """Return a plugrad function that computes a PyTorch convolution."""
    w = pg.asarray(module.weight.detach().numpy().transpose(2, 3, 1, 0).copy())
    b = pg.asarray(module.bias.detach().numpy().copy())
    return lambda x: pg.conv2d(x, w, pad="same") + b


def dense(module: nn.Linear) -> Step:
    """Return a plugrad function that computes a PyTorch linear layer."""
    w = pg.asarray(module.weight.detach().numpy().T.copy())
    b = pg.asarray(module.bias.detach().numpy().copy())
    return lambda x: x @ w + b


class Residual(nn.Module):
    """Two convolutions and a shortcut, as in ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.relu, self.last = nn.ReLU(), nn.ReLU()
        self.sum = Sum()

    def forward(self, x: Any) -> Any:
        """Return the sum of both branches."""
        y = self.second(self.relu(self.first(x)))
        return self.last(self.sum(torch.stack([x, y], dim=-1)))

    def plugrad(self) -> Step:
        """Return a plugrad function that computes this block."""
        first, second = conv(self.first), conv(self.second)
        return lambda x: pg.relu(x + second(pg.relu(first(x))))


class Dense(nn.Module):
    """A convolution whose result is appended to its input, as in DenseNet."""

    def __init__(self, width: int, growth: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, growth, 3, padding=1)
        self.relu = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Return the input and the new channels."""
        return torch.cat([x, self.relu(self.conv(x))], dim=1)

    def plugrad(self) -> Step:
        """Return a plugrad function that computes this block."""
        new = conv(self.conv)
        return lambda x: pg.concat([x, pg.relu(new(x))], axis=-1)


def flatten(x: Any) -> Any:
    """Flatten channels-last images in PyTorch's order, with the channels first."""
    return pg.reshape(pg.permute_dims(x, (0, 3, 1, 2)), (x.shape[0], -1))


def converted(module: Any) -> Step:
    """Return a PyTorch module as a plugrad function of channels-last images."""
    if isinstance(module, nn.Conv2d):
        return conv(module)
    if isinstance(module, nn.Linear):
        return dense(module)
    plain: dict[Any, Step] = {
        nn.ReLU: pg.relu,
        nn.MaxPool2d: lambda x: pg.max_pool(x, 2, strides=2),
        nn.AvgPool2d: lambda x: pg.avg_pool(x, 2, strides=2),
        nn.Flatten: flatten,
    }
    return plain.get(type(module)) or module.plugrad()


def sequence(steps: list[Step]) -> Step:
    """Return a function that applies steps in order."""

    def f(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return f


# --- networks --------------------------------------------------------------------


def networks(dtype: Any) -> dict[str, Network]:
    """Return the networks, with random weights and biases."""
    torch.manual_seed(0)
    head = [nn.Flatten(), nn.Linear(32 * 64, 64), nn.ReLU(), nn.Linear(64, 10)]
    small = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)]
    small += [nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()]
    vgg: list[nn.Module] = []
    for before, after in ((3, 32), (32, 32), (32, 64), (64, 64)):
        vgg += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        vgg += [nn.MaxPool2d(2)] if after == before else []
    vgg += [nn.Flatten(), nn.Linear(64 * 64, 10)]
    stem = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    resnet = [*stem, Residual(16), nn.MaxPool2d(2), Residual(16), nn.AvgPool2d(2)]
    resnet += [nn.Flatten(), nn.Linear(16 * 64, 10)]
    densenet = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), Dense(16, 8), Dense(24, 8)]
    densenet += [nn.AvgPool2d(2), Dense(32, 8), nn.AvgPool2d(2), nn.Flatten()]
    densenet += [nn.Linear(40 * 64, 10)]
    lists = {
        "cnn": [*small, nn.AvgPool2d(2), *head],
        "vgg": vgg,
        "resnet": resnet,
        "densenet": densenet,
    }
    found = {}
    for name, modules in lists.items():
        net = nn.Sequential(*modules).to(dtype).eval()
        with torch.no_grad():
            for parameter in net.parameters():
                if parameter.ndim == 1:
                    parameter.copy_(torch.randn_like(parameter) / 10)
        f = sequence([converted(module) for module in net])
        found[name] = Network(net, f, (8, 3, 32, 32))
    return found


def cases(dtype: Any) -> dict[str, tuple[attr.Composite, Any]]:
    """Return composites of both libraries by name."""

    def layer_map(conv: Any, dense: Any) -> Any:
        table = [(Activation, rules.Pass()), (AvgPool, rules.Norm())]
        table += [(Sum, rules.Norm()), (Convolution, conv), (Linear, dense)]
        return composites.SpecialFirstLayerMapComposite(table, [])

    epsilon = rules.Epsilon
    low, high = [torch.full((1, 3, 1, 1), v, dtype=dtype) for v in (LOW, HIGH)]
    return {
        "Epsilon": (attr.Composite(), layer_map(epsilon(), epsilon())),
        "Gamma": (
            attr.Composite(attr.Gamma()),
            layer_map(rules.Gamma(0.25), epsilon()),
        ),
        "EpsilonPlus": (attr.EpsilonPlus(), composites.EpsilonPlus()),
        "EpsilonPlusFlat": (attr.EpsilonPlusFlat(), composites.EpsilonPlusFlat()),
        "EpsilonGammaBox": (
            attr.EpsilonGammaBox(LOW, HIGH),
            composites.EpsilonGammaBox(low=low, high=high),
        ),
        "EpsilonAlpha2Beta1Flat": (
            attr.EpsilonAlpha2Beta1Flat(),
            composites.EpsilonAlpha2Beta1Flat(),
        ),
    }


# --- comparing -------------------------------------------------------------------


def difference(net: Network, ours: attr.Composite, theirs: Any, dtype: Any) -> float:
    """Return the largest difference of relevances, relative to the largest one."""
    x, hot = inputs(net, dtype)
    with Gradient(net.torch, theirs) as attributor:
        expected = attributor(x, lambda y: y * hot)[1].detach().numpy()
    images = np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1))
    found = attr.attribute(net.plugrad, images, ours, TARGET).input.numpy()
    gap = np.abs(found.transpose(0, 3, 1, 2) - expected).max()
    return float(gap / np.abs(expected).max())


def inputs(net: Network, dtype: Any) -> tuple[Any, Any]:
    """Return examples, and a cotangent that selects the output to explain."""
    x = torch.tensor(np.random.default_rng(0).normal(size=net.shape), dtype=dtype)
    hot = torch.zeros(net.shape[0], 10, dtype=dtype)
    hot[:, TARGET] = 1
    return x, hot


def times(net: Network, ours: attr.Composite, theirs: Any) -> list[float]:
    """Return the times of zennit, of plugrad, and of plugrad with ``jit``."""
    x, hot = inputs(net, torch.float32)
    images = pg.asarray(np.ascontiguousarray(x.numpy().transpose(0, 2, 3, 1)))
    f = net.plugrad
    explain = lambda x: attr.attribute(f, x, ours, TARGET).input
    jitted = pg.jit(explain)
    with Gradient(net.torch, theirs) as attributor:
        return best_ms(
            [
                lambda: attributor(x, lambda y: y * hot)[1].detach().numpy(),
                lambda: explain(images).numpy(),
                lambda: jitted(images).numpy(),
            ]
        )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", default="cnn,vgg,resnet,densenet")
    parser.add_argument("--no-times", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    exact, single = networks(torch.float64), networks(torch.float32)
    print("network   composite               float64  float32  zennit  plugrad    jit")
    for name in options.networks.split(","):
        for rule in cases(torch.float32):
            line = f"{name:9} {rule:23}"
            for nets, dtype in ((exact, torch.float64), (single, torch.float32)):
                ours, theirs = cases(dtype)[rule]
                line += f" {difference(nets[name], ours, theirs, dtype):8.0e}"
            if not options.no_times:
                ours, theirs = cases(torch.float32)[rule]
                slow, eager, jitted = times(single[name], ours, theirs)
                line += f" {slow:6.1f}ms {eager / slow:7.2f} {jitted / slow:6.2f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
