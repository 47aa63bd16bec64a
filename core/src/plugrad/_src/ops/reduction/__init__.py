"""Reductions that ``basis.reduce`` does not have.

- ``cumulative``: sums, products and extremes up to each element; counts; differences.
- ``extremes``: the index of the largest or smallest element.
- ``nans``: ops that leave NaN out, or replace it.
"""
