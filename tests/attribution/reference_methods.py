"""Record captum's results, which the tests of the methods compare with.

``python -m tests.attribution.reference_methods`` writes ``reference_methods.json``. It
needs torch and captum: ``pip install torch captum``. The numbers are float64; the
networks have random weights.
"""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.attribution.reference import TARGET, examples, network

PATH = Path(__file__).with_name("reference_methods.json")
STEPS = 20

# The activations and the pooling of each network. For "adjacent", captum is wrong: its
# contributions do not add up to the difference of the outputs.
NETWORKS = {
    "relu": ("Tanh", "MaxPool2d", "ReLU", "ReLU"),
    "smooth": ("Tanh", "AvgPool2d", "Sigmoid", "ELU"),
    "pooled": ("Identity", "MaxPool2d", "Softplus", "LeakyReLU"),
    "adjacent": ("ReLU", "MaxPool2d", "ReLU", "ReLU"),
}


def baselines() -> np.ndarray:
    """Return the examples that serve as baselines."""
    return np.random.default_rng(7).normal(size=(3, 8, 8, 2)) / 2


def images(values: np.ndarray) -> Any:
    """Return images as a tensor with the channels first."""
    import torch

    return torch.tensor(np.ascontiguousarray(values.transpose(0, 3, 1, 2)))


def integrated_gradients(net: Any, x: Any, baseline: Any) -> Any:
    """Return integrated gradients, without captum's rounding of weights to float32."""
    import torch
    from captum import attr

    torch.set_default_dtype(torch.float64)
    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        found = attr.IntegratedGradients(net).attribute(
            x, baseline, TARGET, n_steps=STEPS
        )
    torch.set_default_dtype(torch.float32)
    return found


def results() -> dict[str, Any]:
    """Return captum's results by method and network."""
    from captum import attr

    x, several = images(examples()), images(baselines())
    baseline = several[:1]
    net = network(*NETWORKS["relu"])
    found = {
        "integrated_gradients": integrated_gradients(net, x, baseline),
        "guided_backprop": attr.GuidedBackprop(net).attribute(x, TARGET),
        "deconvnet": attr.Deconvolution(net).attribute(x, TARGET),
        "grad_cam": attr.LayerGradCam(net, net[4]).attribute(
            x, TARGET, relu_attributions=True
        ),
    }
    for name in NETWORKS:
        net = network(*NETWORKS[name])
        values, delta = attr.DeepLift(net).attribute(
            x, baseline, TARGET, return_convergence_delta=True
        )
        found[f"deep_lift {name}"] = values
        found[f"delta {name}"] = delta
    net = network(*NETWORKS["smooth"])
    found["deep_shap"] = attr.DeepLiftShap(net).attribute(x, several, TARGET)
    return found


def record() -> None:
    """Compute the results with captum, and write them."""
    lines = []
    for name, tensor in results().items():
        values = tensor.detach().numpy()
        if values.ndim == 4:
            values = values.transpose(0, 2, 3, 1)
        row = ", ".join(f"{value:.14e}" for value in values.ravel())
        lines.append(f'"{name}": [{row}]')
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded() -> dict[str, np.ndarray]:
    """Return the recorded numbers by case."""
    found = json.loads(PATH.read_text())
    return {name: np.asarray(row) for name, row in found.items()}


if __name__ == "__main__":
    record()
