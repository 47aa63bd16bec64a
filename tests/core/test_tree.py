"""``pg.tree`` flattens and rebuilds containers, and gradients accept them."""

import pickle
from collections import Counter, OrderedDict, UserList, defaultdict, namedtuple
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import plugrad as pg
import pytest


class Point(namedtuple("Point", "x y")):
    __slots__ = ()


@dataclass
class Layer:
    weight: Any
    bias: Any = None
    name: str = field(default="dense", metadata={"static": True})


@dataclass(frozen=True, slots=True)
class Frozen:
    weight: Any
    twice: Any = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "twice", self.weight * 2)


@dataclass(kw_only=True)
class Checked:
    rate: float
    scale: InitVar[float] = 2.0

    def __post_init__(self, scale):
        if self.rate < 0:
            raise ValueError("rate must not be negative")
        self.rate *= scale


class Box:
    def __init__(self, *inside, label=""):
        self.inside, self.label = inside, label

    def __eq__(self, other):
        return (self.inside, self.label) == (other.inside, other.label)


pg.tree.register(
    Box, lambda box: (box.inside, box.label), lambda label, xs: Box(*xs, label=label)
)


class Names(dict):
    def __init__(self, **names):
        super().__init__(names)


class Leaves(list):
    pass


DEFAULT_DICT = defaultdict(int, b=1, a=2)
MIXED = {"a": 1, 2: 3}  # keys without an order
ROUND_TRIPS = {  # name: (tree, leaves, structure)
    "leaf": (5, [5], "*"),
    "None": (None, [], "None"),
    "dict": ({"b": 1, "a": 2}, [2, 1], "{'a': *, 'b': *}"),
    "numbered": ({10: 1, 9: 2}, [2, 1], "{9: *, 10: *}"),
    "mixed": (MIXED, [1, 3], "{'a': *, 2: *}"),
    "list": ([1, [2, None], ()], [1, 2], "[*, [*, None], ()]"),
    "tuple": ((1, (2,)), [1, 2], "(*, (*,))"),
    "namedtuple": (Point(1, [2]), [1, 2], "Point(x=*, y=[*])"),
    "OrderedDict": (OrderedDict(b=1, a=2), [2, 1], "OrderedDict({'a': *, 'b': *})"),
    "defaultdict": (DEFAULT_DICT, [2, 1], "defaultdict({'a': *, 'b': *})"),
    "Counter": (Counter(a=5), [5], "Counter({'a': *})"),
    "subclass of dict": (Names(b=1), [1], "Names({'b': *})"),
    "subclass of list": (Leaves([1, 2]), [1, 2], "Leaves([*, *])"),
    "dataclass": (Layer(1, [2], "a"), [1, 2], "Layer(weight=*, bias=[*])"),
    "frozen": (Frozen(1), [1, 2], "Frozen(weight=*, twice=*)"),
    "checked": (Checked(rate=1.0), [2.0], "Checked(rate=*)"),
    "registered": (Box(1, [2], label="b"), [1, 2], "Box(*, [*])"),
    "no container": (UserList([1]), [UserList([1])], "*"),
    "text": (["ab", b"c"], ["ab", b"c"], "[*, *]"),
    "class": (Layer, [Layer], "*"),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_round_trip(name):
    tree, expected, text = ROUND_TRIPS[name]
    leaves, structure = pg.tree.flatten(tree)
    assert isinstance(structure, pg.tree.Structure)
    assert leaves == expected == pg.tree.leaves(tree)
    assert structure.num_leaves == len(leaves)
    assert repr(structure) == f"Structure({text})"
    rebuilt = pg.tree.unflatten(structure, iter(leaves))
    assert rebuilt == tree
    assert type(rebuilt) is type(tree)
    if isinstance(tree, dict):
        assert list(rebuilt) == list(tree)
    assert (
        structure == pg.tree.structure(rebuilt) == pickle.loads(pickle.dumps(structure))
    )
    assert hash(structure) == hash(pg.tree.structure(rebuilt))


def test_factories_static_fields_and_invalid_values_are_kept():
    rebuilt = pg.tree.map(lambda x: -x, DEFAULT_DICT)
    assert rebuilt.default_factory is int
    assert pg.tree.map(lambda x: -x, Layer(1, 2, "a")).name == "a"
    negative = pg.tree.map(lambda x: -x, Checked(rate=1.0))  # __init__ refuses it
    assert negative.rate == -2.0
    assert pg.tree.map(str, Frozen(1)).twice == "2"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1], (1,)),
        ([1], [1, 2]),
        ([1], [[1]]),
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, OrderedDict(a=1)),
        (Point(1, 2), (1, 2)),
        (Layer(1, name="a"), Layer(1, name="b")),
        (Layer(1), Layer(1, 2)),
        (Box(1, label="a"), Box(1, label="b")),
        (defaultdict(int, a=1), defaultdict(list, a=1)),
    ],
)
def test_structures_that_differ(one, other):
    assert pg.tree.structure(one) != pg.tree.structure(other)


