"""Functions of complex zeros, infinities and NaN.

The tables are the "Special cases" of each function in the array API standard, 2025.12.
"""

import numpy as np
import plugrad as pg
import pytest

from ..check import require_dtypes

# ``re im -> re im``: the parts of the argument and of the result; ~ allows either sign.
# The function commutes with ``conj``, so each line also holds for -im.
EXP = """
    0 0 -> 1 0 | -0 0 -> 1 0 | 2 inf -> nan nan | -200 nan -> nan nan
    2 nan -> nan nan | inf 0 -> inf 0 | -inf 2 -> -0 0 | -inf 0 -> 0 0
    inf 2 -> -inf inf | inf 1 -> inf inf | -inf inf -> ~0 ~0 | -inf nan -> ~0 ~0
    inf inf -> ~inf nan | inf nan -> ~inf nan
    nan 0 -> nan 0 | nan 1 -> nan nan | nan inf -> nan nan | nan nan -> nan nan"""
EXPM1 = """
    0 0 -> 0 0 | -0 0 -> 0 0 | 2 inf -> nan nan | 2 nan -> nan nan | -200 nan -> nan nan
    inf 0 -> inf 0 | -inf 2 -> -1 0 | -inf 0 -> -1 0 | inf 2 -> -inf inf
    inf 1 -> inf inf | -inf inf -> -1 ~0 | -inf nan -> -1 ~0
    inf inf -> ~inf nan | inf nan -> ~inf nan
    nan 0 -> nan 0 | nan 1 -> nan nan | nan inf -> nan nan | nan nan -> nan nan"""
LOG = """
    -0 0 -> -inf pi | 0 0 -> -inf 0 | 2 inf -> inf pi/2 | 2 nan -> nan nan
    0 nan -> nan nan | -inf 2 -> inf pi | inf 2 -> inf 0 | -inf inf -> inf 3pi/4
    inf inf -> inf pi/4 | inf nan -> inf nan | -inf nan -> inf nan
    nan 2 -> nan nan | nan 0 -> nan nan | nan inf -> inf nan | nan nan -> nan nan"""
LOG1P = """
    -1 0 -> -inf 0 | 2 inf -> inf pi/2 | 2 nan -> nan nan | -inf 2 -> inf pi
    inf 2 -> inf 0 | -inf inf -> inf 3pi/4 | inf inf -> inf pi/4 | inf nan -> inf nan
    -inf nan -> inf nan | nan 2 -> nan nan | nan inf -> inf nan | nan nan -> nan nan"""
SQRT = """
    0 0 -> 0 0 | -0 0 -> 0 0 | 2 inf -> inf inf | nan inf -> inf inf
    -inf inf -> inf inf | inf inf -> inf inf | 2 nan -> nan nan | -inf 2 -> 0 inf
    inf 2 -> inf 0 | -inf nan -> nan ~inf | inf nan -> inf nan
    nan 0 -> nan nan | nan 2 -> nan nan | nan nan -> nan nan"""
SIGN = """
    0 0 -> 0 0 | -0 0 -> 0 0 | nan 1 -> nan nan | 0 nan -> nan nan
    nan nan -> nan nan"""
SINH = """
    0 0 -> 0 0 | 0 inf -> ~0 nan | 0 nan -> ~0 nan | 2 inf -> nan nan | 2 nan -> nan nan
    inf 0 -> inf 0 | inf 1 -> inf inf | inf 2 -> -inf inf
    inf inf -> ~inf nan | inf nan -> ~inf nan
    nan 0 -> nan 0 | nan 2 -> nan nan | nan inf -> nan nan | nan nan -> nan nan"""
COSH = """
    0 0 -> 1 0 | 0 inf -> nan ~0 | 0 nan -> nan ~0 | 2 inf -> nan nan | 2 nan -> nan nan
    inf 0 -> inf 0 | inf 1 -> inf inf | inf 2 -> -inf inf
    inf inf -> ~inf nan | inf nan -> inf nan
    nan 0 -> nan ~0 | nan 2 -> nan nan | nan inf -> nan nan | nan nan -> nan nan"""
TANH = """
    0 0 -> 0 0 | 2 inf -> nan nan | 20 inf -> nan nan | 0 inf -> 0 nan
    2 nan -> nan nan | 20 nan -> nan nan | 0 nan -> 0 nan | inf 1 -> 1 0 | inf 2 -> 1 0
    inf inf -> 1 ~0 | inf nan -> 1 ~0 | nan 0 -> nan 0 | nan 2 -> nan nan
    nan inf -> nan nan | nan nan -> nan nan"""
ACOS = """
    0 0 -> pi/2 -0 | -0 0 -> pi/2 -0 | 0 nan -> pi/2 nan | -0 nan -> pi/2 nan
    2 inf -> pi/2 -inf | 2 nan -> nan nan | -inf 2 -> pi -inf | inf 2 -> 0 -inf
    -inf inf -> 3pi/4 -inf | inf inf -> pi/4 -inf | inf nan -> nan ~inf
    -inf nan -> nan ~inf | nan 0 -> nan nan | nan 2 -> nan nan | nan inf -> nan -inf
    nan nan -> nan nan"""
