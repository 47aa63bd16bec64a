"""String ops, compared with Python's."""

import re

import numpy as np
import plugrad as pg
import pytest

strings = pg.strings

# --- hashes ----------------------------------------------------------------------

# The fingerprints of the first n bytes of ALPHABET, by Google's FarmHash.
ALPHABET = bytes((7 * i + 3) % 256 for i in range(700))
FINGERPRINTS = {
    0: 0x9AE16A3B2F90404F,
    1: 0xBEC09CC447469D8B,
    2: 0x16F8263645A8ECF5,
    3: 0x40B4412E33EEFD64,
    4: 0xF3C7EE05197A7B92,
    7: 0x4FEF0B39C12AA9A4,
    8: 0x0C97ECBC1E9D2626,
    9: 0xE51CF38098A5BFFF,
    15: 0x2CA35F0A039B4F1B,
    16: 0x7EDA0ED8C837A168,
    17: 0xC9518FE63EBF6127,
    24: 0x310064A8DE2C42D2,
    32: 0xA53F806F23A314E8,
    33: 0xC24F9D7CE864F0E9,
    48: 0xA77873935894901F,
    64: 0x0566266CB579ECA2,
    65: 0x77E0867714E6B0E4,
    100: 0x9E17C36FE4A61B08,
    127: 0xCAA19A12C8273B7E,
    128: 0x666823960B3AC271,
    129: 0x98206B8579BCA083,
    192: 0x3FB42D06DD42F727,
    193: 0x9A1776A82B94F2B6,
    640: 0x875F85B51C50F49F,
    700: 0x10941824E0710361,
}


@pytest.mark.parametrize("length", FINGERPRINTS)
def test_fingerprints(length, backend):
    y = strings.to_hash_bucket_fast(ALPHABET[:length], 2**63)
    assert (y.dtype, y.shape) == (np.int64, ())
    assert y.item() == FINGERPRINTS[length] % 2**63
    y = strings.to_hash_bucket_fast(ALPHABET[:length], 2**31)
    assert (y.dtype, y.item()) == (np.int32, FINGERPRINTS[length] % 2**31)


def test_the_hash_of_a_string_does_not_depend_on_other_strings(backend):
    texts = [ALPHABET[: n % 150] for n in range(0, 3000, 7)]
    y = strings.to_hash_bucket_fast([texts], 1000)
    assert y.shape == (1, len(texts))
    alone = [strings.to_hash_bucket_fast(text, 1000).item() for text in texts]
    assert y.tolist() == [alone]
    assert strings.to_hash_bucket_fast([], 5).shape == (0,)


# --- patterns --------------------------------------------------------------------

PATTERNS = [
    (" +", " ", True, ["a  b   c", ""], ["a b c", ""]),
    ("t", "\\0\\0", False, ["test"], ["ttest"]),
    (r"(\w)(\d)", r"\2-\1", True, ["a1 b2"], ["1-a 2-b"]),
    (r"(a)|b", r"<\1>", True, ["ab"], ["<a><>"]),
    ("(a)", r"\10", True, ["a"], ["a0"]),
    ("a", r"\\0", True, ["a"], [r"\0"]),
    (".", "x", True, ["äö"], ["xx"]),
    ("^b", "x", True, ["ab\nb"], ["ab\nb"]),
    ("x*", "-", True, ["ab"], ["-a-b-"]),
]


@pytest.mark.parametrize(
    ("pattern", "rewrite", "replace_global", "texts", "expected"),
    PATTERNS,
    ids=range(9),
)
def test_regex_replace(pattern, rewrite, replace_global, texts, expected, backend):
    y = strings.regex_replace([texts], pattern, rewrite, replace_global=replace_global)
    assert y.tolist() == [[text.encode() for text in expected]]
    y = strings.regex_replace(texts[0], pattern, rewrite, replace_global=replace_global)
    assert y.item() == expected[0].encode()


def test_regex_replace_keeps_bytes_that_are_not_utf_8(backend):
    y = strings.regex_replace([b"\xffa\0", b"\xc3"], "a", "b")
    assert y.tolist() == [b"\xffb\0", b"\xc3"]


# --- split -----------------------------------------------------------------------

TEXTS = ["#a", "b#", "#c,d#", "", "plain", "ä#\0"]
DELIMITERS = ["#", "#,", "", "x", "\0", "]^-\\"]


@pytest.mark.parametrize("delimiter", DELIMITERS)
@pytest.mark.parametrize("skip_empty", [True, False])
def test_split(delimiter, skip_empty, backend):
    found = strings.split([*TEXTS, "a]b^c-d\\e"], delimiter, skip_empty=skip_empty)
    separators = (
        b"[" + b"".join(re.escape(bytes([b])) for b in delimiter.encode()) + b"]"
    )
    rows = []
    for text in [*TEXTS, "a]b^c-d\\e"]:
        data = text.encode()
        pieces = re.split(separators, data) if delimiter else [bytes([b]) for b in data]
        rows.append([p for p in pieces if p or not skip_empty] if data else [])
    at = [[i, j] for i, row in enumerate(rows) for j in range(len(row))]
    assert found.indices.tolist() == at
    assert found.values.tolist() == [piece for row in rows for piece in row]
    assert found.shape.tolist() == [len(rows), max(map(len, rows))]
    assert {found.indices.dtype, found.shape.dtype} == {np.dtype("int32")}
    assert found.values.dtype is pg.string


def test_split_gives_a_sparse_tensor(backend):
    at, pieces, sizes = strings.split(["a b", "c"], " ")
    y = pg.sparse.to_dense(at, pieces, sizes.tolist())
    assert y.tolist() == [[b"a", b"b"], [b"c", b""]]