def test_the_order_of_keys_is_ignored():
    one = {"b": 1, "a": [2, 3]}
    other = {"a": [20, 30], "b": 10}
    assert pg.tree.structure(one) == pg.tree.structure(other)
    assert pg.tree.map(lambda x, y: (x, y), one, other) == {
        "b": (1, 10),
        "a": [(2, 20), (3, 30)],
    }
    assert pg.tree.map(max, MIXED, {2: 30, "a": 10}) == {"a": 10, 2: 30}


def test_other_trees_may_go_deeper_than_the_first():
    params = {"w": 1.0, "n": 3, "at": Point(1, 2)}
    deeper = OrderedDict(n=None, w=[5, 6], at=[7, {}])
    found = pg.tree.map(lambda x, y: y, params, deeper)
    assert found == {"w": [5, 6], "n": None, "at": Point(7, {})}
    assert pg.tree.map(lambda x, y, z: x + y + z, (1, 2), [3, 4], (5, 6)) == (9, 12)


def test_leaves_that_are_containers():
    none = lambda x: x is None
    assert pg.tree.leaves([1, None], is_leaf=none) == [1, None]
    assert pg.tree.map(lambda x: x or 0, [1, None], is_leaf=none) == [1, 0]
    pair = lambda x: isinstance(x, tuple)
    leaves, structure = pg.tree.flatten({"a": (1, 2)}, is_leaf=pair)
    assert (leaves, structure) == ([(1, 2)], pg.tree.structure({"a": 0}, is_leaf=pair))


MODEL = {"layers": [Layer(1), Layer(2, Point(3, 4))], "scale": Box(1, {}, label="s")}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([], "expected dict with keys 'layers', 'scale', got list of 0"),
        ({"layers": 1}, "expected dict with keys 'layers', 'scale', got dict with "),
        ({**MODEL, "layers": 1}, r"at \['layers'\]: expected list of 2, got int"),
        (
            {**MODEL, "layers": [Layer(1), Layer(2, 5)]},
            r"at \['layers'\]\[1\].bias: expected Point, got int",
        ),
        (
            {**MODEL, "layers": [Layer(1, 2), Layer(2, Point(3, 4))]},
            r"at \['layers'\]\[0\].bias: expected None, got int",
        ),
        (
            {**MODEL, "layers": [Layer(1, name="x"), Layer(2, Point(3, 4))]},
            r"\[0\]: expected Layer\(name='dense'\), got Layer\(name='x'\)",
        ),
        (
            {**MODEL, "scale": Box(1, [], label="s")},
            r"at \['scale'\]\[1\]: expected empty dict, got list of 0",
        ),
        (
            {**MODEL, "scale": Box(1, {}, label="t")},
            r"at \['scale'\]: expected Box\('s'\) of 2, got Box\('t'\) of 2",
        ),
    ],
)
def test_trees_that_differ(other, message):
    with pytest.raises(ValueError, match=f"^tree.map: the trees differ.*{message}"):
        pg.tree.map(lambda x, y: x, MODEL, other)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match=r"\(\[\*, \*\]\) has 2 leaves, got 1"):
        pg.tree.unflatten(pg.tree.structure([1, 2]), [1])
    with pytest.raises(TypeError, match=r"expected a structure .* got list; pass the"):
        pg.tree.unflatten([1], pg.tree.structure([1]))
    with pytest.raises(TypeError, match=r"tree.map: expected a function, got \[1\]"):
        pg.tree.map([1], [1])
    pair = lambda: (lambda x: ((), None), lambda static, xs: None)
    with pytest.raises(TypeError, match="expected a class, got 3"):
        pg.tree.register(3, *pair())
    for cls in (Box, dict, pg.Tensor, type(None)):
        with pytest.raises(
            ValueError, match=f"{cls.__name__} is already a container or a "
        ):
            pg.tree.register(cls, *pair())
    with pytest.raises(TypeError, match=r"register: expected a function, got None"):
        pg.tree.register(UserList, None, None)

    class Wrong:
        pass

    pg.tree.register(Wrong, lambda x: [1], lambda static, xs: None)
    with pytest.raises(TypeError, match=r"Wrong must return \(children, static\), got"):
        pg.tree.leaves(Wrong())


def test_a_class_is_flattened_by_the_registered_function():
    @dataclass
    class Half:
        kept: Any
        rest: Any

    assert pg.tree.leaves([Half(1, 2)]) == [1, 2]
    pg.tree.register(Half, lambda x: ((x.kept,), x.rest), lambda r, xs: Half(*xs, r))
    assert pg.tree.leaves([Half(1, 2)]) == [1]
    assert pg.tree.map(str, Half(1, 2)) == Half("1", 2)


# --- gradients -------------------------------------------------------------------

