"""``stop_gradient`` inside ``vmap`` also stops gradients taken outside of it."""

import plugrad as pg
import pytest

XS = [1.0, 2.0]
stop = pg.stop_gradient


def each(f):
    return pg.sum(pg.vmap(f)(pg.asarray(XS)))


ROWS = {  # a function of w, and its derivative at 3
    "of a batch": (lambda w: each(lambda x: stop(w * x) * w), 9.0),
    "of an unbatched value": (lambda w: each(lambda x: stop(w) * w * x), 9.0),
    "of a constant": (lambda w: each(lambda x: stop(x) * w), 3.0),
    "in two levels": (
        lambda w: each(lambda x: each(lambda y: stop(w * x) * w * y)),
        27.0,
    ),
    "under a gradient inside": (
        lambda w: each(pg.grad(lambda x: stop(x * w) * x * w)),
        9.0,  # the sum over x of d/dw (w · stop(x · w)) = x · w
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_derivative_with_respect_to_a_tensor_outside_of_vmap(name, backend):
    f, expected = ROWS[name]
    assert pg.grad(f)(3.0).item() == expected


def test_derivative_of_each_example(backend):
    found = pg.vmap(pg.grad(lambda x: stop(x) * x * x))(pg.asarray(XS))
    assert found.tolist() == [2.0, 8.0]
