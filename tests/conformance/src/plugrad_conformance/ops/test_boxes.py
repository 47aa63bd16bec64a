"""Non-maximum suppression, compared with its definition."""

import math

import numpy as np
import plugrad as pg
import pytest
from plugrad.plugin import Spec, contracts

from ..check import check_gradients

RNG = np.random.default_rng(0)


def iou(a, b):
    """Return the intersection over union of two boxes."""
    y, x = (sorted((a[i], a[i + 2])) for i in (0, 1))
    v, u = (sorted((b[i], b[i + 2])) for i in (0, 1))
    height = min(y[1], v[1]) - max(y[0], v[0])
    width = min(x[1], u[1]) - max(x[0], u[0])
    overlap = max(height, 0) * max(width, 0)
    areas = [(p[1] - p[0]) * (q[1] - q[0]) for p, q in ((y, x), (v, u))]
    return overlap / (sum(areas) - overlap) if min(areas) > 0 else 0


def suppressed(boxes, scores, size, max_iou, min_score, sigma=0):
    """Repeatedly choose the best box; return the indices and the scores."""
    candidates = {i: s for i, s in enumerate(scores.tolist()) if s > min_score}
    found, kept_scores = [], []
    while candidates and len(found) < size:
        best = max(candidates, key=lambda i: (candidates[i], -i))
        found.append(best)
        kept_scores.append(candidates.pop(best))
        for i in list(candidates):
            overlap = iou(boxes[i], boxes[best])
            candidates[i] *= math.exp(-(overlap**2) / (2 * sigma)) if sigma else 1
            if overlap >= max_iou or not candidates[i] > min_score:
                del candidates[i]
    return found, kept_scores


def random_boxes(n, dtype="float32"):
    corners = RNG.uniform(0, 1, (n, 2))
    boxes = np.concatenate([corners, corners + RNG.uniform(-0.4, 0.4, (n, 2))], 1)
    scores = np.rint(RNG.normal(size=n) * 8) / 8  # with ties
    return boxes.astype(dtype), scores.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 60])
@pytest.mark.parametrize("max_iou", [0.0, 0.15, 0.5, 1.0])
@pytest.mark.parametrize("min_score", [-math.inf, 0.1])
def test_boxes(n, max_iou, min_score, dtype, backend):
    boxes, scores = random_boxes(n, dtype)
    given = {"iou_threshold": max_iou, "score_threshold": min_score}
    for size in (0, 3, n + 2):
        exact = boxes.astype(float), scores, size, max_iou, min_score
        found, kept_scores = suppressed(*exact)
        y = pg.image.non_max_suppression(boxes, scores, size, **given)
        assert (y.dtype, y.tolist()) == (np.int32, found)
        y, y_scores = pg.image.non_max_suppression_with_score(
            boxes, scores, size, **given
        )
        assert (y.tolist(), y_scores.dtype, y_scores.tolist()) == (
            found,
            dtype,
            kept_scores,
        )
        y, count = pg.image.non_max_suppression_padded(boxes, scores, size, **given)
        assert (y.tolist(), count.dtype, count.item()) == (found, np.int32, len(found))
        y, count = pg.image.non_max_suppression_padded(
            boxes, scores, size, **given, pad_to_max_output_size=True
        )
        assert y.tolist() == found + [0] * (size - len(found))
        assert count.item() == len(found)
        for sigma in (0.1, 1.0):
            found, kept_scores = suppressed(*exact, sigma)
            y, y_scores = pg.image.non_max_suppression_with_score(
                boxes, scores, size, **given, soft_nms_sigma=sigma
            )
            assert (y.dtype, y.tolist(), y_scores.dtype) == (np.int32, found, dtype)
            np.testing.assert_allclose(
                y_scores.numpy(), np.array(kept_scores, dtype), rtol=1e-3
            )


