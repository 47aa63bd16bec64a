"""The networks of ``reference_methods`` written with plugrad's ops."""

import numpy as np
import plugrad as pg

from tests.attribution.reference import weights
from tests.attribution.reference_methods import NETWORKS

OPS = {
    "AvgPool2d": lambda x: pg.avg_pool(x, 2, strides=2),
    "ELU": pg.elu,
    "Identity": lambda x: x,
    "LeakyReLU": lambda x: pg.leaky_relu(x, alpha=0.01),
    "MaxPool2d": lambda x: pg.max_pool(x, 2, strides=2),
    "ReLU": pg.relu,
    "Sigmoid": pg.sigmoid,
    "Softplus": pg.softplus,
    "Tanh": pg.tanh,
}


def network(name, dtype):
    """Return a network; the scope of its second convolution is ``conv2``."""
    w = {n: pg.asarray(value.astype(dtype)) for n, value in weights().items()}
    first, pool, second, third = [OPS[op] for op in NETWORKS[name]]

    def f(x):
        h = pool(first(pg.conv2d(x, w["w1"], pad="same") + w["b1"]))
        with pg.name_scope("conv2"):
            h = second(pg.conv2d(h, w["w2"], pad="same") + w["b2"])
        h = pg.reshape(pg.avg_pool(h, 2, strides=2), (-1, 16))
        return third(h @ w["w3"] + w["b3"]) @ w["w4"] + w["b4"]

    return f


def precision(backend):
    """Return the dtype in which to compare a backend, and the tolerance."""
    return ("float32", 1e-5) if backend == "opencl" else ("float64", 1e-12)


def difference(found, expected):
    """Return the largest difference divided by the largest value."""
    found, expected = np.ravel(found.numpy()), np.ravel(expected)
    return np.abs(found - expected).max() / np.abs(expected).max()
