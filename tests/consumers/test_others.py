"""einops, opt_einsum and array-api-extra accept tensors: tables of calls."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

NOT_INSTALLED = "needs the group consumers: make test-consumers"
extra = pytest.importorskip("array_api_extra", reason=NOT_INSTALLED)
einops = pytest.importorskip("einops.array_api", reason=NOT_INSTALLED)
opt_einsum = pytest.importorskip("opt_einsum", reason=NOT_INSTALLED)

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(4, 5))
V = RNG.normal(size=5)
N = np.array([3, 1, 1, 0, 2])


def compare(call, backend, rtol=1e-12):
    """Check that a call returns for tensors what it returns for NumPy arrays."""
    found = call(pg.asarray)
    expected = call(np.asarray)
    parts = zip(
        found if isinstance(found, tuple | list) else [found],
        expected if isinstance(expected, tuple | list) else [expected],
        strict=True,
    )
    for x, wanted in parts:
        assert (type(x), x.backend) == (pg.Tensor, backend)
        np.testing.assert_allclose(x.numpy(), wanted, rtol=rtol, atol=1e-14)


# --- einops.array_api ------------------------------------------------------------

EINOPS = [
    lambda a: einops.rearrange(a(X), "a b c -> c (a b)"),
    lambda a: einops.rearrange(a(X), "a b (c two) -> two b (a c)", two=2),
    lambda a: einops.rearrange([a(X), a(2 * X)], "l a b c -> a (l b) c"),
    lambda a: einops.reduce(a(X), "a (b three) c -> a b c", "mean", three=3),
    lambda a: einops.reduce(a(X), "a b c -> c", "max"),
    lambda a: einops.reduce(a(X), "a b c -> ()", "sum"),
    lambda a: einops.repeat(a(X), "a b c -> a (b repeat) c", repeat=2),
    lambda a: einops.pack([a(X), a(X[:, 0])], "a * c")[0],
    lambda a: einops.unpack(a(X), [(1,), (2,)], "a * c"),
]


@pytest.mark.parametrize("call", EINOPS)
def test_einops(call, backend):
    compare(call, backend)


def test_einops_has_gradients(backend):
    f = lambda x: einops.reduce(x, "a (b three) c -> c a", "mean", three=3)
    pg.check_gradients(lambda x: f(x) ** 2, X)
    np.testing.assert_array_equal(einops.asnumpy(pg.asarray(X)), X)


def test_plain_einops_does_not_recognize_tensors(backend):
    import einops as plain_einops

    with pytest.raises(RuntimeError, match="Tensor type unknown to einops"):
        plain_einops.rearrange(pg.asarray(X), "a b c -> c b a")


# --- opt_einsum ------------------------------------------------------------------

CONTRACTIONS = [
    lambda a: opt_einsum.contract("abc,cd,d->ab", a(X), a(M), a(V)),
    lambda a: opt_einsum.contract("abc,abd->cd", a(X), a(X)),
    lambda a: opt_einsum.contract("abc,cd->dba", a(X), a(M)),
    lambda a: opt_einsum.contract("aab,bc->ac", a(X[:, :2]), a(M)),
    lambda a: opt_einsum.contract("ab,ab,ab->ba", a(M), a(M), a(M)),
    lambda a: opt_einsum.contract("a,b->ab", a(V), a(V)),
    lambda a: opt_einsum.contract(a(M), (0, 1), a(M), (2, 1), a(M), (2, 3), (0, 3)),
    lambda a: opt_einsum.contract_expression("abc,cd->abd", X.shape, M.shape)(
        a(X), a(M)
    ),
    lambda a: opt_einsum.contract_expression(
        "abc,cd,d->ab", X.shape, a(M), a(V), constants=[1, 2]
    )(a(X)),
]


@pytest.mark.parametrize("call", CONTRACTIONS)
def test_opt_einsum(call, backend):
    compare(call, backend)


def test_opt_einsum_shares_intermediates(backend):
    x, m, v = map(pg.asarray, (X, M, V))
    with opt_einsum.shared_intermediates() as cache:
        first, second = (
            opt_einsum.contract("abc,cd,d->ab", x, m, v, optimize=[(0, 1), (0, 1)])
            for _ in range(2)
        )
    assert first is second
    assert cache


def test_opt_einsum_has_gradients(backend):
    f = lambda x, m, v: opt_einsum.contract("abc,cd,d->ba", x, m, v)
    pg.check_gradients(f, X, M, V)


# --- array-api-extra -------------------------------------------------------------

EXTRA = {
    "apply_where": lambda a: extra.apply_where(
        a(X) > 0, (a(X), a(2 * X)), lambda x, y: x * y, lambda x, y: x - y
    ),
    "apply_where fill_value": lambda a: extra.apply_where(
        a(X) > 0, a(X), lambda x: x**2, fill_value=0.5
    ),
    "argpartition": lambda a: extra.argpartition(a(V), 2)[2],
    "at set": lambda a: extra.at(a(M), (slice(None), 1)).set(7.0, copy=True),
    "at add of a mask": lambda a: extra.at(a(M), a(M) > 0).add(1.0, copy=True),
    "at max": lambda a: extra.at(a(M))[1, ...].max(0.0, copy=True),
    "atleast_nd": lambda a: extra.atleast_nd(a(V), ndim=3),
    "cov": lambda a: extra.cov(a(M)),
    "create_diagonal": lambda a: extra.create_diagonal(a(V), offset=1),
    "isclose": lambda a: extra.isclose(a(M), a(M + 1e-12)),
    "isin": lambda a: extra.isin(a(N), a(N[1:4])),
    "kron": lambda a: extra.kron(a(M), a(M[:2])),
    "lazy_apply": lambda a: extra.lazy_apply(np.sort, a(V), as_numpy=True),
    "nan_to_num": lambda a: extra.nan_to_num(a(np.array([np.nan, np.inf, 1.0]))),
    "nanmean": lambda a: extra.nanmean(a(np.array([np.nan, 2.0, 1.0]))),
    "nansum": lambda a: extra.nansum(a(np.array([np.nan, 2.0, 1.0]))),
    "nunique": lambda a: extra.nunique(a(N)),
    "one_hot": lambda a: extra.one_hot(a(N), 5),
    "pad": lambda a: extra.pad(a(M), ((1, 2), (0, 1)), constant_values=3.0),
    "partition": lambda a: extra.partition(a(V), 2)[2],
    "rad2deg": lambda a: extra.rad2deg(a(V)),
    "searchsorted": lambda a: extra.searchsorted(a(np.sort(V)), a(M[0])),
    "setdiff1d": lambda a: in_order(extra.setdiff1d(a(N), a(N[1:3]))),
    "sinc": lambda a: extra.sinc(a(M)),
    "union1d": lambda a: in_order(extra.union1d(a(N), a(N + 2))),
    "unravel_index": lambda a: extra.unravel_index(a(N), (2, 2)),
}


def in_order(x):
    """Return a set sorted, because the standard leaves its order open."""
    return x.__array_namespace__().sort(x)


@pytest.mark.parametrize("name", EXTRA)
def test_array_api_extra(name, backend):
    compare(EXTRA[name], backend)


def test_array_api_extra_makes_complex_numbers(backend):
    dtype = "complex128" if "complex128" in runtime(backend).dtypes else "complex64"
    compare(lambda a: extra.angle(a((M + 1j).astype(dtype))), backend, rtol=1e-6)


GRADIENTS = {
    "cov": extra.cov,
    "kron": lambda x: extra.kron(x, x[:2]),
    "at": lambda x: extra.at(x)[0, 1:3].set(x[1, 0], copy=True),
    "apply_where": lambda x: extra.apply_where(x > 0, (x,), pg.exp, fill_value=2.0),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_array_api_extra_has_gradients(name, backend):
    pg.check_gradients(GRADIENTS[name], M)