def test_split_without_pieces(backend):
    for texts in ([], [""], ["##"]):
        at, pieces, sizes = strings.split(texts, "#")
        assert (at.shape, pieces.shape) == ((0, 2), (0,))
        assert sizes.tolist() == [len(texts), 0]


# --- n-grams ---------------------------------------------------------------------


def grams(rows, widths, left, right, pad, preserve):
    """Return the n-grams of each row as lists."""
    found = []
    for row in rows:
        row_grams = []
        for width in widths:
            count = width - 1 if pad < 0 else min(pad, width - 1)
            padded = [left] * count + row + [right] * count
            row_grams += [
                "|".join(padded[i : i + width]) for i in range(len(padded) - width + 1)
            ]
        if preserve and row and not row_grams:
            row_grams = ["|".join([left] * max(pad, 0) + row + [right] * max(pad, 0))]
        found.append(row_grams)
    return found


ROWS = [["a", "b", "c", "d"], [], ["e"], ["f", "g"]]


@pytest.mark.parametrize("widths", [1, 3, (2, 3), (4, 2), (7,)], ids=str)
@pytest.mark.parametrize("pad", [0, 1, -1])
@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_ngrams(widths, pad, preserve, dtype, backend):
    splits = np.cumsum([0, *map(len, ROWS)]).astype(dtype)
    y, ends = strings.ngrams(
        [text for row in ROWS for text in row],
        pg.asarray(splits),
        separator="|",
        ngram_widths=widths,
        left_pad="L",
        right_pad=b"R",
        pad_width=pad,
        preserve_short_sequences=preserve,
    )
    widths = (widths,) if isinstance(widths, int) else widths
    rows = grams(ROWS, widths, "L", "R", pad, preserve)
    assert y.tolist() == [gram.encode() for row in rows for gram in row]
    assert ends.tolist() == [0, *np.cumsum([len(row) for row in rows])]
    assert (y.dtype, ends.dtype) == (pg.string, dtype)


def test_ngrams_of_empty_rows(backend):
    y, ends = strings.ngrams([], [], ngram_widths=2)
    assert (y.shape, ends.shape) == ((0,), (0,))
    y, ends = strings.ngrams([], [0, 0], ngram_widths=2, left_pad="<", pad_width=1)
    assert (y.tolist(), ends.tolist()) == ([b"< "], [0, 1])


# --- errors ----------------------------------------------------------------------

ngrams = lambda data, splits, **options: strings.ngrams(
    data, splits, **{"ngram_widths": 2} | options
)
ERRORS = [
    (lambda: strings.to_hash_bucket_fast(["a"], 0), ValueError, "num_buckets 0 must"),
    (lambda: strings.to_hash_bucket_fast(["a"], 2**64), ValueError, "from 1 to 2"),
    (lambda: strings.to_hash_bucket_fast(["a"], 2.5), TypeError, "must be an integer"),
    (
        lambda: strings.to_hash_bucket_fast([1], 3),
        TypeError,
        "x must be strings, got i",
    ),
    (lambda: strings.regex_replace(["a"], "(", ""), ValueError, "regex_replace: '.'"),
    (lambda: strings.regex_replace(["a"], "a", r"\1"), ValueError, "invalid group ref"),
    (lambda: strings.regex_replace(["a"], "a", r"\q"), ValueError, "bad escape"),
    (
        lambda: strings.regex_replace(["a"], "a{99999999999}", ""),
        ValueError,
        "regex_replace: .* cannot be read: the repetition number is too large",
    ),
    (
        lambda: strings.regex_replace(["a"], "a", "\ud800"),
        ValueError,
        "regex_replace: .* cannot be read: .*surrogates not allowed",
    ),
    (lambda: strings.regex_replace([1.0], "a", "b"), TypeError, "x must be strings"),
    (lambda: strings.split("a b", " "), ValueError, "split: x must have rank 1"),
    (lambda: strings.split(["a b"], [" "]), ValueError, "delimiter must have rank 0"),
    (
        lambda: strings.split(["a b"], 1),
        TypeError,
        "delimiter must be strings, got int",
    ),
    (lambda: ngrams([["a"]], [0, 1]), ValueError, "ngrams: data must have rank 1"),
    (lambda: ngrams([1], [0, 1]), TypeError, "data must be strings, got int32"),
    (lambda: ngrams(["a"], 1), ValueError, "data_splits must have rank 1"),
    (lambda: ngrams(["a"], [0.0, 1.0]), TypeError, "data_splits must be integers"),
    (lambda: ngrams(["a"], [0, 1], ngram_widths=0), ValueError, r"ngram_widths \(0,\)"),
    (lambda: ngrams(["a"], [0, 1], ngram_widths=()), ValueError, r"widths \(\) must"),
    (
        lambda: ngrams(["a"], [0, 1], pad_width=-2),
        ValueError,
        "pad_width -2 at least -1",
    ),
    (lambda: ngrams(["a"], [0, 1], pad_width=2**31), ValueError, r"below 2\*\*31"),
    (lambda: ngrams(["a"], [0, 1], ngram_widths=2**40), ValueError, r"below 2\*\*31"),
    (lambda: ngrams(["a"], [0, 2]), ValueError, "end with 1"),
    (lambda: ngrams(["a"], [0, 1, 0]), ValueError, "must begin with 0, not decrease"),
    (lambda: ngrams(["a"], []), ValueError, "splits .* must begin with 0"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=range(len(ERRORS)))
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()
