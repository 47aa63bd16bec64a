"""All tests in this folder run twice: with the C accelerators and without them."""

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
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


@pytest.fixture
def in_place():
    """Yield a list that gets the id of each array that the test's kernel writes to."""
    kernel = pg.get_kernel("TensorScatterUpdate", "cpu")
    noted = []

    def update(tensor, indices, updates):
        return kernel(tensor, indices, updates)

    @plugin.in_place(update)
    def write(tensor, indices, updates):
        noted.append(id(tensor))
        tensor[tuple(np.moveaxis(indices, -1, 0))] = updates
        return tensor

    pg.register_kernel("TensorScatterUpdate", "cpu", update)
    with pg.use_backend("cpu"):
        yield noted
    pg.unregister_kernel("TensorScatterUpdate", "cpu")
