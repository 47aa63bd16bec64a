"""The examples in the docstrings of plugrad-tfjs."""

import doctest

import plugrad as pg
from plugrad_tfjs import model


def test_examples():
    with pg.use_backend("cpu"):
        failed, tried = doctest.testmod(model)
    assert tried
    assert not failed