def test_nan_boxes_and_scores(backend):
    """A NaN score is below every threshold, and a NaN box overlaps no other box."""
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, np.nan, 1], [0, 0, 1, 1]])
    scores = np.array([1.0, np.nan, 3.0, 2.0])
    for op in (
        lambda *given: [pg.image.non_max_suppression(*given)],
        pg.image.non_max_suppression_with_score,
        lambda *given: pg.image.non_max_suppression_with_score(
            *given, soft_nms_sigma=0.5
        ),
    ):
        assert op(boxes, scores, 9)[0].tolist() == [2, 3]
    infinite = np.array([np.inf, -np.inf, 0.0])
    assert pg.image.non_max_suppression(np.eye(3, 4), infinite, 3).tolist() == [0, 2]


def test_boxes_without_area_do_not_overlap(backend):
    boxes = np.zeros((3, 4))
    assert pg.image.non_max_suppression(boxes, [1, 3, 2], 3).tolist() == [1, 2, 0]


def test_the_padded_kernel_declares_its_output_shapes(backend):
    boxes, scores = map(pg.asarray, random_boxes(9))
    attrs = {"max_output_size": 5, "iou_threshold": 0.5, "score_threshold": 0.0}
    kernel = "NonMaxSuppressionV4"
    indices, count = pg.run_kernel(kernel, [boxes, scores], attrs)
    specs = [Spec(x.shape, x.dtype) for x in (boxes, scores)]
    declared = contracts()[kernel].out(*specs, **attrs)
    assert declared == tuple(Spec(x.shape, x.dtype) for x in (indices, count))


def test_gradients_of_scores(backend):
    boxes, scores = random_boxes(12, "float64")
    scores += np.arange(12) / 100
    f = lambda s: pg.square(pg.image.non_max_suppression_with_score(boxes, s, 7)[1])
    check_gradients(f, scores)
    g = lambda b: pg.image.non_max_suppression_with_score(b, scores, 7)[1]
    count = g(boxes).shape
    dboxes = pg.grad(g)(pg.asarray(boxes), dy=pg.ones(count, dtype="float64"))
    assert not dboxes.numpy().any()
    soft = lambda s: pg.image.non_max_suppression_with_score(
        boxes, s, 1, soft_nms_sigma=1.0
    )[1]
    with pytest.raises(pg.GradientNotFound, match="NonMaxSuppressionV5"):
        pg.grad(soft)(pg.asarray(scores), dy=pg.ones((1,), dtype="float64"))


BOXES, SCORES = random_boxes(4)
ERRORS = [
    ((BOXES[:, :3], SCORES, 2), {}, r"\(n, 4\) .* shapes \(4, 3\) and \(4,\)"),
    ((BOXES, SCORES[:3], 2), {}, r"got shapes \(4, 4\) and \(3,\)"),
    ((BOXES[0], SCORES[:1], 2), {}, r"got shapes \(4,\) and \(1,\)"),
    ((0.0, SCORES, 2), {}, r"got shapes \(\) and \(4,\)"),
    ((BOXES, SCORES, -1), {}, "max_output_size -1 must be 0 or more"),
    ((BOXES, SCORES, 2), {"iou_threshold": 1.5}, r"iou_threshold 1.5 must be in"),
    ((BOXES, SCORES, 2), {"score_threshold": math.nan}, "score_threshold nan must"),
]


@pytest.mark.parametrize(("args", "given", "message"), ERRORS, ids=str)
def test_errors(args, given, message, backend):
    for op in (
        pg.image.non_max_suppression,
        pg.image.non_max_suppression_padded,
        pg.image.non_max_suppression_with_score,
    ):
        with pytest.raises(ValueError, match=f"image.{op.__name__}: .*{message}"):
            op(*args, **given)


def test_more_errors(backend):
    with pytest.raises(TypeError, match="iou_threshold must be a number, got 'a'"):
        pg.image.non_max_suppression(BOXES, SCORES, 2, iou_threshold="a")
    with pytest.raises(ValueError, match="soft_nms_sigma must not be negative"):
        pg.image.non_max_suppression_with_score(BOXES, SCORES, 2, soft_nms_sigma=-1)
    with pytest.raises(TypeError, match="max_output_size must be an integer"):
        pg.image.non_max_suppression(BOXES, SCORES, 2.5)
    with pytest.raises(TypeError, match=r"there is no image\.non_max_sup\w+ of co"):
        pg.image.non_max_suppression(BOXES.astype("complex64"), SCORES, 2)
