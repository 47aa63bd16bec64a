"""Real data for scikit-learn: its own data sets, and predictions of simple models."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.naive_bayes import GaussianNB

Arrays = tuple[np.ndarray[Any, Any], ...]


@cache
def data(name: str) -> Arrays:
    """Return the arrays of a data set."""
    return SETS[name]()


def _standardized(name: str) -> Arrays:
    """Return standardized features and the targets, in random order."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(1).permutation(len(y))
    return ((x - x.mean(0)) / x.std(0))[order], y[order]


def _classes(name: str) -> Arrays:
    """Return the true classes, and classes predicted from two features."""
    x, y = data(name)
    return y, GaussianNB().fit(x[:, :2], y).predict(x[:, :2])


def _probabilities(name: str) -> Arrays:
    """Return true classes and probabilities (only of class 1 if there are two)."""
    x, y = data(name)
    p = GaussianNB().fit(x[:, :2], y).predict_proba(x[:, :2])
    return y, p[:, 1] if p.shape[1] == 2 else p


def _indicators() -> Arrays:
    """Return two tables that say which of three measurements exceed their means."""
    tables = datasets.load_linnerud(return_X_y=True)
    return tuple((table > table.mean(0)).astype(np.int64) for table in tables)


def _predicted(load: Callable[..., Arrays]) -> Arrays:
    """Return the targets of a regression, and predicted ones."""
    x, y = load(return_X_y=True)
    return y, Ridge().fit(x, y).predict(x)


SETS: dict[str, Callable[[], Arrays]] = {
    # X and y: three classes, two classes, a regression
    "iris": partial(_standardized, "iris"),
    "cancer": partial(_standardized, "breast_cancer"),
    "diabetes": partial(_standardized, "diabetes"),
    # X alone, and y alone
    "flowers": lambda: data("iris")[:1],
    "kernel": lambda: (rbf_kernel(data("iris")[0]),),
    "classes": lambda: data("iris")[1:],
    # true and predicted values
    "three": partial(_classes, "iris"),
    "two": partial(_classes, "cancer"),
    "indicators": _indicators,
    "of three": partial(_probabilities, "iris"),
    "of two": partial(_probabilities, "cancer"),
    "target": partial(_predicted, datasets.load_diabetes),
    "targets": partial(_predicted, datasets.load_linnerud),
    # two tables of 40 flowers each
    "pairs": lambda: (data("iris")[0][:40], data("iris")[0][40:80]),
    "positive": lambda: tuple(np.abs(table) for table in data("pairs")),
}
