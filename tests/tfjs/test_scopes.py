"""Scopes of layers: tables and errors name them, and overrides select by them."""

import plugrad as pg
import pytest
from plugrad_tfjs import load

from tests.tfjs.files import write
from tests.tfjs.graphs import w
from tests.tfjs.test_errors import DENSE, layer, sequential

WEIGHTS = {"dense/kernel": w(1, 3, 2), "dense/bias": w(2, 2)}
X = [[1.0, 2.0, 3.0]]


@pytest.fixture
def model(tmp_path):
    """Return a dense layer and two activations."""
    layers = [
        layer("Dense", **DENSE),
        layer("ReLU", "first"),
        layer("ReLU", "second"),
    ]
    return load(write(tmp_path, sequential(*layers), WEIGHTS))


def test_explain_and_profile_name_layers(model):
    with pg.profile() as p:
        y, pull_back = pg.vjp(lambda x: model(x), pg.asarray(X))
    scopes = {row["scope"] for row in pg.explain(y).rows}
    assert {"dense", "first", "second"} <= scopes
    assert {"dense", "first", "second"} <= {record.scope for record in p.records}
    del pull_back


@pytest.mark.parametrize(
    ("where", "factor"), [("first", 2.0), ("*", 4.0), ("third", 1.0)]
)
def test_an_override_selects_layers_by_name(model, where, factor):
    gradient = pg.grad(lambda x: pg.sum(model(x)))
    plain = gradient(pg.asarray(X)).numpy()
    assert plain.any()
    double = lambda dy, original: 2.0 * original(dy)
    with pg.override_gradient("Relu", where=where, x=double):
        changed = gradient(pg.asarray(X)).numpy()
    assert (changed == factor * plain).all()


def test_an_error_names_the_layer(model):
    def broken(dy):
        raise ArithmeticError("no gradient today")

    with (
        pytest.raises(ArithmeticError) as caught,
        pg.override_gradient("Relu", where="second", x=broken),
    ):
        pg.grad(lambda x: pg.sum(model(x)))(pg.asarray(X))
    assert "in scope 'second'" in caught.value.__notes__
