"""``jit(frozen=)``: packages whose state is not compared before a replay."""

import pickle
import sys

import plugrad as pg
import pytest

PACKAGE = """
factor = 2.0


class Layer:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, x):
        return x * factor * self.rate
"""
X = pg.asarray([1.0, 3.0])


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Import a package that has a global and a class."""
    name = "frozen_here"
    (tmp_path / f"{name}.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return __import__(name)


def replayed(f, **options):
    jitted = pg.jit(f, **options)
    for _ in range(3):
        jitted(X)
    assert jitted.explain(X).reason == ""
    return jitted


def test_the_state_of_other_packages_is_compared(package):
    layer = package.Layer(1.0)
    f = replayed(lambda x: layer(x))
    package.factor = 3.0
    assert f(X).tolist() == [3.0, 9.0]
    layer.rate = 2.0
    assert f(X).tolist() == [6.0, 18.0]


def test_the_state_of_frozen_packages_is_not_compared(package):
    layer = package.Layer(1.0)
    scale = [1.0]
    f = replayed(lambda x: layer(x) * scale[0], frozen=("frozen_here",))
    package.factor = layer.rate = 3.0
    assert f(X).tolist() == [2.0, 6.0]
    scale[0] = 10.0  # a list of the user's, so the function is recorded again
    assert f(X).tolist() == [90.0, 270.0]


def test_attributes_that_a_subclass_adds_are_compared(package):
    class Mine(package.Layer):
        offset = 1.0

        def __call__(self, x):
            return super().__call__(x) + self.offset

    layer = Mine(1.0)
    f = replayed(lambda x: layer(x), frozen="frozen_here")
    layer.offset = 5.0
    assert f(X).tolist() == [7.0, 11.0]


def test_check_finds_frozen_state_that_changes(package):
    layer = package.Layer(1.0)
    f = replayed(lambda x: layer(x), frozen=["frozen_here"], check=True)
    layer.rate = 7.0
    with pytest.raises(pg.StaleReplay):
        f(X)


def module_level(x):
    return x + 1.0


def test_frozen_is_copied():
    copied = pickle.loads(pickle.dumps(pg.jit(module_level, frozen=("numpy", "math"))))
    assert copied._frozen == {"numpy", "math"}
    decorated = pg.jit(frozen=("math",))(module_level)
    assert decorated._frozen == {"math"}


@pytest.mark.parametrize("bad", [3, ("a.b",), (1,), {"a": 1}])
def test_bad_names_are_refused(bad):
    with pytest.raises(TypeError, match="jit: frozen must"):
        pg.jit(module_level, frozen=bad)
