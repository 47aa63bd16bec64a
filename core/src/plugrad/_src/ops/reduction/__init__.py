"""Reductions and scans; sums, means and maxima are in ``basis.reduce``.

- ``cumulative``: cumulative sums, products and extremes; differences; counting.
- ``extremes``: the index of the largest or smallest element.
- ``nans``: reductions that ignore NaN, and ``nan_to_num``.
"""
