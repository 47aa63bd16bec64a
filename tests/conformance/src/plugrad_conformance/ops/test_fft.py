"""Fourier transforms, compared with ``np.fft``; gradients, decompositions, errors."""

import numpy as np
import plugrad as pg
import pytest

from ..check import check_complex_gradients, require_dtypes
from ..toy import toy

RNG = np.random.default_rng(0)
fft = pg.fft


def draw(*shape, real=False):
    x = RNG.normal(size=shape)
    return x if real else x + 1j * RNG.normal(size=shape)


# --- values ----------------------------------------------------------------------

REAL_INPUT = ("rfft", "ihfft", "rfftn")
ONE_AXIS = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
OPTIONS = [
    {},
    {"norm": "ortho"},
    {"norm": "forward"},
    {"n": 4},
    {"n": 9, "norm": "forward"},
    {"axis": 0},
    {"axis": 1, "n": 3, "norm": "ortho"},
    {"axis": -2, "n": 5},
    {"n": 1},
]


@pytest.mark.parametrize("how", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ONE_AXIS)
def test_one_axis(name, how, backend):
    require_dtypes(backend, "complex128")
    op = getattr(fft, name)
    reference = getattr(np.fft, name)
    x = draw(3, 4, 5, real=name in REAL_INPUT)
    expected = reference(x, **how)
    y = op(pg.asarray(x), **how)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    check_complex_gradients(lambda x: op(x, **how), x)


SEVERAL_AXES = [
    {},
    {"axes": (0, 2), "norm": "ortho"},
    {"axes": (2, 0), "s": (4, 6), "norm": "forward"},
    {"axes": (1,), "s": (7,)},
    {"axes": (0, -1), "s": (-1, 3)},
]


@pytest.mark.parametrize("how", SEVERAL_AXES, ids=str)
@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
def test_several_axes(name, how, backend):
    require_dtypes(backend, "complex128")
    op = getattr(fft, name)
    reference = getattr(np.fft, name)
    x = draw(3, 4, 5, real=name in REAL_INPUT)
    numpy_options = dict(how)
    if "s" in how:  # in NumPy, -1 is the input's size, even on irfftn's last axis
        sizes = [x.shape[axis] for axis in how["axes"]]
        numpy_options["s"] = [
            m if n == -1 else n for n, m in zip(how["s"], sizes, strict=True)
        ]
    expected = reference(x, **numpy_options)
    y = op(pg.asarray(x), **how)
    assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-14)
    check_complex_gradients(lambda x: op(x, **how), x)


def test_the_last_size_of_irfftn_is_twice_that_of_the_axis(backend):
    x = draw(3, 5).astype(np.complex64)
    y = fft.irfftn(x, axes=(0, 1), s=(-1, -1))
    np.testing.assert_allclose(y.numpy(), np.fft.irfftn(x), atol=1e-6)


def test_no_axes(backend):
    require_dtypes(backend, "complex64")
    x = pg.asarray([1.0, 2.0])
    assert fft.fftn(x, axes=()).tolist() == [1, 2]
    assert fft.ifftn(3.0).tolist() == 3


DTYPES = [
    ("int32", "complex64"),
    ("bool", "complex64"),
    ("float16", "complex64"),
    ("float32", "complex64"),
    ("float64", "complex128"),
    ("complex64", "complex64"),
    ("complex128", "complex128"),
]


@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_dtypes(dtype, result, backend):
    require_dtypes(backend, dtype, result)
    x = np.asarray([[1, 0, 1, 1]]).astype(dtype)
    result_part = "float64" if result == "complex128" else "float32"
    for name in [*ONE_AXIS, "fftn", "irfftn"]:
        if x.dtype.kind == "c" and name in REAL_INPUT:
            continue
        y = getattr(fft, name)(pg.asarray(x))
        assert y.dtype == (
            result_part if name in ("irfft", "irfftn", "hfft") else result
        ), name
        expected = getattr(np.fft, name)(
            x.astype(result if x.dtype.kind == "c" else result_part)
        )
        np.testing.assert_allclose(y.numpy(), expected, atol=3e-7)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0, 3), (1, 1)], ids=str)
def test_empty_batches(shape, backend):
    require_dtypes(backend, "complex64")
    x = pg.asarray(np.ones(shape, np.complex64))
    assert fft.fft(x).shape == fft.ifft(x).shape == shape
    assert fft.rfft(pg.real(x), n=6).shape == (*shape[:-1], 4)
    assert fft.fft(np.ones((2, 0), np.complex64), n=3).tolist() == [[0] * 3] * 2


def test_infinities_and_nan_stay_in_their_row(backend):
    require_dtypes(backend, "complex64")
    x = np.asarray([[1, np.inf], [np.nan, 0], [1, 2]], np.complex64)
    for op in (fft.fft, fft.ifft):
        y = op(x).numpy()
        assert not np.isfinite(y[:2]).any()
        assert np.isfinite(y[2]).all()


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_frequencies(n, backend):
    require_dtypes(backend, "float64")
    for name in ("fftfreq", "rfftfreq"):
        expected = getattr(np.fft, name)(n, 0.25)
        op = getattr(fft, name)
        y = op(n, d=0.25, dtype="float64")
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-15)
        assert (y.shape, op(n).dtype) == (expected.shape, np.float32)


