"""Ops on strings, public as ``plugrad.strings``.

Kernels: ``StaticRegexReplace StringNGrams StringSplit StringToHashBucketFast``.

Strings are bytes, and what is said of characters is meant of bytes, except for
patterns, which read UTF-8. All of it runs on the host; nothing decomposes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from plugrad.engine.dispatch import run, run_many
from plugrad.registry.contract import Kernel, Spec
from plugrad.tensor.arguments import Ints, flag, integer, integers, misfit
from plugrad.tensor.dtypes import DTYPES, INT32, STRING, named
from plugrad.tensor.tensor import Tensor, TensorLike

from . import _convert, ragged

__all__ = ["ngrams", "regex_replace", "split", "to_hash_bucket_fast"]


def _text(op: str, name: str, value: TensorLike, rank: int | None = None) -> Tensor:
    """Return a tensor of strings; with so many axes, if ``rank`` says so."""
    listed = isinstance(value, list | tuple) and not value
    x = _convert.asarray(value, dtype=STRING if listed else None)
    if x.dtype is not STRING:
        raise TypeError(f"{op}: {name} must be strings, got {named(x.dtype)}")
    if rank is not None and len(x.shape) != rank:
        raise ValueError(f"{op}: {name} must have rank {rank}, got shape {x.shape}")
    return x


# --- elements --------------------------------------------------------------------


def _buckets(input: Spec, *, num_buckets: int) -> Spec:
    count = _counted("strings.to_hash_bucket_fast", num_buckets)
    return Spec(input.shape, INT32 if count <= 2**31 else DTYPES["int64"])


def _counted(op: str, num_buckets: int) -> int:
    count = integer(op, "num_buckets", num_buckets)
    if not 1 <= count <= 2**63:
        raise ValueError(f"{op}: num_buckets {count} must be from 1 to 2**63")
    return count


STRING_TO_HASH_BUCKET_FAST = Kernel(
    "StringToHashBucketFast(input: string; num_buckets)",  # of 64 bits, unsigned
    out=_buckets,
    op="strings.to_hash_bucket_fast",
    doc="""FarmHash's fingerprint of each string, 64 bits, modulo ``num_buckets``.

    int32, or int64 if there are more than 2³¹ buckets.""",
)


def to_hash_bucket_fast(x: TensorLike, /, num_buckets: int) -> Tensor:
    """Return a number from 0 to below ``num_buckets`` for each string, always the same.

    It is the remainder of FarmHash's 64-bit fingerprint: int32, or int64 where there
    are more buckets than it can count. Whoever chooses the strings can make them meet.

    Raises:
        ValueError: ``num_buckets`` is not from 1 to 2^63.
        TypeError: ``x`` holds no strings.

    """
    op = "strings.to_hash_bucket_fast"
    count = _counted(op, num_buckets)
    return run(STRING_TO_HASH_BUCKET_FAST, _text(op, "x", x), num_buckets=count)


def _replaced(x: Spec, *, pattern: str, rewrite: str, replace_global: bool) -> Spec:
    _readable("strings.regex_replace", pattern, rewrite)
    return x


def _readable(op: str, pattern: str, rewrite: str) -> None:
    """Raise unless ``re`` takes both."""
    try:
        re.compile(pattern).sub(rewrite, "")
        rewrite.encode(errors="surrogateescape")
    except (re.error, IndexError, OverflowError, UnicodeError) as error:
        why = f"{pattern!r} or its rewrite {rewrite!r} cannot be read: {error}"
        raise ValueError(f"{op}: {why}") from None


STATIC_REGEX_REPLACE = Kernel(
    "StaticRegexReplace(x: string; pattern: str, rewrite: str, replace_global: bool)",
    out=_replaced,
    op="strings.regex_replace",
    doc="""Each string with its matches of ``pattern``, or the first one only unless
    ``replace_global``, replaced by ``rewrite``; both as ``re.sub`` reads them.

    Strings are read as UTF-8. A byte that is none stands for a character of its own
    (``surrogateescape``), and comes through as it is.""",
)


def regex_replace(
    x: TensorLike, /, pattern: str, rewrite: str, *, replace_global: bool = True
) -> Tensor:
    r"""Return each string with what matches ``pattern`` replaced by ``rewrite``.

    Args:
        x: Strings, read as UTF-8; other bytes match nothing but ``.`` and its like.
        pattern: In the language of Python's ``re``.
        rewrite: Text, in which ``\1`` to ``\9`` stand for the groups and ``\0`` for all
            that has matched; all else is as in ``re.sub``.
        replace_global: Whether all matches are replaced, or the first one only.

    Raises:
        ValueError: The pattern or the rewrite is none.

    """
    op = "strings.regex_replace"
    for given in (pattern, rewrite):
        if not isinstance(given, str):
            raise TypeError(f"{op}: pattern and rewrite must be str, got {given!r}")
    everywhere = flag(op, "replace_global", replace_global)
    one_digit = lambda m: rf"\g<{m[1]}>" if m[1].isdigit() else m[0]
    template = re.sub(r"\\(\\|[0-9])", one_digit, rewrite)
    _readable(op, pattern, template)
    how = {"pattern": pattern, "rewrite": template, "replace_global": everywhere}
    return run(STATIC_REGEX_REPLACE, _text(op, "x", x), **how)


# --- pieces ----------------------------------------------------------------------


def _split(input: Spec, delimiter: Spec, *, skip_empty: bool) -> None:
    if len(input.shape) != 1 or delimiter.shape:
        rule = "strings must be [n], and the delimiter one string"
        raise misfit("strings.split", rule, input, delimiter)


STRING_SPLIT = Kernel(
    "StringSplit(input: string, delimiter: string; skip_empty: bool) -> indices, "
    "values, shape",
    out=_split,
    op="strings.split",
    doc="""The pieces between any of the bytes of ``delimiter``, and every byte if there
    are none: ``values``, of all strings one after the other.

    ``indices`` ``[m, 2]``: the string of each piece, and its number there. ``shape``: n
    and the largest number of pieces. int32. An empty string has no pieces.
    ``skip_empty`` leaves out empty ones.""",
)


class Pieces(NamedTuple):
    """What ``split`` returns: a sparse tensor."""

    indices: Tensor
    values: Tensor
    shape: Tensor


def split(
    x: TensorLike, delimiter: TensorLike, /, *, skip_empty: bool = True
) -> Pieces:
    """Return the pieces of each string between the characters of ``delimiter``.

    Args:
        x: ``[n]``.
        delimiter: One string, each character of which divides; none, and every
            character is a piece.
        skip_empty: Whether to leave out empty pieces. An empty string has none at all.

    Returns:
        ``values``, the pieces of all strings one after the other; ``indices``
        ``[m, 2]``, the string that each is from and its number there; ``shape``, n and
        the largest number of pieces. int32.

    """
    op, skip_empty = "strings.split", flag("strings.split", "skip_empty", skip_empty)
    x, delimiter = _text(op, "x", x, 1), _text(op, "delimiter", delimiter, 0)
    return Pieces(*run_many(STRING_SPLIT, x, delimiter, skip_empty=skip_empty))


def _grams(
    data: Spec,
    data_splits: Spec,
    *,
    ngram_widths: tuple[int, ...],
    pad_width: int,
    preserve_short_sequences: bool,
    **texts: bytes,
) -> None:
    op = "strings.ngrams"
    if len(data.shape) != 1 or len(data_splits.shape) != 1:
        raise misfit(op, "data and data_splits must have rank 1", data, data_splits)
    _widths(op, ngram_widths, pad_width)
    for name, text in texts.items():
        if not isinstance(text, bytes):
            raise TypeError(f"{op}: {name} must be bytes, got {text!r}; encode it")


def _widths(op: str, widths: tuple[int, ...], pad: int) -> None:
    if not widths or min(widths) < 1 or pad < -1 or max(*widths, pad) >= 2**31:
        rule = f"ngram_widths {widths} must be from 1, pad_width {pad} from 0, or -1"
        raise ValueError(f"{op}: {rule}; all below 2**31")


STRING_N_GRAMS = Kernel(
    "StringNGrams(data: string, data_splits: int32 | int64; separator, ngram_widths: "
    "ints, left_pad, right_pad, pad_width: int, preserve_short_sequences: bool) -> "
    "ngrams, ngrams_splits",
    out=_grams,
    checks="data_splits",
    op="strings.ngrams",
    doc="""The strings of each row, ``data[splits[i] : splits[i + 1]]``, joined by
    ``separator`` in windows of each width, those of the first width first.

    Before, a row gets ``left_pad`` in front and ``right_pad`` behind, ``pad_width``
    times but at most width - 1; -1 is for width - 1. ``preserve_short_sequences``: a
    row that has strings and no window gives one of all, with ``pad_width`` pads (-1:
    none).
    Splits that do not begin with 0, decrease or do not end with the size of ``data``
    are a ValueError; without splits and data there are no rows and no splits.""",
)


def ngrams(
    data: TensorLike,
    data_splits: TensorLike,
    /,
    *,
    ngram_widths: Ints,
    separator: str | bytes = " ",
    left_pad: str | bytes = "",
    right_pad: str | bytes = "",
    pad_width: int = 0,
    preserve_short_sequences: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the n-grams of each row of a ragged tensor of strings, and their splits.

    Args:
        data: ``[m]``, the strings of all rows one after the other.
        data_splits: Where rows begin, from 0 to m.
        ngram_widths: How many strings go into an n-gram; of several the n-grams of the
            first width come first.
        separator: Goes between the strings of an n-gram.
        left_pad: Put before each row,
        right_pad: and behind it,
        pad_width: so many times, but at most one less than the width; -1 for that.
        preserve_short_sequences: Whether a row too short for any n-gram gives one of
            all that it has, unless that is nothing.

    Raises:
        ValueError: The splits are not those of ``data``, or a width is not positive.

    """
    op = "strings.ngrams"
    x = _text(op, "data", data, 1)
    splits = ragged.whole(op, "data_splits", data_splits, 1)
    widths = integers(op, "ngram_widths", ngram_widths)
    pad = integer(op, "pad_width", pad_width)
    _widths(op, widths, pad)
    texts = {"separator": separator, "left_pad": left_pad, "right_pad": right_pad}
    for name, text in texts.items():
        if not isinstance(text, str | bytes):
            raise TypeError(f"{op}: {name} must be str or bytes, got {text!r}")
    plain = {n: t.encode() if isinstance(t, str) else t for n, t in texts.items()}
    short = flag(op, "preserve_short_sequences", preserve_short_sequences)
    how = {"pad_width": pad, "preserve_short_sequences": short}
    found = run_many(STRING_N_GRAMS, x, splits, ngram_widths=widths, **plain, **how)
    return found[0], found[1]
