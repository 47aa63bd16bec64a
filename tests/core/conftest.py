"""Everything in this folder runs twice: with the twins in C, and without them."""

import pytest
from plugrad.engine import accelerated


@pytest.fixture(autouse=True, params=["C", "Python"])
def way(request):
    """Who does the usual case."""
    before = accelerated.how()
    accelerated.enable(request.param == "C")
    if accelerated.how() != request.param:
        pytest.skip("plugrad was installed where nothing compiles its twins in C")
    yield request.param
    accelerated.enable(before == "C")
