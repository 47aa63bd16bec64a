"""The optimizers that are compared with PyTorch and optax, and the problem they solve.

This module needs only NumPy. The gradient of a parameter is a fixed sequence plus a
share of the parameter itself, except for optimizers that only use the gradient's sign.
"""

import numpy as np

STEPS = 200
RECORDED = (1, 10, 200)
WEIGHTS = (4, 3)
BIAS = (3,)
SGD = {"learning_rate": 0.05}
ADAM = {"learning_rate": 0.02}
RMS = {"learning_rate": 0.01, "decay": 0.99, "eps_in_sqrt": False}
DECAY = {**ADAM, "weight_decay": 0.05}

# name: our optimizer and its arguments; PyTorch's, if it has the same formula
ROWS = {
    "sgd": ("sgd", SGD, ("SGD", {"lr": 0.05})),
    "momentum": (
        "sgd",
        {**SGD, "momentum": 0.9},
        ("SGD", {"lr": 0.05, "momentum": 0.9}),
    ),
    "nesterov": (
        "sgd",
        {**SGD, "momentum": 0.9, "nesterov": True},
        ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True}),
    ),
    "adam": ("adam", ADAM, ("Adam", {"lr": 0.02})),
    "adam_others": (
        "adam",
        {**ADAM, "b1": 0.8, "b2": 0.9, "eps": 1e-3},
        ("Adam", {"lr": 0.02, "betas": (0.8, 0.9), "eps": 1e-3}),
    ),
    "adamw": ("adamw", DECAY, ("AdamW", {"lr": 0.02, "weight_decay": 0.05})),
    "rmsprop": ("rmsprop", {"learning_rate": 0.01}, None),
    "rmsprop_torch": ("rmsprop", RMS, ("RMSprop", {"lr": 0.01})),
    "rmsprop_centered": (
        "rmsprop",
        {**RMS, "centered": True},
        ("RMSprop", {"lr": 0.01, "centered": True}),
    ),
    "rmsprop_momentum": (
        "rmsprop",
        {**RMS, "momentum": 0.9},
        ("RMSprop", {"lr": 0.01, "momentum": 0.9}),
    ),
    "adagrad": ("adagrad", {"learning_rate": 0.1}, None),
    "lion": ("lion", {"learning_rate": 0.003}, None),
}


def start():
    """Return the parameters before the first step."""
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=WEIGHTS), "b": rng.normal(size=BIAS)}


def slopes(step):
    """Return the fixed part of the gradients in a step, which starts at 0."""
    rng = np.random.default_rng(1)
    found = {}
    for name, shape in (("b", BIAS), ("w", WEIGHTS)):
        phase = rng.uniform(0, 6, shape)
        speed = rng.uniform(0.01, 0.5, shape)
        found[name] = np.sin(phase + speed * step) + 0.1
    return found


def pull(row):
    """Return which share of a parameter is added to its gradient."""
    return 0.0 if row == "lion" else 0.5
