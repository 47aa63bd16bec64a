"""scikit-learn on tensors gives what it gives on NumPy arrays, as tensors."""

import subprocess
import sys
import unittest

import numpy as np
import plugrad as pg
import pytest

pytest.importorskip("sklearn", reason="needs the group consumers: make test-consumers")

import sklearn
from plugrad_conformance.check import require_dtypes
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.svm import SVC
from sklearn.utils import all_estimators, get_tags
from sklearn.utils._test_common.instance_generator import _construct_instances

from .sklearn_data import data
from .sklearn_rows import ESTIMATORS, METRICS, ROWS


def cases():
    """Return a case for each row, data set and dtype; few are quick."""
    for row in ROWS:
        for name in row.data:
            for dtype in ("float64", "float32"):
                quick = row.quick and name == row.data[0] and dtype == "float64"
                marks = () if quick else pytest.mark.consumers_all
                label = f"{row.name}-{name}-{dtype}"
                yield pytest.param(row, name, dtype, id=label, marks=marks)


class Same:
    """Compares what a row returns for tensors with what it returns for arrays.

    Attributes:
        row: The row.
        backend: Where tensors must be.
        rtol: The tolerance.

    """

    def __init__(self, row, backend, dtype):
        self.row, self.backend = row, backend
        self.rtol = row.rtol if dtype == "float32" else row.rtol**2

    def check(self, found, expected, at):
        """Compare values, or all parts of them; ``at`` says which part it is."""
        if isinstance(expected, dict):
            assert found.keys() == expected.keys(), at
            for name, value in expected.items():
                self.check(found[name], value, f"{at}.{name}")
        elif isinstance(expected, list | tuple):
            assert len(found) == len(expected), at
            for n, value in enumerate(expected):
                self.check(found[n], value, f"{at}[{n}]")
        elif isinstance(expected, np.ndarray) and expected.dtype.kind in "biuf":
            self.check_array(found, expected, at)
        elif isinstance(expected, float | int | np.number):
            self.close(float(found), expected, at)
        elif hasattr(expected, "get_params"):
            self.check(vars(found), vars(expected), at)
        else:
            assert type(found) is type(expected), at

    def check_array(self, found, expected, at):
        """Compare a tensor, or a NumPy array if the row gives one, with an array."""
        if self.row.host:
            assert isinstance(found, np.ndarray), (at, type(found))
        else:
            assert isinstance(found, pg.Tensor), (at, type(found))
            assert found.backend == self.backend, at
        self.close(np.asarray(found), expected, at)

    def close(self, found, expected, at):
        rtol = self.rtol
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=at)


@pytest.mark.parametrize(("row", "name", "dtype"), [*cases()])
def test_results_are_those_of_numpy(row, name, dtype, backend):
    require_dtypes(backend, dtype)
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in data(name)]
    expected = row(*arrays)
    with sklearn.config_context(array_api_dispatch=True):
        found = row(*map(pg.asarray, arrays))
    Same(row, backend, dtype).check(found, expected, row.name)


CONVERTING = [
    KMeans(3, n_init=1, random_state=0),
    RandomForestClassifier(3, random_state=0),
    SVC(),
]


@pytest.mark.parametrize("estimator", CONVERTING, ids=lambda e: type(e).__name__)
def test_without_dispatch_tensors_become_numpy_arrays(estimator, backend):
    require_dtypes(backend, "float64")
    x, y = data("iris")
    expected = clone(estimator).fit(x, y).predict(x)
    found = clone(estimator).fit(pg.asarray(x), pg.asarray(y)).predict(pg.asarray(x))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)


def test_inputs_of_other_backends_follow_the_active_one(backend):
    require_dtypes(backend, "float64")
    x, y = data("diabetes")
    expected = Ridge(solver="svd").fit(x, y).coef_
    with sklearn.config_context(array_api_dispatch=True):
        there = pg.asarray(x, device="cpu"), pg.asarray(y)
        found = Ridge(solver="svd").fit(*there).coef_
    assert found.backend == backend
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def supports_arrays(kind):
    """Return whether a class of estimators has the tag, as scikit-learn tests it."""
    try:
        return any(get_tags(e).array_api_support for e in _construct_instances(kind))
    except unittest.SkipTest:  # it has no instances of its own
        return False


CHECKED = """
from sklearn.metrics.tests.test_common import array_api_metric_checkers
print(*{getattr(m, "func", m).__name__ for m in array_api_metric_checkers})
"""


@pytest.mark.filterwarnings("ignore")  # of classes that are deprecated, or skipped
@pytest.mark.consumers_all
def test_the_rows_are_all_that_scikit_learn_supports():
    tagged = {name for name, kind in all_estimators() if supports_arrays(kind)}
    assert tagged >= {"PCA", "Ridge"}
    assert tagged <= {row.name.partition(" ")[0] for row in ESTIMATORS}
    # in a process: the module has marks that are unknown here
    command = [sys.executable, "-W", "ignore", "-c", CHECKED]
    checked = {*subprocess.check_output(command, text=True).split()}
    assert checked >= {"accuracy_score", "r2_score"}
    assert checked <= {row.name.partition(" ")[0] for row in METRICS}
