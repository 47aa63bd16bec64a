"""ONNX's own op tests, on every backend; without ``--all``, a sample of them."""

import re
from importlib.util import find_spec

import plugrad as pg
import pytest
from plugrad.plugin import runtime
from plugrad_onnx.backend import prepare

from tests.onnx.suite import cases, check, exclusions, reason_to_fail


@pytest.mark.parametrize("name", cases())
def test_node(name, backend):
    reason = reason_to_fail(name, backend)
    pg.random.seed(5)
    try:
        check(name, lambda model: prepare(model, backend))
    except Exception as error:
        lacks = re.search(r"backend '\w+' has no (\w+)", str(error))
        if lacks and lacks[1] not in runtime(backend).dtypes:
            pytest.skip(f"{backend} has no {lacks[1]}")
        if find_spec("re2") is None and "pip install 'plugrad-onnx[re2]'" in str(error):
            pytest.skip("google-re2 is not installed: see pyproject.toml")
        if reason is None:
            raise
    else:
        assert reason is None, f"it passes: remove it from the exclusions ({reason})"


def test_exclusions_match_tests():
    for _, row in exclusions():
        assert row["reason"]
        for pattern in row["tests"]:
            assert any(re.fullmatch(pattern, name) for name in cases()), pattern
    assert sum(reason_to_fail(name, "cpu") is None for name in cases()) > 1800