ACOSH = """
    0 0 -> 0 pi/2 | -0 0 -> 0 pi/2 | 2 inf -> inf pi/2 | 2 nan -> nan nan
    0 nan -> nan ~pi/2 | -inf 2 -> inf pi | inf 2 -> inf 0 | -inf inf -> inf 3pi/4
    inf inf -> inf pi/4 | inf nan -> inf nan | -inf nan -> inf nan
    nan 0 -> nan nan | nan 2 -> nan nan | nan inf -> inf nan | nan nan -> nan nan"""
ASINH = """
    0 0 -> 0 0 | 2 inf -> inf pi/2 | 2 nan -> nan nan | 0 nan -> nan nan
    inf 2 -> inf 0 | inf inf -> inf pi/4 | inf nan -> inf nan
    nan 0 -> nan 0 | nan 2 -> nan nan | nan inf -> ~inf nan | nan nan -> nan nan"""
ATANH = """
    0 0 -> 0 0 | 0 nan -> 0 nan | 1 0 -> inf 0 | 2 inf -> 0 pi/2 | 2 nan -> nan nan
    inf 2 -> 0 pi/2 | inf inf -> 0 pi/2 | inf nan -> 0 nan
    nan 0 -> nan nan | nan 2 -> nan nan | nan inf -> ~0 pi/2 | nan nan -> nan nan"""

NUMBERS = {"pi": np.pi, "pi/2": np.pi / 2, "pi/4": np.pi / 4, "3pi/4": 3 * np.pi / 4}

# Symmetries: four factors that turn a row of the table into another valid row.
CONJ = (1, -1, 1, -1)
ODD = (-1, -1, -1, -1)
EVEN = (-1, -1, 1, 1)


def table_rows(text, *symmetries):
    """Return rows of four numbers, and whether each sign of the result is free."""
    rows = [row.replace("->", "").split() for row in text.replace("\n", "|").split("|")]
    table = [
        [*map(number, row), [word[0] == "~" for word in row[2:]]] for row in rows if row
    ]
    for signs in symmetries:
        mirrored = [[s * x for s, x in zip(signs, row, strict=False)] for row in table]
        table += [[*new, old[4]] for new, old in zip(mirrored, table, strict=True)]
    return table


def number(word):
    word, sign = word.lstrip("~"), -1 if word.startswith("-") else 1
    magnitude = word.lstrip("-")
    return sign * (NUMBERS[magnitude] if magnitude in NUMBERS else float(magnitude))


def rows_of_f_iz(table):
    """Return the rows of ``f(iz)`` from those of ``f``."""
    return [[b, -a, c, d, free_signs] for a, b, c, d, free_signs in table]


def rows_of_minus_i_f_iz(table):
    """Return the rows of ``-i f(iz)`` from those of ``f``."""
    return [[b, -a, d, -c, free_signs[::-1]] for a, b, c, d, free_signs in table]


TABLE = {
    pg.exp: table_rows(EXP, CONJ),
    pg.expm1: table_rows(EXPM1, CONJ),
    pg.log: table_rows(LOG, CONJ),
    pg.log1p: table_rows(LOG1P, CONJ),
    pg.sqrt: table_rows(SQRT, CONJ),
    pg.sign: table_rows(SIGN),
    pg.sinh: table_rows(SINH, CONJ, ODD),
    pg.cosh: table_rows(COSH, CONJ, EVEN),
    pg.tanh: table_rows(TANH, CONJ, ODD),
    pg.sin: rows_of_minus_i_f_iz(table_rows(SINH, CONJ, ODD)),
    pg.cos: rows_of_f_iz(table_rows(COSH, CONJ, EVEN)),
    pg.tan: rows_of_minus_i_f_iz(table_rows(TANH, CONJ, ODD)),
    pg.acos: table_rows(ACOS, CONJ),
    pg.acosh: table_rows(ACOSH, CONJ),
    pg.asinh: table_rows(ASINH, CONJ, ODD),
    pg.atanh: table_rows(ATANH, CONJ, ODD),
    pg.asin: rows_of_minus_i_f_iz(table_rows(ASINH, CONJ, ODD)),
    pg.atan: rows_of_minus_i_f_iz(table_rows(ATANH, CONJ, ODD)),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("op", TABLE, ids=lambda op: op.__name__)
def test_complex_special_values(op, dtype, backend):
    require_dtypes(backend, dtype)
    a, b, *expected, free_signs = (
        np.asarray(column) for column in zip(*TABLE[op], strict=True)
    )
    z = np.empty(len(a), dtype)
    z.real, z.imag = a, b
    y = op(pg.asarray(z)).numpy()
    assert y.dtype == dtype
    wrong = np.zeros(len(a), bool)
    for part, wanted, free in zip(
        (y.real, y.imag), expected, free_signs.T, strict=True
    ):
        pair = (
            np.where(free, np.abs(part), part),
            np.where(free, np.abs(wanted), wanted),
        )
        wrong |= ~np.isclose(*pair, rtol=1e-6, atol=0, equal_nan=True)
        wrong |= ~free & ~np.isnan(wanted) & (np.signbit(part) != np.signbit(wanted))
    found = [
        f"{x} -> {v}, not {c} {d}" for x, v, c, d in zip(z, y, *expected, strict=True)
    ]
    assert not wrong.any(), "; ".join(np.asarray(found)[wrong])
