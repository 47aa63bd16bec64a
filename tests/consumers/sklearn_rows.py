"""Calls of everything in scikit-learn that is documented to support the array API.

Each row is called with NumPy arrays and with tensors of the same data. It returns what
a user sees: results, and the fitted attributes and method results of estimators.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sklearn import metrics, model_selection
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
    RidgeClassifierCV,
    RidgeCV,
)
from sklearn.metrics import pairwise
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    HalvingRandomSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    Binarizer,
    KernelCenterer,
    LabelBinarizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    StandardScaler,
    label_binarize,
)
from sklearn.utils import check_consistent_length


@dataclass(frozen=True)
class Row:
    """A call.

    Attributes:
        name: Its name.
        call: The function, or an estimator, which is fitted and then used.
        data: The names of data sets; each set is the arguments of one test.
        quick: Whether it also runs without ``--all``.
        host: Whether scikit-learn returns NumPy arrays, whatever the arguments are.
        rtol: The relative tolerance in float32; that in float64 is its square.

    """

    name: str
    call: Any
    data: tuple[str, ...]
    quick: bool = False
    host: bool = False
    rtol: float = 1e-3

    def __call__(self, *args: Any) -> Any:
        if isinstance(self.call, BaseEstimator):
            return fitted_results(clone(self.call), *args)
        return self.call(*args)


def fitted_results(estimator: Any, x: Any, *y: Any) -> dict[str, Any]:
    """Fit an estimator; return its attributes and the results of its methods."""
    calls = {
        "transform": (x,),
        "predict": (x,),
        "predict_proba": (x,),
        "decision_function": (x,),
        "score_samples": (x,),
        "score": (x, *y),
        "get_covariance": (),
        "get_precision": (),
    }
    estimator.fit(x, *y)
    found = {n: v for n, v in vars(estimator).items() if n.endswith("_")}
    for name in ("n_iter_", "refit_time_"):  # depend on rounding, or measure time
        found.pop(name, None)
    if "cv_results_" in found:  # NumPy arrays, including times
        found["cv_results_"] = found["cv_results_"]["mean_test_score"].tolist()
    for name, args in calls.items():
        if hasattr(estimator, name):
            found[name] = getattr(estimator, name)(*args)
    if hasattr(estimator, "inverse_transform") and "transform" in found:
        found["inverse"] = estimator.inverse_transform(found["transform"])
    if hasattr(estimator, "fit_transform"):
        found["fit_transform"] = estimator.fit_transform(x, *y)
    return found


# --- estimators ------------------------------------------------------------------

RIDGE = Ridge(solver="svd")
GRID = {"alpha": [0.1, 1.0, 10.0]}
HALVING = {"cv": 3, "min_resources": 60, "factor": 2}
CALIBRATED = partial(CalibratedClassifierCV, method="temperature", cv=3)
MIXTURE = partial(GaussianMixture, 3, random_state=0, init_params="random_from_data")


def calibrated(x: Any, y: Any) -> dict[str, Any]:
    """Calibrate a classifier that is already fitted."""
    frozen = FrozenEstimator(LinearDiscriminantAnalysis().fit(x, y))
    return fitted_results(CALIBRATED(frozen, ensemble=False), x, y)


ESTIMATORS = [
    Row("PCA", PCA(2, svd_solver="full"), ("iris",), quick=True),
    Row("PCA covariance_eigh", PCA(2, svd_solver="covariance_eigh"), ("iris",)),
    Row(
        "PCA randomized",
        PCA(
            2, svd_solver="randomized", power_iteration_normalizer="QR", random_state=0
        ),
        ("iris",),
    ),
    Row("Ridge", RIDGE, ("diabetes",), quick=True),
    Row("RidgeCV", RidgeCV(), ("diabetes",)),
    Row("RidgeClassifier", RidgeClassifier(solver="svd"), ("iris", "cancer")),
    Row("RidgeClassifierCV", RidgeClassifierCV(), ("iris", "cancer")),
    Row("LogisticRegression", LogisticRegression(tol=1e-7), ("iris", "cancer")),
    Row(
        "LogisticRegression balanced",
        LogisticRegression(tol=1e-7, class_weight="balanced"),
        ("iris",),
    ),
    Row("PoissonRegressor", PoissonRegressor(tol=1e-7), ("diabetes",)),
    Row(
        "LinearDiscriminantAnalysis",
        LinearDiscriminantAnalysis(solver="svd"),
        ("iris", "cancer"),
    ),
    Row("GaussianNB", GaussianNB(), ("iris",), quick=True),
    *[
        Row(f"GaussianMixture {kind}", MIXTURE(covariance_type=kind), ("flowers",))
        for kind in ("diag", "spherical", "tied")
    ],
    Row(
        "GaussianMixture full",
        GaussianMixture(3, reg_covar=0.0, random_state=0, init_params="random"),
        ("flowers",),
    ),
    Row("Nystroem", Nystroem(n_components=10, random_state=0), ("flowers",)),
    Row("Binarizer", Binarizer(threshold=0.5), ("flowers",)),
    Row("KernelCenterer", KernelCenterer(), ("kernel",)),
    Row("LabelBinarizer", LabelBinarizer(), ("classes",)),
    Row("LabelEncoder", LabelEncoder(), ("classes",), quick=True),
    Row("MaxAbsScaler", MaxAbsScaler(), ("flowers",)),
    Row("MinMaxScaler", MinMaxScaler(), ("flowers",)),
    *[Row(f"Normalizer {n}", Normalizer(norm=n), ("flowers",)) for n in ("l1", "l2")],
    Row("Normalizer max", Normalizer(norm="max"), ("flowers",)),
    Row("PolynomialFeatures", PolynomialFeatures(3), ("flowers",)),
    Row("StandardScaler", StandardScaler(), ("flowers",), quick=True),
    Row(
        "FeatureUnion",
        FeatureUnion([("a", StandardScaler()), ("b", PCA(2, svd_solver="full"))]),
        ("flowers",),
    ),
    Row(
        "Pipeline",
        make_pipeline(StandardScaler(), PCA(2, svd_solver="full"), GaussianNB()),
        ("iris",),
    ),
    Row("CalibratedClassifierCV", CALIBRATED(GaussianNB()), ("iris", "cancer")),
    Row("CalibratedClassifierCV frozen", calibrated, ("iris",)),
    Row("GridSearchCV", GridSearchCV(RIDGE, GRID, cv=3), ("diabetes",)),
    Row(
        "RandomizedSearchCV",
        RandomizedSearchCV(RIDGE, GRID, n_iter=2, cv=3, random_state=0),
        ("diabetes",),
    ),
    Row(
        "HalvingGridSearchCV",
        HalvingGridSearchCV(RIDGE, GRID, random_state=0, **HALVING),
        ("diabetes",),
    ),
    Row(
        "HalvingRandomSearchCV",
        HalvingRandomSearchCV(RIDGE, GRID, n_candidates=3, random_state=0, **HALVING),
        ("diabetes",),
    ),
]

# --- metrics ---------------------------------------------------------------------

LABELS = ("three", "two", "indicators")
PROBABILITIES = ("of three", "of two")
TARGETS = ("target", "targets")
MACRO = {"average": "macro"}


def metric(name: str, *data: str, quick: bool = False, **options: Any) -> Row:
    """Return the row of a metric that is called with options."""
    row_name = " ".join([name, *map(str, options.values())])
    function = getattr(metrics, name, None) or getattr(pairwise, name)
    return Row(row_name, partial(function, **options), data, quick)


METRICS = [
    metric("accuracy_score", *LABELS, quick=True),
    metric("average_precision_score", "of two"),
    metric("balanced_accuracy_score", "three", "two"),
    metric("brier_score_loss", *PROBABILITIES),
    metric("cohen_kappa_score", "three", "two"),
    metric("confusion_matrix", "three", "two"),
    metric("d2_brier_score", *PROBABILITIES),
    metric("d2_log_loss_score", *PROBABILITIES),
    metric("det_curve", "of two"),
    metric("f1_score", *LABELS, **MACRO),
    metric("fbeta_score", *LABELS, beta=0.5, **MACRO),
    metric("hamming_loss", *LABELS),
    metric("jaccard_score", *LABELS, **MACRO),
    metric("log_loss", *PROBABILITIES, quick=True),
    metric("multilabel_confusion_matrix", *LABELS),
    metric("precision_recall_curve", "of two"),
    metric("precision_recall_fscore_support", *LABELS),
    metric("precision_score", *LABELS, **MACRO),
    metric("recall_score", *LABELS, **MACRO),
    metric("roc_curve", "of two"),
    metric("zero_one_loss", *LABELS),
    metric("d2_absolute_error_score", *TARGETS),
    metric("d2_pinball_score", *TARGETS, alpha=0.1),
    metric("d2_tweedie_score", "target", power=1.5),
    metric("explained_variance_score", *TARGETS),
    metric("max_error", "target"),
    metric("mean_absolute_error", *TARGETS),
    metric("mean_absolute_percentage_error", *TARGETS),
    metric("mean_gamma_deviance", "target"),
    metric("mean_pinball_loss", *TARGETS, alpha=0.1),
    metric("mean_poisson_deviance", "target"),
    metric("mean_squared_error", *TARGETS, quick=True),
    metric("mean_squared_error", "targets", multioutput="raw_values"),
    metric("mean_squared_log_error", "target"),
    metric("mean_tweedie_deviance", "target", power=1.5),
    metric("median_absolute_error", *TARGETS),
    metric("r2_score", *TARGETS, quick=True),
    metric("r2_score", "targets", multioutput="raw_values"),
    metric("root_mean_squared_error", *TARGETS),
    metric("root_mean_squared_log_error", "target"),
    metric("additive_chi2_kernel", "positive"),
    metric("chi2_kernel", "positive"),
    metric("cosine_distances", "pairs"),
    metric("cosine_similarity", "pairs"),
    metric("euclidean_distances", "pairs"),
    metric("laplacian_kernel", "pairs"),
    metric("linear_kernel", "pairs"),
    metric("manhattan_distances", "pairs"),
    metric("paired_cosine_distances", "pairs"),
    metric("paired_euclidean_distances", "pairs"),
    metric("paired_manhattan_distances", "pairs"),
    *[
        metric("pairwise_distances", "pairs", metric=kind)
        for kind in ("cosine", "euclidean", "l1", "l2", "manhattan")
    ],
    metric("pairwise_distances", "pairs", metric="euclidean", n_jobs=2),
    metric("pairwise_distances_argmin", "pairs"),
    *[
        metric("pairwise_kernels", "pairs", metric=kind)
        for kind in ("cosine", "laplacian", "linear", "poly", "rbf", "sigmoid")
    ],
    metric("pairwise_kernels", "positive", metric="chi2"),
    metric("pairwise_kernels", "positive", metric="additive_chi2"),
    metric("polynomial_kernel", "pairs"),
    metric("rbf_kernel", "pairs", quick=True),
    metric("sigmoid_kernel", "pairs"),
    Row(
        "contingency_matrix", metrics.cluster.contingency_matrix, ("three",), host=True
    ),
]

# --- tools -----------------------------------------------------------------------

STRATIFIED = StratifiedKFold(3)


def tool(name: str, *args: Any, **options: Any) -> Callable[..., Any]:
    """Return a call of a ``model_selection`` function with ``args`` before the data."""
    function = getattr(model_selection, name)
    return lambda x, y: function(*(clone(a) for a in args), x, y, **options)


def scored(x: Any, y: Any) -> Any:
    """Return the scores of two metrics in a cross-validation."""
    scoring = ["r2", "neg_mean_squared_error"]
    found = model_selection.cross_validate(clone(RIDGE), x, y, cv=3, scoring=scoring)
    return {name: found[name] for name in found if "time" not in name}


TOOLS = [
    Row("check_consistent_length", check_consistent_length, ("iris",)),
    Row("cross_val_predict", tool("cross_val_predict", RIDGE, cv=3), ("diabetes",)),
    Row(
        "cross_val_score",
        tool("cross_val_score", RIDGE, cv=3),
        ("diabetes",),
        host=True,
    ),
    Row("cross_validate", scored, ("diabetes",), host=True),
    Row(
        "cross_val_predict of classes",
        tool("cross_val_predict", GaussianNB(), cv=STRATIFIED),
        ("iris",),
    ),
    Row(
        "train_test_split",
        tool("train_test_split", random_state=0),
        ("iris",),
        quick=True,
    ),
    Row("label_binarize", lambda y: label_binarize(y, classes=[2, 0, 1]), ("classes",)),
]

ROWS = [*ESTIMATORS, *METRICS, *TOOLS]
