"""Ops on strings, public as ``plugrad.strings``.

Kernels: ``StaticRegexReplace StringNGrams StringSplit StringToHashBucketFast``.

Strings are bytes. Here, a character is a byte, except in patterns, which match UTF-8
characters. All kernels run on the host and have no decomposition.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Unpack

from plugrad._src.engine.dispatch import run, run_many
from plugrad._src.ops.basis import _convert
from plugrad._src.ops.sparse import ragged
from plugrad._src.registry.contract import Kernel, Spec
from plugrad._src.tensor.arguments import Ints, flag, integer, integers, misfit
from plugrad._src.tensor.dtypes import DTYPES, INT32, STRING, named
from plugrad._src.tensor.hints import Nothing, unexpected
from plugrad._src.tensor.tensor import Tensor, TensorLike

if TYPE_CHECKING:
    from plugrad._src.ops.sparse._results import Pieces

__all__ = ["ngrams", "regex_replace", "split", "to_hash_bucket_fast"]


def _text(op: str, name: str, value: TensorLike, rank: int | None = None) -> Tensor:
    """Return a tensor of strings; raise unless it has ``rank`` axes, if given."""
    listed = isinstance(value, list | tuple) and not value
    x = _convert.asarray(value, dtype=STRING if listed else None)
    if x.dtype is not STRING:
        raise TypeError(f"{op}: {name} must be strings, got {named(x.dtype)}")
    if rank is not None and len(x.shape) != rank:
        raise ValueError(f"{op}: {name} must have rank {rank}, got shape {x.shape}")
    return x


# --- elements --------------------------------------------------------------------


def _buckets_spec(input: Spec, *, num_buckets: int) -> Spec:
    count = _checked_buckets("strings.to_hash_bucket_fast", num_buckets)
    return Spec(input.shape, INT32 if count <= 2**31 else DTYPES["int64"])


def _checked_buckets(op: str, num_buckets: int) -> int:
    count = integer(op, "num_buckets", num_buckets)
    if not 1 <= count <= 2**63:
        raise ValueError(f"{op}: num_buckets {count} must be from 1 to 2**63")
    return count


STRING_TO_HASH_BUCKET_FAST = Kernel(
    "StringToHashBucketFast(input: string; num_buckets)",  # num_buckets: up to 2**63
    out=_buckets_spec,
    op="strings.to_hash_bucket_fast",
    doc="""FarmHash's 64-bit fingerprint of each string, modulo ``num_buckets``.

    int32, or int64 if there are more than 2³¹ buckets.""",
)


def to_hash_bucket_fast(
    x: TensorLike, /, num_buckets: int, **unknown: Unpack[Nothing]
) -> Tensor:
    """Return a bucket number from 0 to ``num_buckets - 1`` for each string.

    The number is FarmHash's 64-bit fingerprint modulo ``num_buckets``, which is always
    the same for the same string. The hash is not cryptographic: an attacker can choose
    strings that collide.

    Args:
        x: A tensor of strings.
        num_buckets: The number of buckets, from 1 to 2⁶³.

    Returns:
        A tensor of the shape of ``x``: int32, or int64 for more than 2³¹ buckets.

    Raises:
        ValueError: ``num_buckets`` is out of range.
        TypeError: ``x`` does not contain strings.

    Example:
        >>> pg.strings.to_hash_bucket_fast(["cat", "dog"], 10)
        Tensor([6, 2], dtype=int32, backend='cpu')

    Source:
        TensorFlow, ``tf.strings.to_hash_bucket_fast``.

    """
    if unknown:
        raise unexpected(to_hash_bucket_fast, unknown)
    op = "strings.to_hash_bucket_fast"
    count = _checked_buckets(op, num_buckets)
    return run(STRING_TO_HASH_BUCKET_FAST, _text(op, "x", x), num_buckets=count)


def _replace_spec(x: Spec, *, pattern: str, rewrite: str, replace_global: bool) -> Spec:
    _check_regex("strings.regex_replace", pattern, rewrite)
    return x


def _check_regex(op: str, pattern: str, rewrite: str) -> None:
    """Raise unless ``re`` accepts the pattern and the rewrite."""
    try:
        re.compile(pattern).sub(rewrite, "")
        rewrite.encode(errors="surrogateescape")
    except (re.error, IndexError, OverflowError, UnicodeError) as error:
        why = f"{pattern!r} or its rewrite {rewrite!r} cannot be read: {error}"
        raise ValueError(f"{op}: {why}") from None


STATIC_REGEX_REPLACE = Kernel(
    "StaticRegexReplace(x: string; pattern: str, rewrite: str, replace_global: bool)",
    out=_replace_spec,
    op="strings.regex_replace",
    doc="""Each string, in which all matches of ``pattern`` are replaced by ``rewrite``
    as by ``re.sub``; without ``replace_global``, only the first match.

    Strings are decoded as UTF-8. A byte that is not valid UTF-8 counts as one character
    (``surrogateescape``) and is preserved.""",
)


def regex_replace(
    x: TensorLike,
    /,
    pattern: str,
    rewrite: str,
    *,
    replace_global: bool = True,
    **unknown: Unpack[Nothing],
) -> Tensor:
    r"""Return each string with matches of ``pattern`` replaced by ``rewrite``.

    Args:
        x: Strings, decoded as UTF-8. A byte that is not valid UTF-8 matches only ``.``
            and similar classes.
        pattern: A regular expression as in Python's ``re``. Some expressions, such as
            ``(a+)+$``, take time that is exponential in the length of the string; pass
            only patterns that you trust.
        rewrite: The replacement, in which ``\1`` to ``\9`` stand for the groups and
            ``\0`` for the whole match; otherwise as in ``re.sub``.
        replace_global: Whether to replace all matches or only the first one.

    Returns:
        A tensor of strings of the shape of ``x``.

    Raises:
        ValueError: ``re`` does not accept the pattern or the rewrite.
        TypeError: ``x`` does not contain strings, or the pattern or rewrite is not
            ``str``.

    Example:
        >>> pg.strings.regex_replace(["a-b", "c"], "[-_]", "+")
        Tensor([b'a+b', b'c'], dtype=string, backend='cpu')

    """
    if unknown:
        raise unexpected(regex_replace, unknown)
    op = "strings.regex_replace"
    for given in (pattern, rewrite):
        if not isinstance(given, str):
            raise TypeError(f"{op}: pattern and rewrite must be str, got {given!r}")
    everywhere = flag(op, "replace_global", replace_global)
    one_digit = lambda m: rf"\g<{m[1]}>" if m[1].isdigit() else m[0]
    template = re.sub(r"\\(\\|[0-9])", one_digit, rewrite)
    _check_regex(op, pattern, template)
    how = {"pattern": pattern, "rewrite": template, "replace_global": everywhere}
    return run(STATIC_REGEX_REPLACE, _text(op, "x", x), **how)


# --- pieces ----------------------------------------------------------------------


def _check_split(input: Spec, delimiter: Spec, *, skip_empty: bool) -> None:
    if len(input.shape) != 1 or delimiter.shape:
        rule = "strings must be [n], and the delimiter one string"
        raise misfit("strings.split", rule, input, delimiter)


STRING_SPLIT = Kernel(
    "StringSplit(input: string, delimiter: string; skip_empty: bool) -> indices, "
    "values, shape",
    out=_check_split,
    op="strings.split",
    doc="""The strings, split at each byte that occurs in ``delimiter``; if it is empty,
    every byte is a piece. ``values`` are the pieces of all strings, one after the
    other.

    ``indices`` ``[m, 2]``, int32, are the index of the string that each piece comes
    from, and the index of the piece in it. ``shape``, int32, is n and the largest
    number of pieces. An empty string has no pieces. ``skip_empty`` drops empty
    pieces.""",
)


def split(
    x: TensorLike, delimiter: TensorLike, /, *, skip_empty: bool = True
) -> Pieces:
    """Return the pieces of each string between the characters of ``delimiter``.

    Args:
        x: ``[n]``, strings.
        delimiter: One string; each of its characters separates pieces. The empty string
            makes every character a piece.
        skip_empty: Whether to drop empty pieces. An empty string has no pieces in any
            case.

    Returns:
        A sparse tensor, as a named tuple: ``indices``, int32 ``[m, 2]``, for each piece
        the index of its string and the index of the piece in that string; ``values``,
        the pieces of all strings, one string after another; ``shape``, int32, n and the
        largest number of pieces.

    Raises:
        ValueError: ``x`` does not have rank 1, or ``delimiter`` is not one string.
        TypeError: An argument does not contain strings.

    Example:
        >>> pieces = pg.strings.split(["a b", "c"], " ")
        >>> pieces.values
        Tensor([b'a', b'b', b'c'], dtype=string, backend='cpu')
        >>> pieces.indices.tolist()
        [[0, 0], [0, 1], [1, 0]]

    """
    op = "strings.split"
    skip_empty = flag("strings.split", "skip_empty", skip_empty)
    x = _text(op, "x", x, 1)
    delimiter = _text(op, "delimiter", delimiter, 0)
    from plugrad._src.ops.sparse._results import Pieces

    return Pieces(*run_many(STRING_SPLIT, x, delimiter, skip_empty=skip_empty))


def _check_ngrams(
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
    _check_widths(op, ngram_widths, pad_width)
    for name, text in texts.items():
        if not isinstance(text, bytes):
            raise TypeError(f"{op}: {name} must be bytes, got {text!r}; encode it")


def _check_widths(op: str, widths: tuple[int, ...], pad: int) -> None:
    if not widths or min(widths) < 1 or pad < -1 or max(*widths, pad) >= 2**31:
        rule = f"ngram_widths {widths} must be at least 1, pad_width {pad} at least -1"
        raise ValueError(f"{op}: {rule}, and all below 2**31")


STRING_N_GRAMS = Kernel(
    "StringNGrams(data: string, data_splits: int32 | int64; separator, ngram_widths: "
    "ints, left_pad, right_pad, pad_width: int, preserve_short_sequences: bool) -> "
    "ngrams, ngrams_splits",
    out=_check_ngrams,
    checks="data_splits",
    op="strings.ngrams",
    doc="""The n-grams of each row, ``data[splits[i] : splits[i + 1]]``. An n-gram is a
    window of adjacent strings, joined by ``separator``. The n-grams of the first width
    come first.

    Each row is first padded with ``left_pad`` at its start and ``right_pad`` at its
    end, ``pad_width`` times but at most width - 1 times; -1 stands for width - 1. With
    ``preserve_short_sequences``, a row that has strings but no window gives one n-gram
    of all of them, with ``pad_width`` pads (none for -1). Splits that do not begin with
    0, that decrease, or that do not end with the size of ``data``, raise a ValueError;
    without splits and data there are no rows and no splits.""",
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
    **unknown: Unpack[Nothing],
) -> tuple[Tensor, Tensor]:
    """Return the n-grams of each row of a ragged tensor of strings, and their splits.

    Args:
        data: ``[m]``, the strings of all rows, one row after another.
        data_splits: The row splits: integers from 0 to m that say where rows begin and
            end.
        ngram_widths: The number of strings in an n-gram: an int or a sequence of ints.
            The n-grams of the first width come first.
        separator: The string between the strings of an n-gram.
        left_pad: The string put before each row, ``pad_width`` times.
        right_pad: The string put after each row, ``pad_width`` times.
        pad_width: The number of pads at each end, at most the width minus 1; -1 stands
            for this maximum.
        preserve_short_sequences: Whether a row that is too short for any n-gram gives
            one n-gram of all its strings, if it has any.

    Returns:
        The n-grams of all rows, one row after another, and their splits, in the dtype
        of ``data_splits``.

    Raises:
        ValueError: The splits are not valid row splits of ``data``, or a width is not
            positive.
        TypeError: ``data`` does not contain strings, or an argument has the wrong type.

    Example:
        >>> data = ["a", "b", "c", "d", "e"]
        >>> pg.strings.ngrams(data, [0, 3, 5], ngram_widths=2)[0]
        Tensor([b'a b', b'b c', b'd e'], dtype=string, backend='cpu')

    Source:
        TensorFlow, ``tf.raw_ops.StringNGrams``.

    """
    if unknown:
        raise unexpected(ngrams, unknown)
    op = "strings.ngrams"
    x = _text(op, "data", data, 1)
    splits = ragged.as_integers(op, "data_splits", data_splits, 1)
    widths = integers(op, "ngram_widths", ngram_widths)
    pad = integer(op, "pad_width", pad_width)
    _check_widths(op, widths, pad)
    texts = {"separator": separator, "left_pad": left_pad, "right_pad": right_pad}
    for name, text in texts.items():
        if not isinstance(text, str | bytes):
            raise TypeError(f"{op}: {name} must be str or bytes, got {text!r}")
    plain = {n: t.encode() if isinstance(t, str) else t for n, t in texts.items()}
    short = flag(op, "preserve_short_sequences", preserve_short_sequences)
    how = {"pad_width": pad, "preserve_short_sequences": short}
    found = run_many(STRING_N_GRAMS, x, splits, ngram_widths=widths, **plain, **how)
    return found[0], found[1]
