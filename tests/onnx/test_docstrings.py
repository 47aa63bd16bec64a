"""The examples in the docstrings of plugrad-onnx."""

import doctest
import importlib

import plugrad as pg
import pytest

MODULES = ("export.saving", "model", "registry")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(f"plugrad_onnx.{name}")
    with pg.use_backend("cpu"):
        failed, tried = doctest.testmod(module)
    assert tried
    assert not failed
