"""Einstein summation, compared with ``np.einsum`` on many equations; gradients."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, check_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)


def close(y, expected, rtol=1e-12):
    expected = np.asarray(expected)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    size = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(y.numpy(), expected, rtol=rtol, atol=rtol * size)


EQUATIONS = [
    # one operand
    ("", ()),
    ("->", ()),
    ("i", (3,)),
    ("i->", (3,)),
    ("ij->ij", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ba", (2, 3)),
    ("ijk->ki", (2, 3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iijj->ij", (2, 2, 3, 3)),
    ("ijij->ji", (2, 3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("iiji->j", (2, 2, 3, 2)),
    ("ij->", (0, 3)),
    ("ij->j", (0, 3)),
    # two operands
    ("i,i", (3,), (3,)),
    ("i,j", (3,), (4,)),
    ("i,i->i", (3,), (3,)),
    (",i->i", (), (3,)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ji,jk->ik", (3, 2), (3, 4)),
    ("ij,kj->ik", (2, 3), (4, 3)),
    ("ji,kj->ik", (3, 2), (4, 3)),
    ("ij,ij", (2, 3), (2, 3)),
    ("ij,ji->", (2, 3), (3, 2)),
    ("ij,j->i", (2, 3), (3,)),
    ("ij,ij->i", (2, 3), (2, 3)),
    ("ij,i->ij", (2, 3), (2,)),
    ("ij,k->ki", (2, 3), (4,)),
    ("ab,cd->", (2, 3), (4, 5)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("bij,jbk->kib", (5, 2, 3), (3, 5, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("bijx,bjky->ik", (5, 2, 3, 2), (5, 3, 4, 3)),
    ("aab,bcc->ac", (2, 2, 3), (3, 4, 4)),
    ("ij,jk->ik", (2, 0), (0, 4)),
    ("ij,jk->ik", (0, 3), (3, 4)),
    ("iJ,Jk->kI".replace("I", "i"), (2, 3), (3, 4)),
    (" i j , j k -> i k ", (2, 3), (3, 4)),
    # three or more operands
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,kl", (9, 3), (3, 4), (4, 1)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("i,j,k->kij", (2,), (3,), (4,)),
    ("ijk,jl,km->ilm", (2, 3, 4), (3, 5), (4, 6)),
    ("bi,ij,bj->b", (4, 2), (2, 3), (4, 3)),
    ("ab,bc,ca", (2, 3), (3, 4), (4, 2)),
    ("ii,ij,jj->i", (2, 2), (2, 3), (3, 3)),
    ("ab,bc,cd,de,ef->af", (2, 3), (3, 4), (4, 2), (2, 3), (3, 5)),
    (",i,,i->", (), (3,), (), (3,)),
    # ellipses
    ("...", (2, 3)),
    ("...ij->...ji", (2, 3, 4)),
    ("...i->...", (2, 3)),
    ("i...->...", (2, 3)),
    ("i...j->...ij", (2, 4, 5, 3)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,...jk", (5, 1, 2, 3), (6, 3, 4)),
    ("...i,...i->...", (5, 1, 3), (6, 3)),
    ("...,...", (2, 1), (3,)),
    ("i...,j...->ij...", (2, 1, 4), (3, 5, 1)),
    ("...ii->...i", (2, 3, 3)),
    ("ij,...j->i...", (2, 3), (4, 5, 3)),
    ("...i,ij,...j", (4, 2), (2, 3), (1, 3)),
    ("...,...->...", (1, 0), (3, 1)),
    ("ij->...ij", (2, 3)),
]


@pytest.mark.parametrize("row", EQUATIONS, ids=str)
def test_values_and_gradients(row, backend):
    require_dtypes(backend, "float64")
    equation, *shapes = row
    xs = [RNG.normal(size=shape) for shape in shapes]
    op = lambda *xs: pg.einsum(equation, *xs)
    close(op(*map(pg.asarray, xs)), np.einsum(equation, *xs))
    check_gradients(op, *xs)


def test_axes_that_the_output_lacks_are_summed(backend):
    """NumPy raises an error for this equation."""
    x = RNG.random((2, 3, 4), np.float32)
    y = pg.einsum("...i->i", x)
    np.testing.assert_allclose(y.numpy(), x.sum((0, 1)), rtol=1e-6)


@pytest.mark.parametrize("seed", range(40))
def test_random_equations(seed, backend):
    require_dtypes(backend, "float64")
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcdef", rng.integers(1, 4, 6), strict=True))
    terms = ["".join(rng.choice([*sizes], rng.integers(0, 5))) for _ in range(3)]
    terms = terms[: rng.integers(1, 4)]
    letters = sorted(set("".join(terms)))
    chosen = rng.permutation(letters)[: rng.integers(0, len(letters) + 1)]
    equation = f"{','.join(terms)}->{''.join(chosen)}"
    xs = [rng.normal(size=[sizes[c] for c in term]) for term in terms]
    y = pg.einsum(equation, *map(pg.asarray, xs))
    close(y, np.einsum(equation, *xs), 1e-11)


DTYPES = ["float32", "float16", "complex64", "int32", "int8", "uint8", "int64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->i", "ij,kj->", "ii,ij->j"])
def test_dtypes(equation, dtype, backend):
    require_dtypes(backend, dtype, "float64")
    a, b = RNG.integers(0, 3 if dtype == "float16" else 100, (2, 25, 25))
    a = a.astype(dtype)
    b = b.astype(dtype)
    y = pg.einsum(equation, pg.asarray(a), pg.asarray(b))
    if a.dtype.kind in "iu":  # sums wrap
        close(y, np.einsum(equation, a, b), 0)
        return
    wide = np.complex128 if dtype == "complex64" else np.float64
    expected = np.einsum(equation, a.astype(wide), b.astype(wide))
    close(y, expected.astype(dtype), np.finfo(dtype).eps)


def test_dtypes_are_promoted(backend):
    assert pg.einsum("i,i->", [1, 2], [0.5, 0.5]).dtype == np.float32
    y = pg.einsum("i,i->", [True, True], [True, True])
    assert (y.dtype, y.item()) == (np.int32, 2)
    assert pg.einsum("i,->i", [1, 2], 2).dtype == np.int32


def test_gradients_of_complex_numbers(backend):
    require_dtypes(backend, "complex128")
    a = RNG.normal(size=(2, 3)) + 1j * RNG.normal(size=(2, 3))
    b = RNG.normal(size=(3, 3)) + 1j
    check_complex_gradients(lambda a, b: pg.einsum("ij,jj,kj->ik", a, b, a), a, b)


def test_one_nan_stays_in_its_row(backend):
    x = np.asarray([[np.nan, 1], [2, np.inf]], np.float32)
    y = pg.einsum("ij,jk->ik", x, np.eye(2, dtype=np.float32)).numpy()
    assert np.isnan(y).tolist() == [[True, True], [True, False]]
    np.testing.assert_array_equal(pg.einsum("ij->ji", x).numpy(), x.T)


def test_the_result_is_a_new_tensor(backend):
    x = pg.asarray([[1.0, 2.0]])
    for equation in ("ij->ij", "ij->ji"):
        pg.einsum(equation, x).dispose()
        pg.grad(lambda x, e=equation: pg.sum(pg.einsum(e, x)))(x).dispose()
    assert x.tolist() == [[1, 2]]


def test_long_chains_are_multiplied_in_a_good_order():
    """Multiplying from left to right would create a matrix of a million elements."""
    a = np.ones((1000, 2), np.float32)
    b = np.ones((2, 1000), np.float32)
    with toy(without=["Einsum"]), pg.use_backend("toy"), pg.profile() as profile:
        y = pg.einsum("ij,jk,kl->il", b, a, b)
        y = pg.einsum("ij,jk,kl->il", a, b, a)
    assert y.shape == (1000, 2)
    assert max(math.prod(run.outputs[0].shape) for run in profile.records) < 10_000


def test_products_in_backward_are_as_small_as_in_forward():
    a = np.ones((50, 2), np.float32)
    b = np.ones((2, 50), np.float32)
    f = lambda a, b: pg.sum(pg.einsum("ij,jk,kl->il", a, b, a))
    with pg.use_backend("cpu"), pg.profile() as profile:
        pg.grads(f)(a, b)
    assert max(math.prod(run.outputs[0].shape) for run in profile.records) <= 100


A = np.ones((2, 3), np.float32)
ERRORS = [
    (
        ("ij,jk->ik", A, A),
        ValueError,
        r"'j' in 'ij,jk->ik' has sizes 3 and 2; make them equal; got shapes",
    ),
    (("ii", A), ValueError, "einsum: 'i' in 'ii' has sizes 2 and 3"),
    (("ij->ji", A, A), ValueError, "'ij->ji' needs 1 operands, got 2"),
    (("ij,jk->ik", A), ValueError, "needs 2 operands, got 1"),
    (("", A), ValueError, r"term '' of '' needs one .*; got shape \(2, 3\)"),
    (("ijk", A), ValueError, "term 'ijk' of 'ijk' needs one letter for"),
    (("...ijk", A), ValueError, "needs one letter for each axis"),
    (("i", A), ValueError, r"needs one letter for each axis, or \.\.\."),
    (("ij->ik", A), ValueError, "'k' occurs twice in the output of 'ij->ik', or in no"),
    (("ij->iji", A), ValueError, "'i' occurs twice in the output"),
    (("ij->i->j", A), ValueError, "'i->j' in 'ij->i->j' is not a term; write letters"),
    (("i1", A), ValueError, "'i1' in 'i1' is not a term"),
    (("i..j", A), ValueError, "is not a term"),
    (("......", A), ValueError, "is not a term"),
    (("ij>i", A), ValueError, "'ij>i' in 'ij>i' is not a term"),
    (("...,...", A, A[:, :2]), ValueError, "an axis of ... in '...,...' has sizes"),
    (("ij,jk",), TypeError, "expected an equation and then operands"),
    ((A, "ij"), TypeError, "got ndarray and 1 operands"),
]


@pytest.mark.parametrize(("args", "error", "message"), ERRORS)
def test_errors(args, error, message, backend):
    with pytest.raises(error, match=message):
        pg.einsum(*args)


def test_there_may_be_many_operands(backend):
    x = np.asarray([1.0, -1.0, 1.01], np.float32)
    y = pg.einsum(",".join(["a"] * 70) + "->a", *[x] * 70).numpy()
    np.testing.assert_allclose(y, [1, 1, 1.01**70], rtol=1e-4)


def test_the_number_of_letters_is_limited(backend):
    equation = "...,abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY->"
    x = np.ones((1,) * 51, np.float32)
    with pytest.raises(ValueError, match="no letters left"):
        pg.einsum(equation, A, x)
    assert pg.einsum(equation, A[0], x).item() == 3
