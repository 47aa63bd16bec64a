"""Text ops and non-maximum suppression, which run on the host with NumPy."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..registry import Value, op
from .patterns import compile_pattern

Array = np.ndarray[Any, Any]


def _texts(rows: Sequence[str], shape: Sequence[int]) -> Array:
    y = np.empty(len(rows), object)
    y[:] = rows
    return y.reshape(shape)


@op("StringConcat", since=20, reads=(0, 1))
def string_concat(x: Value, y: Value) -> Value:
    return x + y


@op("RegexFullMatch", since=20, reads=(0,), requires={"re2": "plugrad-onnx[re2]"})
def regex_full_match(x: Value, *, pattern: str) -> Value:
    matches = compile_pattern(pattern)
    results = [matches(text) for text in x.reshape(-1)]
    return np.array(results, bool).reshape(x.shape)


@op("StringSplit", since=20, reads=(0,))
def string_split(
    x: Value, *, delimiter: str | None = None, maxsplit: int = -1
) -> Value:
    rows = [text.split(delimiter or None, maxsplit) for text in x.reshape(-1)]
    width = max(map(len, rows), default=0)
    filled = [text for row in rows for text in [*row, *[""] * (width - len(row))]]
    counts = np.array([len(row) for row in rows], np.int64).reshape(x.shape)
    return _texts(filled, (*x.shape, width)), counts


@op("StringNormalizer", since=10, reads=(0,))
def string_normalizer(
    x: Value,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "en_US",
    stopwords: Sequence[str] = (),
) -> Value:
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(case_change_action, str)
    fold = str if is_case_sensitive else str.lower
    stops = {fold(word) for word in stopwords}
    rows = [change(text) for text in x.reshape(-1) if fold(text) not in stops]
    rows = [unicodedata.normalize("NFC", text) for text in rows] or [""]
    return _texts(rows, (1, len(rows)) if x.ndim == 2 else (len(rows),))


@op("TfIdfVectorizer", since=9, reads=(0,))
def tf_idf_vectorizer(
    x: Value,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Sequence[int] = (),
    pool_strings: Sequence[str] = (),
    weights: Sequence[float] = (),
) -> Value:
    pool: Sequence[Any] = pool_int64s or pool_strings
    grams: dict[tuple[Any, ...], int] = {}
    ends = [*ngram_counts, len(pool)]
    for n, start in enumerate(ngram_counts, 1):
        for position in range(start, ends[n], n):
            grams[tuple(pool[position : position + n])] = len(grams)
    y = np.zeros((len(np.atleast_2d(x)), max(ngram_indexes) + 1), np.float32)
    for row, items in zip(y, np.atleast_2d(x).tolist(), strict=True):
        for gram in _ngrams(items, min_gram_length, max_gram_length, max_skip_count):
            if gram in grams:
                row[ngram_indexes[grams[gram]]] += 1
    scale = np.ones(y.shape[1], np.float32)
    if weights:
        scale[list(ngram_indexes)] = weights
    counted = {"TF": y, "IDF": (y > 0) * scale, "TFIDF": y * scale}[mode]
    return counted.astype(np.float32).reshape(*x.shape[:-1], -1)


def _ngrams(
    items: Sequence[Any], min_length: int, max_length: int, max_skips: int
) -> Any:
    for n in range(min_length, max_length + 1):
        for skip in range(1, (max_skips if n > 1 else 0) + 2):
            for start in range(len(items) - (n - 1) * skip):
                yield tuple(items[start : start + n * skip : skip])


@op("NonMaxSuppression", since=10, reads=range(5))
def non_max_suppression(
    boxes: Value,
    scores: Value,
    max_boxes: Value = None,
    iou_threshold: Value = None,
    score_threshold: Value = None,
    *,
    center_point_box: int = 0,
) -> Value:
    count = 0 if max_boxes is None else int(max_boxes.item())
    threshold = 0.0 if iou_threshold is None else float(iou_threshold.item())
    corners = _corners(boxes, center_point_box)
    selected = []
    for batch, rows in enumerate(scores):
        for label, row in enumerate(rows):
            order = np.argsort(-row, kind="stable")
            if score_threshold is not None:
                order = order[row[order] > score_threshold.item()]
            kept = _suppress(corners[batch], order, count, threshold)
            selected += [(batch, label, i) for i in kept]
    return np.array(selected, np.int64).reshape(-1, 3)


def _corners(boxes: Array, by_center: int) -> Array:
    a = boxes[..., :2]
    b = boxes[..., 2:]
    if by_center:
        return np.concatenate([a - b / 2, a + b / 2], axis=-1)
    return np.concatenate([np.minimum(a, b), np.maximum(a, b)], axis=-1)


def _suppress(boxes: Array, order: Array, count: int, threshold: float) -> list[int]:
    """Return up to ``count`` boxes that do not overlap a better box too much."""
    kept: list[int] = []
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    while len(order) and len(kept) < count:
        best = int(order[0])
        order = order[1:]
        kept.append(best)
        low = np.maximum(boxes[best, :2], boxes[order, :2])
        high = np.minimum(boxes[best, 2:], boxes[order, 2:])
        intersection = np.prod(np.maximum(high - low, 0), axis=-1)
        order = order[
            intersection <= threshold * (area[best] + area[order] - intersection)
        ]
    return kept
