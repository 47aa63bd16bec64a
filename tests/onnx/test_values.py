"""Answers of ONNX Runtime in cases that ONNX's own node tests do not cover."""

import numpy as np
import pytest
from onnx.parser import parse_model
from plugrad_onnx import load

HEAD = '<ir_version: 8, opset_import: ["": {}]>\n'


def run(text, opset, *inputs):
    """Return the first output of a model for arrays."""
    found = load(parse_model(HEAD.format(opset) + text))(*inputs)
    return (found[0] if isinstance(found, tuple) else found).numpy()


# --- AffineGrid ------------------------------------------------------------------

AFFINE = """g (float[N, R, C] theta, int64[K] size) => (float y) {
  y = AffineGrid <align_corners = %d> (theta, size)
}"""
THETA = [[1.0, 0.5, 0.25], [0.0, 2.0, -0.5]]
SOLID = [[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [1.0, 0.0, 4.0, 0.5]]
GRIDS = {
    "pixels": (
        0,
        THETA,
        [1, 1, 1, 3],
        [[[[-5 / 12, -0.5], [0.25, -0.5], [11 / 12, -0.5]]]],
    ),
    "corners": (
        1,
        THETA,
        [1, 1, 2, 3],
        [
            [
                [[-1.25, -2.5], [-0.25, -2.5], [0.75, -2.5]],
                [[-0.25, 1.5], [0.75, 1.5], [1.75, 1.5]],
            ]
        ],
    ),
    # PyTorch puts a single pixel at 0, where ONNX would divide by zero.
    "a row of corners": (1, THETA, [1, 1, 1, 2], [[[[-0.75, -0.5], [1.25, -0.5]]]]),
    "one pixel": (1, THETA, [1, 1, 1, 1], [[[[0.25, -0.5]]]]),
    "one voxel": (1, SOLID, [1, 1, 1, 1, 1], [[[[[0.0, 0.0, 0.5]]]]]),
    "voxels": (
        0,
        SOLID,
        [1, 1, 2, 1, 2],
        [[[[[-0.5, 0, -2], [0.5, 0, -1]]], [[[-0.5, 0, 2], [0.5, 0, 3]]]]],
    ),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", GRIDS)
def test_affine_grid(name, batch, backend):
    corners, theta, size, expected = GRIDS[name]
    thetas = np.float32([theta] * batch)
    found = run(AFFINE % corners, 20, thetas, np.int64([batch, *size[1:]]))
    np.testing.assert_allclose(found, np.float32(expected * batch), atol=1e-6)


# --- ConvTranspose ---------------------------------------------------------------

CONV_TRANSPOSE = """g (float[1, 1, 3] x, float[1, 1, 3] w) => (float y) {
  y = ConvTranspose <strides = [2], auto_pad = "%s", output_shape = [%d],
                     output_padding = [%d]> (x, w)
}"""
FULL_OUTPUT = [1, 10, 102, 20, 203, 30, 300]
# If an odd number of elements is cut, these modes cut one more at the beginning.
CUT_BEGINNING = ("NOTSET", "VALID", "SAME_LOWER")
# auto_pad, output_shape, output_padding; the begin and end of the output in FULL_OUTPUT
SHAPES = [
    *((mode, 6, 0, 1, 7) for mode in CUT_BEGINNING),
    *((mode, 4, 0, 2, 6) for mode in CUT_BEGINNING),
    *((mode, 3, 1, 3, 6) for mode in CUT_BEGINNING),
    *((mode, 5, 1, 2, 7) for mode in CUT_BEGINNING),
    *((mode, 5, 0, 1, 6) for mode in (*CUT_BEGINNING, "SAME_UPPER")),
    *((mode, 7, 0, 0, 7) for mode in (*CUT_BEGINNING, "SAME_UPPER")),
    ("SAME_UPPER", 6, 0, 0, 6),
    ("SAME_UPPER", 4, 0, 1, 5),
    ("SAME_UPPER", 5, 1, 1, 6),
]


@pytest.mark.parametrize(("auto_pad", "size", "output_padding", "begin", "end"), SHAPES)
def test_output_shape_of_a_transpose(
    auto_pad, size, output_padding, begin, end, backend
):
    x = np.float32([[[1, 2, 3]]])
    w = np.float32([[[1, 10, 100]]])
    found = run(CONV_TRANSPOSE % (auto_pad, size, output_padding), 11, x, w)
    assert found.tolist() == [[FULL_OUTPUT[begin:end]]]


# --- Resize of opset 10 ----------------------------------------------------------

RESIZED = """g (float[A, B] x, float[C] scales) => (float y) {
  y = Resize <mode = "nearest"> (x, scales)
}"""
SCALES = [
    ([1.0, 0.6], [[1, 3], [5, 7]]),
    ([1.0, 0.8], [[1, 3, 4], [5, 7, 8]]),
    ([0.6, 0.6], [[1, 3]]),
    ([1.0, 0.3], [[1], [5]]),
    ([0.8, 1.5], [[1, 1, 2, 3, 3, 4]]),
    ([1.5, 0.8], [[1, 3, 4], [1, 3, 4], [5, 7, 8]]),
]


@pytest.mark.parametrize(("scales", "expected"), SCALES)
def test_nearest_of_opset_10_rounds_up_where_it_shrinks(scales, expected, backend):
    x = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    assert run(RESIZED, 10, x, np.float32(scales)).tolist() == expected
    image = x[None, None]
    wide = np.float32([1, 1, *scales])
    text = RESIZED.replace("A, B", "A, B, C, D")
    assert run(text, 10, image, wide).tolist() == [[expected]]


# --- MaxUnpool -------------------------------------------------------------------

UNPOOL = """g (float[A, B, C, D] x, int64[A, B, C, D] places, int64[4] size)
=> (float y) {
  y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, places, size)
}"""
POOL = """g (float[A, B, C, D] x) => (float y, int64 places) {
  y, places = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
}"""


@pytest.mark.parametrize("shape", [(1, 1, 7, 7), (2, 3, 5, 7), (2, 1, 4, 5)])
def test_max_unpool_puts_maxima_back_in_place(shape, backend):
    x = np.float32(np.random.default_rng(0).permutation(np.prod(shape)) + 1)
    x = x.reshape(shape)
    y, places = (v.numpy() for v in load(parse_model(HEAD.format(12) + POOL))(x))
    found = run(UNPOOL, 11, y, places, np.int64(shape))
    expected = np.where(np.isin(np.arange(x.size), places), x.reshape(-1), 0)
    assert found.tolist() == expected.reshape(shape).tolist()


def test_places_past_the_inferred_size(backend):
    x = np.float32([[[[5, 6], [7, 8]]]])
    places = np.int64([[[[0, 8], [15, 24]]]])
    found = run(UNPOOL, 11, x, places, np.int64([1, 1, 5, 5]))
    assert found.reshape(-1)[[0, 8, 15, 24]].tolist() == [5, 6, 7, 8]


def test_places_in_the_inferred_space():
    """Indices refer to the inferred 4 x 4 output, as in ONNX's own node test.

    In the 5 x 5 output, index 13 would be outside the third window.
    """
    x = np.float32([[[[5, 6], [7, 8]]]])
    places = np.int64([[[[5, 7], [13, 15]]]])
    found = run(UNPOOL, 11, x, places, np.int64([1, 1, 5, 5]))[0, 0]
    assert found[[1, 1, 3, 3], [1, 3, 1, 3]].tolist() == [5, 6, 7, 8]
    assert np.count_nonzero(found) == 4
