"""Strings: object arrays of bytes."""

import re
from itertools import pairwise

import numpy as np
from plugrad.plugin import KernelTable

from ..arrays import Array
from ._farmhash import fingerprints
from .ragged import checked

kernels = KernelTable()


def _strings(parts: list[bytes]) -> Array:
    """Return a vector of objects; np.array would strip trailing zeros."""
    y = np.empty(len(parts), object)
    y[:] = parts
    return y


@kernels("StringToHashBucketFast")
def string_to_hash_bucket_fast(input: Array, *, num_buckets: int) -> Array:
    """Return the fingerprints modulo the number of buckets."""
    found = fingerprints(input.ravel().tolist()) % np.uint64(num_buckets)
    dtype = np.int32 if num_buckets <= 2**31 else np.int64
    return found.astype(dtype).reshape(input.shape)


@kernels("StaticRegexReplace")
def static_regex_replace(
    x: Array, *, pattern: str, rewrite: str, replace_global: bool
) -> Array:
    """Replace in decoded text; bytes that are not UTF-8 are left unchanged."""
    compiled = re.compile(pattern)
    count = 0 if replace_global else 1
    found = []
    for text in x.ravel().tolist():
        decoded = text.decode(errors="surrogateescape")
        replaced = compiled.sub(rewrite, decoded, count=count)
        found.append(replaced.encode(errors="surrogateescape"))
    return _strings(found).reshape(x.shape)


@kernels("StringSplit")
def string_split(
    input: Array, delimiter: Array, *, skip_empty: bool
) -> tuple[Array, Array, Array]:
    """Split at any byte of ``delimiter``; if it is empty, split into single bytes."""
    marks = delimiter.item()
    table = bytes.maketrans(marks, marks[:1] * len(marks))
    pieces: list[list[bytes]] = []
    for text in input.tolist():
        if not text:
            found = []
        elif marks:
            found = text.translate(table).split(marks[:1])
        else:
            found = [text[i : i + 1] for i in range(len(text))]
        pieces.append([p for p in found if p] if skip_empty else found)
    counts = np.array([len(found) for found in pieces], np.intp)
    rows = np.repeat(np.arange(len(pieces)), counts)
    numbers = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    return (
        np.stack([rows, numbers], 1).astype(np.int32),
        _strings([piece for found in pieces for piece in found]),
        np.array([len(pieces), counts.max(initial=0)], np.int32),
    )


@kernels("StringNGrams")
def string_n_grams(
    data: Array,
    data_splits: Array,
    *,
    separator: bytes,
    ngram_widths: tuple[int, ...],
    left_pad: bytes,
    right_pad: bytes,
    pad_width: int,
    preserve_short_sequences: bool,
) -> tuple[Array, Array]:
    """Join the windows of each padded row."""
    if data.size or data_splits.size:
        checked("strings.ngrams", data_splits, len(data))
    parts = data.tolist()
    ends = data_splits.tolist()
    found: list[bytes] = []
    counts = []
    for begin, end in pairwise(ends):
        row = parts[begin:end]
        before = len(found)
        for width in ngram_widths:
            pad = width - 1 if pad_width < 0 else min(pad_width, width - 1)
            padded = [left_pad] * pad + row + [right_pad] * pad
            for i in range(len(padded) - width + 1):
                found.append(separator.join(padded[i : i + width]))
        if preserve_short_sequences and row and len(found) == before:
            pad = max(pad_width, 0)
            padded = [left_pad] * pad + row + [right_pad] * pad
            found.append(separator.join(padded))
        counts.append(len(found))
    splits = np.array([0, *counts] if ends else [], data_splits.dtype)
    return _strings(found), splits
