"""Windows, frames and short-time transforms: values, gradients, inverses, errors."""

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import runtime

from ..check import check_complex_gradients, check_gradients, require_dtypes

RNG = np.random.default_rng(0)
signal = pg.signal


# --- windows ---------------------------------------------------------------------

WINDOWS = [
    (signal.hann_window, 3, {}, [0, 1, 0]),
    (signal.hann_window, 6, {}, [0, 0.25, 0.75, 1, 0.75, 0.25]),
    (signal.hann_window, 7, {}, [0, 0.25, 0.75, 1, 0.75, 0.25, 0]),
    (signal.hann_window, 4, {"periodic": False}, [0, 0.75, 0.75, 0]),
    (signal.hann_window, 3, {"periodic": True}, [0, 0.75, 0.75]),
    (signal.hamming_window, 3, {}, [0.08, 1, 0.08]),
    (signal.hamming_window, 4, {}, [0.08, 0.54, 1, 0.54]),
    (signal.hann_window, 0, {}, []),
    (signal.hann_window, 1, {}, [1]),
    (signal.hamming_window, 1, {"periodic": False}, [1]),
]


@pytest.mark.parametrize(("op", "length", "options", "expected"), WINDOWS)
def test_windows(op, length, options, expected, backend):
    y = op(length, **options)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), np.asarray(expected), atol=1e-7)


# The Bessel function I0 of 8, and of 8 · √0.75.
I0_8, I0_ROOT = 427.5641157218048, 157.75949587070554
KAISER = [1 / I0_8, I0_ROOT / I0_8, 1, I0_ROOT / I0_8, 1 / I0_8]
SCIPY_WINDOWS = [  # SciPy's: 5 elements, symmetric; 4 elements, periodic
    (
        signal.bartlett_window,
        (),
        [0, 0.5, 1, 0.5, 0],
        [0, 0.5, 1, 0.5],
    ),
    (
        signal.blackman_window,
        (),
        [0, 0.34, 1, 0.34, 0],
        [0, 0.34, 1, 0.34],
    ),
    (
        signal.nuttall_window,
        (),
        [0.0003628, 0.2269824, 1, 0.2269824, 0.0003628],
        [0.0003628, 0.2269824, 1, 0.2269824],
    ),
    (
        signal.general_cosine_window,
        ([0.5, 0.25, 0.125, 0.0625],),
        [0.3125, 0.375, 0.9375, 0.375, 0.3125],
        [0.3125, 0.375, 0.9375, 0.375],
    ),
    (
        signal.gaussian_window,
        (2.0,),
        [
            0.6065306597126334,
            0.8824969025845955,
            1,
            0.8824969025845955,
            0.6065306597126334,
        ],
        [0.6065306597126334, 0.8824969025845955, 1, 0.8824969025845955],
    ),
    (
        signal.kaiser_window,
        (8.0,),
        KAISER,
        KAISER[:4],
    ),
]


@pytest.mark.parametrize(("op", "args", "symmetric", "periodic"), SCIPY_WINDOWS)
def test_windows_of_scipy(op, args, symmetric, periodic, backend):
    for dtype in ("float32", "float64"):
        if dtype in runtime(backend).dtypes:
            options = {"dtype": dtype}
            atol = 1e-15 if dtype == "float64" else 1e-7
            for y, expected in (
                (op(5, *args, **options), symmetric),
                (op(5, *args, periodic=False, **options), symmetric),
                (op(4, *args, **options), periodic),
                (op(4, *args, periodic=True, **options), periodic),
            ):
                np.testing.assert_allclose(y.numpy(), expected, rtol=atol, atol=atol)
                assert y.dtype == dtype
    assert op(0, *args).shape == (0,)
    if op is not signal.general_cosine_window:
        for periodic in (None, False, True):
            np.testing.assert_allclose(op(1, *args, periodic=periodic).numpy(), [1])


def test_stft_makes_windows_in_the_dtype_of_the_signal(backend):
    require_dtypes(backend, "complex128")
    x = RNG.normal(size=40)
    for op in (signal.blackman_window, signal.kaiser_window):
        given = signal.stft(x, 8, 4, window_fn=op)
        wide = signal.stft(x, 8, 4, window_fn=lambda n, op=op: op(n, dtype="float64"))
        np.testing.assert_array_equal(given.numpy(), wide.numpy())