@pytest.mark.parametrize("axes", [None, 0, (0, 2), ()], ids=str)
def test_shifts(axes, backend):
    x = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    numpy_axes = (0, 1, 2) if axes is None else axes
    y = fft.fftshift(x, axes=axes)
    np.testing.assert_array_equal(y.numpy(), np.fft.fftshift(x, numpy_axes))
    np.testing.assert_array_equal(fft.ifftshift(y, axes=axes).numpy(), x)


# --- decompositions --------------------------------------------------------------

# Sizes for each algorithm: direct, two factors, three levels, a large prime, and three
# times a large prime.
SIZES = [1, 2, 3, 7, 64, 65, 100, 128, 360, 8192, 67, 1009, 3 * 67]


@pytest.mark.parametrize(
    ("dtype", "bound"), [("complex64", 5e-7), ("complex128", 2e-15)]
)
@pytest.mark.parametrize("n", SIZES)
def test_decompositions(n, dtype, bound):
    x = draw(2, 1, n).astype(dtype)
    wide = x.astype(np.complex128)
    dtypes = ["bool", "int32", "float32", "float64", "complex64", "complex128"]
    with toy(without=["FFT", "IFFT"], dtypes=dtypes), pg.use_backend("toy"):
        for op, reference in ((fft.fft, np.fft.fft), (fft.ifft, np.fft.ifft)):
            y = op(pg.asarray(x))
            expected = reference(wide)
            assert (y.dtype, y.shape) == (dtype, x.shape)
            error = np.abs(y.numpy() - expected).max() / np.abs(expected).max()
            assert error < bound


def test_transforms_on_primitives_have_gradients():
    dtypes = ["bool", "int32", "float32", "float64", "complex64", "complex128"]
    with toy(without=["FFT", "IFFT"], dtypes=dtypes), pg.use_backend("toy"):
        check_complex_gradients(fft.fft, draw(2, 66))
        check_complex_gradients(fft.irfft, draw(2, 5))
        assert fft.fft(np.ones((0, 3), np.complex64)).shape == (0, 3)


def test_single_precision_is_accurate(backend):
    require_dtypes(backend, "complex64")
    for n in (1, 3, 1000, 1024, 1009):
        x = draw(4, n).astype(np.complex64)
        expected = np.fft.fft(x.astype(np.complex128))
        y = fft.fft(x).numpy()
        assert np.abs(y - expected).max() < 5e-7 * np.abs(expected).max()


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (
        lambda x: fft.fft(x, n=0),
        ValueError,
        "fft: the size 0 is not positive; give n",
    ),
    (lambda x: fft.fft(x, n=-1), ValueError, "fft: the size -1 is not positive"),
    (lambda x: fft.fft(x[:, :0]), ValueError, r"fft: the size 0 .* got shape \(2, 0\)"),
    (lambda x: fft.fft(x, n=1.5), TypeError, "fft: n must be integers, got 1.5"),
    (lambda x: fft.fft(x, axis=2), ValueError, "fft: axis 2 is out of range for rank"),
    (lambda x: fft.fft(1.0), ValueError, "fft: axis -1 is out of range for rank 0"),
    (lambda x: fft.ifft(x, norm="none"), ValueError, "ifft: norm 'none': use 'backwa"),
    (lambda x: fft.hfft(x, norm="none"), ValueError, "hfft: norm 'none': use 'backwa"),
    (
        lambda x: fft.irfft(x[:, :1]),
        ValueError,
        r"irfft: the size 0 .* got shape \(2, 1\)",
    ),
    (lambda x: fft.rfft(x), TypeError, "rfft: takes real numbers, got complex64; use"),
    (lambda x: fft.ihfft(x), TypeError, "ihfft: takes real numbers"),
    (lambda x: fft.fftn(x, s=(1, 2)), ValueError, r"fftn: s \(1, 2\) needs axes"),
    (
        lambda x: fft.fftn(x, s=(1, 2), axes=(0,)),
        ValueError,
        r"fftn: s \(1, 2\) and axes \(0,\) differ in length",
    ),
    (lambda x: fft.fftn(x, axes=(0, -2)), ValueError, "fftn: axis .* one axis twice"),
    (lambda x: fft.rfftn(1.0), ValueError, "rfftn: there is no axis to transform"),
    (lambda x: fft.irfftn(x, axes=()), ValueError, "irfftn: there is no axis to"),
    (lambda x: fft.fftfreq(0), ValueError, "fftfreq: n 0 must be 1 or more"),
    (
        lambda x: fft.rfftfreq(2, dtype="int32"),
        TypeError,
        "rfftfreq: dtype must be real floating",
    ),
    (lambda x: fft.fftshift(x, axes=2), ValueError, "fftshift: axis 2 is out of range"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    require_dtypes(backend, "complex64")
    with pytest.raises(error, match=message):
        call(pg.asarray(np.ones((2, 3), np.complex64)))