W = np.array([1.0, 2.0], np.float32)
PARAMS = {  # name: a function that makes a tree of two values
    "dict": lambda w, b: {"w": w, "b": b},
    "dataclass": lambda w, b: Layer(w, b, "relu"),
    "namedtuple": Point,
    "registered": lambda w, b: Box(w, b, label="x"),
    "nested": lambda w, b: [Layer({"w": w}), None, Point(Box(b), ())],
    "OrderedDict": lambda w, b: OrderedDict(w=w, b=b),
}


def loss(tree):
    first, second = sorted(pg.tree.leaves(tree), key=lambda x: x.ndim)
    return pg.sum(second * second) * first


@pytest.mark.parametrize("name", PARAMS)
def test_gradients_have_the_structure_of_the_argument(name, backend):
    make = PARAMS[name]
    params = make(pg.asarray(W), pg.asarray(3.0))
    expected = make([6.0, 12.0], 5.0)
    numbers = lambda tree: pg.tree.map(lambda x: x.tolist(), tree)
    assert numbers(pg.grad(loss)(params)) == expected
    value, (found,) = pg.value_and_grads(loss)(params)
    assert (value.item(), numbers(found)) == (15.0, expected)
    value, pullback = pg.vjp(lambda p: pg.tree.map(lambda x: x * 2, p), params)
    assert pg.tree.structure(value) == pg.tree.structure(params)
    ones = pg.tree.map(pg.ones_like, value)
    assert numbers(pullback(ones)[0]) == make([2.0, 2.0], 2.0)
    _, tangent = pg.jvp(loss, [params], [ones])
    assert tangent.item() == 23.0

    @pg.custom_grad
    def custom(p):
        return loss(p), lambda dy: pg.tree.map(lambda x: x * dy, p)

    assert numbers(pg.grad(custom)(params)) == make([1.0, 2.0], 3.0)


def test_integers_and_variables_in_a_dataclass(backend):
    v = pg.Variable([1.0, 2.0])
    found = pg.grad(lambda p: pg.sum(p.weight * p.bias))(Layer(v, 3))
    assert found.weight.tolist() == [3.0, 3.0]
    assert found.bias is None
    assert pg.tree.leaves([v]) == [v]
    by_variable = pg.variable_grads(lambda: pg.sum(v))[1]
    assert pg.tree.map(lambda x: x.tolist(), by_variable) == {v: [1.0, 1.0]}


def test_cotangents_are_matched_by_key(backend):
    x = pg.asarray(2.0)
    _, pullback = pg.vjp(lambda x: {"b": x * 10, "a": x}, x)
    assert pullback({"a": 1.0, "b": 0.0})[0].item() == 1.0

    @pg.custom_grad
    def custom(p):
        return p["b"] * p["a"], lambda dy: {"a": dy * 1, "b": dy * 2}

    found = pg.grad(custom)({"b": x, "a": x})
    assert {k: g.item() for k, g in found.items()} == {"b": 2.0, "a": 1.0}


@pytest.mark.parametrize(
    ("dy", "message"),
    [
        (
            {"b": 1.0},
            r"f\(x\): expected dict with keys 'a', 'b', got dict with keys 'b'",
        ),
        ({"a": [1.0], "b": 1.0}, r"f\(x\) at \['a'\]: expected Point, got list of 1"),
        (
            {"a": Point(1.0, W), "b": 1.0},
            r".*at \['a'\].y: expected shape \(\) float32, ",
        ),
        ({"a": Point(1.0, [1.0]), "b": 1.0}, r".*at \['a'\].y: .*, got list of 1"),
    ],
)
def test_cotangents_that_do_not_fit(dy, message, backend):
    _, pullback = pg.vjp(lambda x: {"a": Point(x, x), "b": x}, pg.asarray(1.0))
    with pytest.raises(ValueError, match=f"^dy must match {message}"):
        pullback(dy)


def test_leaves_that_are_no_tensors_need_static_fields(backend):
    model = {"layers": [Layer(pg.asarray(W), activate)]}
    message = r"^grad: argument \[0\]\['layers'\]\[0\].bias: asarray: cannot .* static"
    with pytest.raises(TypeError, match=message):
        pg.grad(loss)(model)
    with pytest.raises(TypeError, match=r"grad: argument \[1\]: asarray: .* of object"):
        pg.grads(lambda x, y: x)(1.0, object())
    named = pg.grad(lambda layer: pg.sum(layer.weight))(
        Layer(pg.asarray(W), None, activate)
    )
    assert named.name is activate


def activate(x):
    return x


def test_tidy_keeps_the_tensors_of_a_dataclass(backend):
    layer = pg.tidy(lambda: Layer(pg.asarray(W) * 2, Box(pg.asarray(3.0) * 1)))
    assert layer.weight.tolist() == [2.0, 4.0]
    assert layer.bias.inside[0].item() == 3.0
    pg.dispose(layer)
    with pytest.raises(ValueError, match="disposed"):
        layer.bias.inside[0].item()
