"""Everything in this folder runs twice: with the twins in C, and without them."""

import pytest
from plugrad import _compiled


@pytest.fixture(autouse=True, params=["C", "Python"])
def way(request):
    """Who does the usual case."""
    before = _compiled.how()
    _compiled.enable(request.param == "C")
    if _compiled.how() != request.param:
        pytest.skip("plugrad was installed where nothing compiles its twins in C")
    yield request.param
    _compiled.enable(before == "C")
