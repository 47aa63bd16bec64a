"""SciPy accepts tensors and returns NumPy's results, as tensors on the same backend.

The rows are in ``scipy_rows``. Calls that are known to fail are tested as well.
"""

from types import SimpleNamespace

import numpy as np
import plugrad as pg
import pytest
import scipy
from packaging.version import Version
from plugrad.plugin import runtime
from scipy import (
    cluster,
    integrate,
    interpolate,
    linalg,
    ndimage,
    optimize,
    signal,
    special,
    stats,
)
from scipy._lib._array_api import SCIPY_ARRAY_API
from scipy.spatial import transform

from tests.consumers.scipy_rows import (
    COMPLEX,
    COMPLEX128,
    DEFAULT_DTYPE,
    QUICK,
    ROWS,
    values,
)

ONLY_WITH_ALL = pytest.mark.consumers_all
TOLERANCES = {"float32": (3e-4, 1e-4), "float64": (1e-9, 1e-12)}


def arrays(dtype, make=np.asarray, xp=np):
    """Return the argument of a row, with arrays of one dtype, converted by ``make``."""
    named = {name: make(x.astype(dtype)) for name, x in vars(values()).items()}
    return SimpleNamespace(xp=xp, **named)


def leaves(result):
    """Return the arrays and numbers of a result."""
    for names in (("statistic", "pvalue"), ("mean_direction", "mean_resultant_length")):
        if hasattr(result, names[0]):
            return [getattr(result, name) for name in names]
    if not isinstance(result, tuple | list):
        return [result]
    return [leaf for part in result for leaf in leaves(part)]


def compare(name, dtype, backend, exact=True):
    """Check that results for tensors equal NumPy's; if ``exact``, so do the dtypes."""
    found = leaves(ROWS[name](arrays(dtype, pg.asarray, pg)))
    expected = leaves(ROWS[name](arrays(dtype)))
    exact = exact and name not in DEFAULT_DTYPE
    rtol, atol = TOLERANCES[dtype if exact else "float32"]
    for x, wanted in zip(found, expected, strict=True):
        if type(wanted) is not int:  # an int is, for example, a number of labels
            assert (type(x), x.backend) == (pg.Tensor, backend)
            assert x.shape == np.shape(wanted)
            assert x.dtype.kind == wanted.dtype.kind
            assert not exact or x.dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(x), wanted, rtol=rtol, atol=atol)


def test_array_api_is_on():
    assert SCIPY_ARRAY_API, "SCIPY_ARRAY_API=1 is set after SciPy was imported"


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else ONLY_WITH_ALL) for n in ROWS]
)
def test_float64(name, backend):
    lacks_complex128 = "complex128" not in runtime(backend).dtypes
    if lacks_complex128 and name in COMPLEX128:
        with pytest.raises(TypeError, match="has no complex128"):
            compare(name, "float64", backend)
        return
    compare(
        name, "float32" if lacks_complex128 and name in COMPLEX else "float64", backend
    )


@pytest.mark.consumers_all
@pytest.mark.parametrize("name", sorted(set(ROWS) - COMPLEX128))
def test_float32(name, backend):
    compare(name, "float32", backend, exact=False)


# --- calls that fail: docs/consumers.md says why ---------------------------------


READ_ONLY = ValueError, "read-only"


def oaconvolve(a):
    """Check that oaconvolve is wrong before SciPy 1.18, because it adds to a view."""
    found = signal.oaconvolve(a.xp.concat([a.s] * 9), a.b)
    expected = signal.fftconvolve(a.xp.concat([a.s] * 9), a.b)
    is_right = np.allclose(np.asarray(found), np.asarray(expected), atol=1e-3)
    assert is_right == (Version(scipy.__version__) >= Version("1.18"))


def to_infinity(a):
    """Check that tanhsinh, which assigns to a view, reports that it failed."""
    found = integrate.tanhsinh(lambda x: a.xp.exp(-x), 0 * a.one, a.one + np.inf)
    assert not found.success


def output(a):
    """Check that ``output`` stays unchanged: on opencl, SciPy gets a copy of it."""
    y = a.xp.zeros_like(a.image)
    found = ndimage.gaussian_filter(a.image, 1.0, output=y)
    assert found[0, 0] != 0
    assert y[0, 0] == 0


FAILING = [
    (oaconvolve, {}),
    (to_infinity, {}),
    (output, {"cpu": READ_ONLY, "wasm": READ_ONLY}),
    (lambda a: signal.sosfilt(a.sos, a.s), {"cpu": READ_ONLY, "wasm": READ_ONLY}),
    (
        lambda a: interpolate.RBFInterpolator(a.points, a.v[:10])(a.points),
        {None: (AttributeError, "'view'")},
    ),
    (
        lambda a: signal.savgol_filter(a.s, 5, 2),
        {None: (TypeError, "lstsq.* unexpected keyword argument 'rcond'")},
    ),
]


@pytest.mark.parametrize("row", range(len(FAILING)))
def test_calls_that_fail(row, backend):
    call, errors = FAILING[row]
    a = arrays("float32", pg.asarray, pg)
    error = errors.get(backend, errors.get(None))
    if error is None:
        call(a)
    else:
        with pytest.raises(error[0], match=error[1]):
            call(a)


def test_results_are_on_the_active_backend(backend):
    x = pg.asarray([1.0, 2.0])
    with pg.use_backend("cpu"):
        assert special.logsumexp(x).backend == "cpu"
    assert special.logsumexp(x).backend == backend


# --- gradients -------------------------------------------------------------------

GRADIENTS = {
    "special.logsumexp": lambda x, y: special.logsumexp(x * y, axis=1),
    "special.xlogy": lambda x, y: special.xlogy(x, y),
    "special.softmax": lambda x, y: special.softmax(x * y, axis=0),
    "stats.zscore": lambda x, y: stats.zscore(x, axis=1) * y,
    "stats.entropy": lambda x, y: stats.entropy(x, y, axis=1),
    "stats.gmean": lambda x, y: stats.gmean(x, axis=1, weights=y),
    "stats.skew": lambda x, y: stats.skew(x * y, axis=1),
    "integrate.trapezoid": lambda x, y: integrate.trapezoid(y, x, axis=1),
    "cluster.whiten": lambda x, y: cluster.vq.whiten(x) * y,
    "linalg.block_diag": lambda x, y: linalg.block_diag(x, y) ** 2,
    "optimize.rosen": lambda x, y: optimize.rosen(x * y),
    "spatial.Rotation": lambda x, y: transform.Rotation.from_quat(x[:, :4]).apply(
        y[:, :3]
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, backend):
    x = values().p
    y = values().u
    pg.check_gradients(GRADIENTS[name], x, y)


def test_a_complex_gradient(backend):
    if "complex128" not in runtime(backend).dtypes:
        pytest.skip(f"{backend} has no complex128, which finite differences need")
    x = values().x
    y = values().p
    pg.check_gradients(lambda x, y: abs(signal.hilbert(x)) * y, x, y)


def test_a_gradient_that_stops_in_scipy_warns(backend):
    x = pg.asarray([0.5, 1.5])
    with pytest.warns(UserWarning, match="has no gradient through NumPy"):
        dx = pg.grad(lambda x: pg.sum(special.gammaln(x)))(x)
    assert dx.tolist() == [0.0, 0.0]
