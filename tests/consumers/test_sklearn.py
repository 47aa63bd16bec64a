"""scikit-learn returns for tensors what it returns for NumPy arrays, as tensors."""

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
    """Yield a case for each row, data set and dtype; a few run without ``--all``."""
    for row in ROWS:
        for name in row.data:
            for dtype in ("float64", "float32"):
                quick = row.quick and name == row.data[0] and dtype == "float64"
                marks = () if quick else pytest.mark.consumers_all
                label = f"{row.name}-{name}-{dtype}"
                yield pytest.param(row, name, dtype, id=label, marks=marks)


class Comparison:
    """Compares the results of a row for tensors with those for NumPy arrays.

    Attributes:
        row: The row.
        backend: The backend that results must be on.
        rtol: The relative tolerance.

    """

    def __init__(self, row, backend, dtype):
        self.row, self.backend = row, backend
        self.rtol = row.rtol if dtype == "float32" else row.rtol**2

    def check(self, found, expected, path):
        """Compare values, or all parts of them; ``path`` names the part in errors."""
        if isinstance(expected, dict):
            assert found.keys() == expected.keys(), path
            for name, value in expected.items():
                self.check(found[name], value, f"{path}.{name}")
        elif isinstance(expected, list | tuple):
            assert len(found) == len(expected), path
            for n, value in enumerate(expected):
                self.check(found[n], value, f"{path}[{n}]")
        elif isinstance(expected, np.ndarray) and expected.dtype.kind in "biuf":
            self.check_array(found, expected, path)
        elif isinstance(expected, float | int | np.number):
            self.close(float(found), expected, path)
        elif hasattr(expected, "get_params"):
            self.check(vars(found), vars(expected), path)
        else:
            assert type(found) is type(expected), path

    def check_array(self, found, expected, path):
        """Compare a tensor, or a NumPy array if the row gives one, with an array."""
        if self.row.host:
            assert isinstance(found, np.ndarray), (path, type(found))
        else:
            assert isinstance(found, pg.Tensor), (path, type(found))
            assert found.backend == self.backend, path
        self.close(np.asarray(found), expected, path)

    def close(self, found, expected, path):
        rtol = self.rtol
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol, err_msg=path)


@pytest.mark.parametrize(("row", "name", "dtype"), [*cases()])
def test_results_are_those_of_numpy(row, name, dtype, backend):
    require_dtypes(backend, dtype)
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in data(name)]
    expected = row(*arrays)
    with sklearn.config_context(array_api_dispatch=True):
        found = row(*map(pg.asarray, arrays))
    Comparison(row, backend, dtype).check(found, expected, row.name)


WITHOUT_ARRAY_API = [
    KMeans(3, n_init=1, random_state=0),
    RandomForestClassifier(3, random_state=0),
    SVC(),
]


@pytest.mark.parametrize("estimator", WITHOUT_ARRAY_API, ids=lambda e: type(e).__name__)
def test_without_dispatch_tensors_become_numpy_arrays(estimator, backend):
    require_dtypes(backend, "float64")
    x, y = data("iris")
    expected = clone(estimator).fit(x, y).predict(x)
    found = clone(estimator).fit(pg.asarray(x), pg.asarray(y)).predict(pg.asarray(x))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, expected)


def test_inputs_on_other_backends_move_to_the_active_one(backend):
    require_dtypes(backend, "float64")
    x, y = data("diabetes")
    expected = Ridge(solver="svd").fit(x, y).coef_
    with sklearn.config_context(array_api_dispatch=True):
        inputs = pg.asarray(x, device="cpu"), pg.asarray(y)
        found = Ridge(solver="svd").fit(*inputs).coef_
    assert found.backend == backend
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def supports_arrays(kind):
    """Return whether scikit-learn tags an estimator class with array API support."""
    try:
        return any(get_tags(e).array_api_support for e in _construct_instances(kind))
    except unittest.SkipTest:  # scikit-learn cannot create one
        return False


PRINT_CHECKED_METRICS = """
from sklearn.metrics.tests.test_common import array_api_metric_checkers
print(*{getattr(m, "func", m).__name__ for m in array_api_metric_checkers})
"""


@pytest.mark.filterwarnings("ignore")  # about deprecated or skipped classes
@pytest.mark.consumers_all
def test_the_rows_cover_all_that_scikit_learn_supports():
    tagged = {name for name, kind in all_estimators() if supports_arrays(kind)}
    assert tagged >= {"PCA", "Ridge"}
    assert tagged <= {row.name.partition(" ")[0] for row in ESTIMATORS}
    # In a separate process, because the module uses marks that are unknown here.
    command = [sys.executable, "-W", "ignore", "-c", PRINT_CHECKED_METRICS]
    checked = {*subprocess.check_output(command, text=True).split()}
    assert checked >= {"accuracy_score", "r2_score"}
    assert checked <= {row.name.partition(" ")[0] for row in METRICS}