BAD_WINDOWS = [
    (lambda: signal.blackman_window(-1), ValueError, "window_length -1 must be 0"),
    (lambda: signal.bartlett_window(3, dtype=int), TypeError, "bartlett_window: "),
    (lambda: signal.general_cosine_window(3, []), ValueError, "one number or more"),
    (lambda: signal.general_cosine_window(3, 2.0), TypeError, "must be a sequence"),
    (
        lambda: signal.gaussian_window(3, 0.0),
        ValueError,
        "std must be positive and finite",
    ),
    (lambda: signal.gaussian_window(3, "a"), TypeError, "std must be a number"),
    (lambda: signal.kaiser_window(3, -1.0), ValueError, "beta must be from 0 to 700"),
    (lambda: signal.kaiser_window(3, 1e3), ValueError, "beta must be from 0 to 700"),
    (lambda: signal.nuttall_window(3, periodic=2), TypeError, "periodic must be True"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_WINDOWS)
def test_errors_of_windows(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


def test_cosine_window(backend):
    require_dtypes(backend, "float64")
    y = signal.cosine_window(4, 0.2, 0.1, dtype="float64")
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.numpy(), [0.1, 0.2, 0.3, 0.2], rtol=1e-15)


@pytest.mark.parametrize("value", [(1, 1), (2, 2), (3, 4), (8, 8), (257, 512)])
def test_enclosing_power_of_two(value):
    assert signal.enclosing_power_of_two(value[0]) == value[1]


# --- frames ----------------------------------------------------------------------


def framed(x, length, step, pad_end=False, pad_value=0):
    starts = range(0, x.shape[-1], step)
    if pad_end:
        end = np.full((*x.shape[:-1], length), pad_value, x.dtype)
        x = np.concatenate([x, end], -1)
    else:
        starts = [i for i in starts if i + length <= x.shape[-1]]
    parts = [x[..., i : i + length] for i in starts]
    return np.stack(parts, -2) if parts else np.empty((*x.shape[:-1], 0, length))


FRAMES = [(3, 1), (4, 2), (5, 3), (2, 5), (1, 1), (12, 1), (13, 4), (1, 20)]


@pytest.mark.parametrize("frame", FRAMES, ids=str)
@pytest.mark.parametrize("shape", [(12,), (2, 3, 12), (0, 12), (2, 0)], ids=str)
def test_frame(shape, frame, backend):
    require_dtypes(backend, "float64")
    x = RNG.normal(size=shape)
    for options in ({}, {"pad_end": True}, {"pad_end": True, "pad_value": 1.5}):
        y = signal.frame(pg.asarray(x), *frame, **options)
        expected = framed(x, *frame, **options)
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y.numpy(), expected)
    if x.size and len(shape) < 3:
        check_gradients(lambda x: signal.frame(x, *frame, pad_end=True), x)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float16", "complex64"])
def test_dtypes_of_frames(dtype, backend):
    require_dtypes(backend, dtype)
    x = np.arange(6).astype(dtype)
    y = signal.frame(pg.asarray(x), 4, 2)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.numpy(), [x[:4], x[2:]])
    total = signal.overlap_and_add(y, 2)
    assert total.dtype == ("int32" if dtype == "bool" else dtype)
    assert total.tolist() == [x[0], x[1], 2 * x[2], 2 * x[3], x[4], x[5]]


@pytest.mark.parametrize(
    "sizes", [(3, 3, 1), (4, 4, 2), (3, 5, 3), (2, 2, 5), (0, 3, 2)]
)
def test_overlap_and_add(sizes, backend):
    require_dtypes(backend, "float64")
    count, length, step = sizes
    x = RNG.normal(size=(2, count, length))
    expected = np.zeros((2, (count - 1) * step + length if count else 0))
    for i in range(count):
        expected[:, i * step : i * step + length] += x[:, i]
    y = signal.overlap_and_add(pg.asarray(x), step)
    assert y.shape == expected.shape
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-13)
    if count:
        check_gradients(lambda x: signal.overlap_and_add(x, step), x)


# --- spectra ---------------------------------------------------------------------

SPECTRA = [
    ((5, 2), {}),
    ((4, 1), {"fft_length": 8}),
    ((5, 3), {"fft_length": 3}),
    ((4, 2), {"window_fn": None}),
    ((3, 2), {"window_fn": signal.hamming_window}),
    ((3, 2), {"window_fn": lambda n: np.arange(1.0, n + 1)}),
]


@pytest.mark.parametrize(("frame", "options"), SPECTRA)
def test_stft(frame, options, backend):
    require_dtypes(backend, "complex128")
    x = RNG.normal(size=(2, 11))
    function = options.get("window_fn", signal.hann_window)
    window = 1.0 if function is None else np.asarray(function(frame[0]), np.float64)
    n = options.get("fft_length", 1 << (frame[0] - 1).bit_length())
    y = signal.stft(pg.asarray(x), *frame, **options)
    expected = np.fft.rfft(framed(x, *frame) * window, n)
    assert (y.dtype, y.shape) == (np.complex128, expected.shape)
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-6)
    check_complex_gradients(lambda x: signal.stft(x, *frame, **options), x)


def test_default_windows_are_as_precise_as_the_signal(backend):
    require_dtypes(backend, "complex128")
    x = RNG.normal(size=64)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(16) / 16)
    y = signal.stft(x, 16, 4)
    np.testing.assert_allclose(y.numpy(), np.fft.rfft(framed(x, 16, 4) * window))
    single = signal.stft(x.astype(np.float32), 16, 4, window_fn=np.hanning)
    assert single.dtype == np.complex64
    assert signal.stft(x.astype(np.float16), 16, 4).dtype == np.complex64


