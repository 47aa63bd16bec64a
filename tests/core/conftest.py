"""All tests in this folder run twice: with the C accelerators and without them."""

import pytest
from plugrad._src.engine import accelerated


@pytest.fixture(autouse=True, params=["C", "Python"])
def accelerators(request):
    """Run the test with the fast paths in C, or with those in Python."""
    before = accelerated.fast_path_language()
    accelerated.enable(request.param == "C")
    if accelerated.fast_path_language() != request.param:
        pytest.skip("the core was built without its accelerators in C")
    yield request.param
    accelerated.enable(before == "C")
