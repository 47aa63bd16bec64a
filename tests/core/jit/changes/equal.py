"""Values that compare equal but mean different things."""

import collections
import decimal
import enum
import fractions
import math
import types

import numpy as np
import plugrad as pg

from ..helpers import floats
from .harness import pattern, sets_item

KIND = "values that compare equal"


def fingerprint(value):
    """Return a number that differs between values that compare equal."""
    text = f"{type(value).__name__} {value!r}"
    return float(sum(ord(c) * (i + 1) for i, c in enumerate(text)) % 997)


class One(enum.IntEnum):
    ONE = 1


Pair = collections.namedtuple("Pair", "a b")

# name: (a value, another one that compares equal)
EQUAL = {
    "zeros of either sign": (0.0, -0.0),
    "an int and a bool": (1, True),
    "an int and a float": (1, 1.0),
    "a float and a complex": (1.0, 1 + 0j),
    "signs of a complex zero": (complex(1, 0.0), complex(1, -0.0)),
    "an int and a member of an enum": (1, One.ONE),
    "a NumPy number and a float": (np.float64(1.0), 1.0),
    "NumPy numbers of two dtypes": (np.float32(1.0), np.float64(1.0)),
    "a fraction and an int": (fractions.Fraction(2), 2),
    "decimals of two lengths": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "a tuple and a named tuple": ((1, 2), Pair(1, 2)),
    "tuples of equal numbers": ((1, 2), (True, 2.0)),
    "nested tuples of zeros": (((0.0,),), ((-0.0,),)),
    "lists of equal numbers": ([1, 0.0], [True, -0.0]),
    "dicts with equal keys": ({1: 2}, {True: 2}),
    "dicts with keys of zero": ({0.0: 2}, {-0.0: 2}),
    "dicts in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "a dict and an ordered dict": ({"a": 1}, collections.OrderedDict(a=1)),
    "a dict and a defaultdict": ({"a": 1}, collections.defaultdict(int, a=1)),
    "a dict and a counter": ({"a": 1}, collections.Counter(a=1)),
    "sets of equal numbers": ({1}, {True}),
    "frozen sets of equal numbers": (frozenset([1]), frozenset([1.0])),
    "a set and a frozen set": ({1}, frozenset([1])),
    "bytes and a bytearray": (b"ab", bytearray(b"ab")),
    "ranges of two ends": (range(0, 3, 2), range(0, 4, 2)),
    "slices of equal numbers": (slice(0, 1), slice(False, True)),
    "namespaces of equal numbers": (
        types.SimpleNamespace(a=1),
        types.SimpleNamespace(a=True),
    ),
    "deques of equal numbers": (collections.deque([1]), collections.deque([1.0])),
    "deques of two lengths": (
        collections.deque([1], maxlen=2),
        collections.deque([1], maxlen=3),
    ),
    "partly equal keys": ({(1, 2): 1}, {(1.0, 2): 1}),
}


def equal_values(name, value, other):
    def make():
        cfg = {"value": value}
        change = sets_item(cfg, "value", other)
        restore = sets_item(cfg, "value", value)
        return lambda x: x * fingerprint(cfg["value"]), change, restore

    make.__name__ = f"equal values {name}"
    return pattern(KIND)(make)


for _name, (_value, _other) in EQUAL.items():
    equal_values(_name, _value, _other)


# Classes that jit accepts only as static arguments.
ONLY_STATIC = {"bytes and a bytearray", "namespaces of equal numbers"}
ONLY_STATIC |= {"slices of equal numbers"}
ONLY_STATIC |= {"deques of equal numbers", "deques of two lengths"}


def equal_arguments(name, values):
    def arguments(phase, call):
        return {"x": floats(3, scale=1.0 + call), "value": values[phase % 2]}

    def make():
        f = lambda given: given["x"] * fingerprint(given["value"])
        return f, *[lambda: None] * 2

    make.__name__ = f"equal arguments {name}"
    return pattern(KIND, arguments)(make)


for _name, _values in EQUAL.items():
    if _name not in ONLY_STATIC:
        equal_arguments(_name, _values)


def dicts_with_keys(*keys):
    """Return a function that makes arguments whose key alternates between phases."""
    return lambda phase, call: {keys[phase % 2]: floats(3, scale=1.0 + call)}


def equal_keys(name, *keys):
    def make():
        f = lambda tree: {"y": [x * fingerprint(key) for key, x in tree.items()]}
        return f, *[lambda: None] * 2

    make.__name__ = f"keys of an argument {name}"
    return pattern(KIND, dicts_with_keys(*keys))(make)


equal_keys("an int and a bool", 1, True)
equal_keys("an int and a float", 1, 1.0)
equal_keys("zeros of either sign", 0.0, -0.0)
equal_keys("tuples", (1, 2), (True, 2))
equal_keys("a str and one of a subclass", "a", type("Name", (str,), {})("a"))


@pattern(KIND)
def a_number_that_is_not_a_number():
    cfg = {"rate": math.nan}
    return (
        lambda x: x * 2.0 if math.isnan(cfg["rate"]) else x * cfg["rate"],
        sets_item(cfg, "rate", 3.0),
        sets_item(cfg, "rate", -math.nan),
    )


@pattern(KIND)
def a_sign_of_zero_in_an_array():
    table = np.zeros(3, dtype="f4")
    return lambda x: pg.atan2(x * 0.0, pg.asarray(table)), sets_item(table, ..., -0.0)


@pattern(KIND)
def a_dtype_that_is_captured():
    box = {"dtype": "float32"}
    return (
        lambda x: pg.astype(x, box["dtype"]),
        sets_item(box, "dtype", "int32"),
        sets_item(box, "dtype", np.dtype("float32")),
    )


@pattern(KIND)
def a_class_that_equals_every_value():
    class Any:
        def __init__(self, rate):
            self.rate = rate

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    box = [Any(2.0)]
    return lambda x: x * box[0].rate, sets_item(box, 0, Any(3.0))


@pattern(KIND)
def a_class_that_equals_no_value():
    class Never:
        rate = 2.0

        def __eq__(self, other):
            return False

        __hash__ = None

    box = [Never()]
    return lambda x: x * box[0].rate, lambda: setattr(box[0], "rate", 3.0)


@pattern(KIND)
def a_class_whose_comparison_raises():
    class Strict:
        rate = 2.0

        def __eq__(self, other):
            raise RuntimeError("not to be compared")

        __hash__ = object.__hash__

    box = {"m": Strict()}
    return lambda x: x * box["m"].rate, lambda: setattr(box["m"], "rate", 3.0)
