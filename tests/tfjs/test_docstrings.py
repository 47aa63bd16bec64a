"""The examples in the docstrings of plugrad-tfjs."""

import doctest

import plugrad as pg
import pytest
from plugrad_tfjs import cells, model


@pytest.mark.parametrize("module", [cells, model])
def test_examples(module):
    with pg.use_backend("cpu"):
        failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
