"""``pg.grad`` through scikit-learn equals finite differences."""

import numpy as np
import plugrad as pg
import pytest

pytest.importorskip("sklearn", reason="needs the group consumers: make test-consumers")

import sklearn
from plugrad_conformance.check import require_dtypes
from sklearn import metrics
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import pairwise

from .sklearn_data import data

RAW_VALUES = {"multioutput": "raw_values"}
Y, PREDICTED = (table[:6] / table.mean(0) for table in data("targets"))
X1, X2 = (table[:20] for table in data("positive"))
FUNCTIONS = {  # scikit-learn returns a tensor
    "mean_squared_error": lambda x: metrics.mean_squared_error(Y, x, **RAW_VALUES),
    "r2_score": lambda x: metrics.r2_score(Y, x, **RAW_VALUES),
    "rbf_kernel": lambda x: pairwise.rbf_kernel(x, pg.asarray(X2)),
    "cosine_similarity": lambda x: pairwise.cosine_similarity(x, pg.asarray(X2)),
    "euclidean_distances": lambda x: pairwise.euclidean_distances(x, pg.asarray(X2)),
    "chi2_kernel": lambda x: pairwise.chi2_kernel(x, pg.asarray(X2)),
    "Ridge": lambda x: Ridge(solver="svd").fit(x, pg.asarray(X2[:, 0])).coef_,
    "PCA": lambda x: PCA(2, svd_solver="covariance_eigh").fit_transform(x),
}
NUMBERS = {  # scikit-learn returns a Python float
    "mean_squared_error": lambda x: metrics.mean_squared_error(Y, x),
    "r2_score": lambda x: metrics.r2_score(Y, x),
    "d2_tweedie_score": lambda x: metrics.d2_tweedie_score(Y[:, 0], x[:, 0]),
    "log_loss": lambda x: metrics.log_loss([0, 1, 2, 0, 1, 2], pg.softmax(x)),
}


@pytest.fixture(autouse=True)
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_equal_finite_differences(name, backend):
    require_dtypes(backend, "float64")
    x = PREDICTED if name in ("mean_squared_error", "r2_score") else X1
    pg.check_gradients(FUNCTIONS[name], pg.asarray(x))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_result_that_is_a_float_cannot_be_differentiated(name, backend):
    with pytest.raises(TypeError, match="f must return tensors, got float"):
        pg.grad(NUMBERS[name])(pg.asarray(np.float32(PREDICTED)))
