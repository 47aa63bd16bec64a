"""Fit the polynomials of erfc and gelu, and print their coefficients.

    python benchmarks/fit_tails.py  # needs mpmath; takes ten seconds

The coefficients are used in ``_src/polynomials.py`` of the core,
``native/kernels/mathematics.h`` and ``plugins/llvm/src/plugrad_llvm/mathematics.py``.

Minimax polynomials are found with the Remez algorithm: solve for a polynomial whose
relative error has the same magnitude and alternating signs at n + 2 points, move the
points to the extrema of its error, and repeat. Logarithms are interpolated at Chebyshev
nodes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import mpmath as mp

Exact = Callable[[Any], Any]


def minimax(f: Exact, degree: int, low: Any, high: Any, steps: int = 8) -> list[Any]:
    """Return the polynomial of least relative error, highest power first."""
    count = degree + 2
    points = _chebyshev(count, low, high)
    grid = _chebyshev(40 * count + 1, low, high)
    values = [f(x) for x in grid]
    for _ in range(steps):
        rows = [
            [*(x**j / f(x) for j in range(degree + 1)), (-1) ** i]
            for i, x in enumerate(points)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([1] * count))
        terms = [solved[j] for j in range(degree, -1, -1)]
        errors = [
            _polynomial(terms, x) / y - 1 for x, y in zip(grid, values, strict=True)
        ]
        extrema = _alternating(errors, count)
        if len(extrema) < count:
            return terms
        points = [grid[i] for i in extrema]
        if max(map(abs, errors)) < abs(solved[degree + 1]) * 1.02:
            return terms
    return terms


def _polynomial(terms: list[Any], x: Any) -> Any:
    return functools.reduce(lambda y, c: y * x + c, terms)


def _chebyshev(count: int, low: Any, high: Any) -> list[Any]:
    """Return points from low to high that are dense at the ends."""
    middle = (low + high) / 2
    half = (high - low) / 2
    return [middle - half * mp.cos(mp.pi * i / (count - 1)) for i in range(count)]


def _alternating(errors: list[Any], count: int) -> list[int]:
    """Return the index of the largest error in each run of errors with equal sign."""
    found: list[int] = []
    for i, error in enumerate(errors):
        if found and (error > 0) == (errors[found[-1]] > 0):
            if abs(error) > abs(errors[found[-1]]):
                found[-1] = i
        else:
            found.append(i)
    while len(found) > count:
        first = abs(errors[found[0]])
        last = abs(errors[found[-1]])
        found.pop(0 if first < last else -1)
    return found


def scaled_erfc(degree: int, middle: float, offset: float, end: float) -> list[Any]:
    """Fit a polynomial in ``(a - middle) / (a + middle)`` to a scaled erfc.

    The function to fit is ``e^(a²) · erfc(a) · (a + offset)``.
    """
    k = mp.mpf(middle)
    end = mp.mpf(end)

    def function(q: Any) -> Any:
        a = k * (1 + q) / (1 - q)
        return mp.exp(a * a) * mp.erfc(a) * (a + offset)

    return minimax(function, degree, mp.mpf(-1), (end - k) / (end + k))


def normal_logarithm(degree: int, end: int) -> list[Any]:
    """Return a polynomial in ``a - end/2`` that interpolates a logarithm up to ``end``.

    The function to interpolate is ``log2(Φ(-a)) + a² · log2(e)/2``. Φ is
    the normal cumulative distribution function. The kernel subtracts ``a²`` times half
    of log2(e) rounded to float32, so the rounding error is part of the function.
    """
    rounded = mp.mpf(12102203) / 2**23  # log2(e), rounded to float32
    half = mp.mpf(end) / 2

    def function(a: Any) -> Any:
        return mp.log(mp.erfc(a / mp.sqrt(2)) / 2, 2) + a * a * rounded / 2

    nodes = [
        half * (1 + mp.cos(mp.pi * (2 * i + 1) / (2 * degree + 2)))
        for i in range(degree + 1)
    ]
    rows = [[(a - half) ** j for j in range(degree + 1)] for a in nodes]
    values = mp.matrix([function(a) for a in nodes])
    solved = mp.lu_solve(mp.matrix(rows), values)
    return [solved[j] for j in range(degree, -1, -1)]


def show(name: str, terms: list[Any], digits: int) -> None:
    """Print the coefficients."""
    print(name, *(mp.nstr(t, digits) for t in terms), sep="\n  ")


def main() -> None:
    """Fit all functions, and print their coefficients."""
    mp.mp.dps = 40
    show("erfc, float32", scaled_erfc(10, 3, 0.75, 10.6), 11)
    show("erfc, float64", scaled_erfc(22, 4, 0.75, 27.6), 17)
    # x = √2 · a, and half of erfc: the normal cumulative distribution function at -x.
    halves = [t / 2 for t in scaled_erfc(10, 1.25, 1.25, 10.65)]
    show("scaled_normal of gelu, float32", halves, 11)
    show("normal_near of gelu, float32", normal_logarithm(9, 4), 11)


if __name__ == "__main__":
    main()