INVERSES = [
    ((8, 2), {}),
    ((8, 4), {"window_fn": signal.hamming_window}),
    ((5, 2), {"fft_length": 16}),
    ((4, 4), {"window_fn": None}),
    ((4, 6), {"window_fn": None}),
]


@pytest.mark.parametrize(("frame", "options"), INVERSES)
def test_istft(frame, options, backend):
    require_dtypes(backend, "complex128")
    length, step = frame
    x = RNG.normal(size=(2, 3 * step + length))
    y = signal.istft(signal.stft(x, *frame, **options), *frame, **options)
    assert (y.dtype, y.shape) == (np.float64, x.shape)
    window = options.get("window_fn", signal.hann_window)
    weights = np.ones(length) if window is None else window(length).numpy()
    overlap = np.zeros(x.shape[-1])
    for i in range(4):
        overlap[i * step : i * step + length] += weights**2
    np.testing.assert_allclose(y.numpy(), np.where(overlap > 1e-10, x, 0), atol=1e-11)
    spectra = RNG.normal(size=(*y.shape[:1], 4, 9)) * (1 + 2j)
    invert = lambda a: signal.istft(a, *frame, fft_length=16, length=x.shape[-1] + 3)
    assert invert(spectra).shape == (2, x.shape[-1] + 3)
    check_complex_gradients(invert, spectra)


def test_lengths_of_inverses(backend):
    require_dtypes(backend, "complex64")
    spectra = signal.stft(np.ones(20, np.float32), 8, 4)
    assert signal.istft(spectra, 8, 4).shape == (20,)
    assert signal.istft(spectra, 8, 4, length=5).shape == (5,)
    assert signal.istft(spectra, 8, 4, length=30).tolist()[20:] == [0] * 10
    short = signal.stft(np.ones(20, np.float32), 8, 4, fft_length=4)
    y = signal.istft(short, 8, 4, fft_length=4)  # the frames are now 4 samples long
    np.testing.assert_allclose(y.numpy(), [0, *[1] * 3] * 4, atol=1e-6)
    without_frames = signal.stft(np.ones(3, np.float32), 8, 4)
    assert (without_frames.shape, signal.istft(without_frames, 8, 4).shape) == (
        (0, 5),
        (0,),
    )


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (lambda x: signal.frame(x, 0, 1), "frame: frame_length 0 must be 1 or more"),
    (lambda x: signal.frame(x, 1, -1), "frame: frame_step -1 must be 1 or more"),
    (lambda x: signal.frame(1.0, 1, 1), r"frame: expected 1 axes .* got shape \(\)"),
    (
        lambda x: signal.overlap_and_add(x, 1),
        "overlap_and_add: expected 2 axes or more",
    ),
    (lambda x: signal.stft(x, 3, 0), "stft: frame_step 0 must be 1 or more"),
    (lambda x: signal.stft(x, 3, 1, fft_length=0), "stft: fft_length 0 must be 1"),
    (
        lambda x: signal.stft(x, 3, 1, window_fn=lambda n: pg.ones(n + 1)),
        r"stft: window_fn must return shape \(3,\); got shape \(4,\)",
    ),
    (
        lambda x: signal.istft(pg.ones((2, 4)), 4, 1),
        r"istft: fft_length 4 gives 3 bins; pass that of stft; got shape .*4\)",
    ),
    (lambda x: signal.istft(pg.ones((2, 3)), 0, 1), "istft: frame_length 0 must"),
    (lambda x: signal.hann_window(-1), "hann_window: window_length -1 must be 0 or"),
    (lambda x: signal.enclosing_power_of_two(0), "enclosing_power_of_two: value 0"),
]


@pytest.mark.parametrize(("call", "message"), ERRORS)
def test_errors(call, message, backend):
    with pytest.raises(ValueError, match=message):
        call(pg.ones((8,)))


def test_periodic_is_checked_for_every_length(backend):
    with pytest.raises(TypeError, match="periodic must be True or False, got 'x'"):
        signal.hann_window(1, periodic="x")


def test_errors_of_dtypes(backend):
    require_dtypes(backend, "complex64")
    with pytest.raises(TypeError, match=r"overlap_and_add: .* of strings"):
        signal.overlap_and_add([["a", "b"]], 1)
    with pytest.raises(TypeError, match="stft: takes real numbers, got complex64"):
        signal.stft(np.ones(8, np.complex64), 4, 2)
    with pytest.raises(TypeError, match="stft: takes real numbers"):
        signal.stft(pg.ones((8,)), 4, 2, window_fn=lambda n: np.ones(n, np.complex64))
    with pytest.raises(TypeError, match="hann_window: dtype must be real floating"):
        signal.hann_window(4, dtype="int32")
    with pytest.raises(TypeError, match="enclosing_power_of_two: value must be an"):
        signal.enclosing_power_of_two(1.5)
