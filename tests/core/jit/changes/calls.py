"""Implicit calls in the code: special methods, descriptors, constructors."""

import copy

import numpy as np
import plugrad as pg

from .harness import pattern, sets_attr, sets_item

KIND = "implicit calls"


class Rate:
    """An object whose special methods read an attribute."""

    def __init__(self):
        self.hidden = 2.0

    def __getitem__(self, key):
        return self.hidden

    def __iter__(self):
        yield self.hidden

    def __reversed__(self):
        yield self.hidden + 1.0

    def __len__(self):
        return int(self.hidden)

    def __bool__(self):
        return self.hidden > 2.0

    def __contains__(self, key):
        return key < self.hidden

    def __float__(self):
        return self.hidden

    def __index__(self):
        return int(self.hidden)

    def __mul__(self, other):
        return other * self.hidden

    def __matmul__(self, other):
        return other + self.hidden

    def __neg__(self):
        return -self.hidden

    def __round__(self):
        return int(self.hidden)

    def __eq__(self, other):
        return self.hidden == other

    def __hash__(self):
        return 7

    def __lt__(self, other):
        return self.hidden < 2.5

    def __call__(self, x):
        return x * self.hidden

    def __enter__(self):
        return self.hidden

    def __exit__(self, *error):
        pass

    def __str__(self):
        return f"{self.hidden}"

    def __format__(self, spec):
        return f"{self.hidden + 1.0}"

    def __copy__(self):
        copied = Rate()
        copied.hidden = self.hidden * 10.0
        return copied

    def __array__(self, dtype=None, copy=None):
        return np.full(3, self.hidden, "f4")

    def __fspath__(self):
        return f"{self.hidden}"


def entered(rate, x):
    with rate as value:
        return x * value


def added(rate, x):
    total = 0.0
    for value in rate:
        total += value
    return x * total


def unpacked(rate, x):
    (value,) = rate
    return x * value


# special method: a function of a Rate and a tensor that calls it
SPECIAL = {
    "getitem": lambda r, x: x * r["any"],
    "iter in a loop": added,
    "iter in unpacking": unpacked,
    "iter in sum": lambda r, x: x * sum(r),
    "reversed": lambda r, x: x * next(reversed(r)),
    "len": lambda r, x: x * float(len(r)),
    "bool": lambda r, x: x * 2.0 if r else x,
    "bool in not": lambda r, x: x if not r else x * 2.0,
    "contains": lambda r, x: x * 2.0 if 2.5 in r else x,
    "float": lambda r, x: x * float(r),
    "index": lambda r, x: x * [1.0, 5.0, 6.0, 7.0][r],
    "mul": lambda r, x: r * x,
    "matmul": lambda r, x: r @ x,
    "neg": lambda r, x: x * -r,
    "round": lambda r, x: x * float(round(r)),
    "eq": lambda r, x: x * 2.0 if r == 2.0 else x,
    "ne": lambda r, x: x * 2.0 if r != 2.0 else x,
    "eq in a list": lambda r, x: x * 2.0 if 2.0 in [r] else x,
    "lt in sorted": lambda r, x: x * float(sorted([r, 0.5][:1])[0]),
    "lt": lambda r, x: x * 2.0 if r < 2.5 else x,
    "call": lambda r, x: r(x),
    "call in map": lambda r, x: next(map(r, [x])),
    "enter": entered,
    "str": lambda r, x: x * float(str(r)),
    "format": lambda r, x: x * float(f"{r}"),
    "copy": lambda r, x: x * copy.copy(r).hidden,
    "array": lambda r, x: x * pg.asarray(np.asarray(r)),
}


def pattern_of_special_method(name, f):
    def make():
        rate = Rate()
        return lambda x: f(rate, x), sets_attr(rate, "hidden", 3.0)

    make.__name__ = f"the special method behind {name}"
    return make


for _name, _f in SPECIAL.items():
    pattern(KIND)(pattern_of_special_method(_name, _f))


@pattern(KIND)
def a_special_method_of_the_class_is_patched():
    class Model:
        def __len__(self):
            return 2

    m = Model()
    return lambda x: x * float(len(m)), sets_attr(Model, "__len__", lambda self: 3)


@pattern(KIND)
def a_class_with_len_gets_a_bool():
    class Model:
        def __len__(self):
            return 2

    m = Model()
    return lambda x: x * 2.0 if m else x, sets_attr(
        Model, "__bool__", lambda self: False
    )


@pattern(KIND)
def the_call_method_of_the_class_is_patched():
    class Model:
        def __call__(self, x):
            return x * 2.0

    return Model(), sets_attr(Model, "__call__", lambda self, x: x * 3.0)


@pattern(KIND)
def a_constructor_reads_its_class():
    class Layer:
        rate = 2.0

        def __init__(self):
            self.scale = self.rate

    return lambda x: x * Layer().scale, sets_attr(Layer, "rate", 3.0)


@pattern(KIND)
def a_constructor_is_patched():
    class Layer:
        def __init__(self):
            self.scale = 2.0

    def other(self):
        self.scale = 3.0

    return lambda x: x * Layer().scale, sets_attr(Layer, "__init__", other)


@pattern(KIND)
def the_new_of_a_class_reads_a_table():
    table = {"rate": 2.0}

    class Layer:
        def __new__(cls):
            layer = object.__new__(cls)
            layer.scale = table["rate"]
            return layer

    return lambda x: x * Layer().scale, sets_item(table, "rate", 3.0)


@pattern(KIND)
def a_metaclass_call_reads_a_table():
    table = {"rate": 2.0}

    class Meta(type):
        def __call__(cls):
            return table["rate"]

    class Layer(metaclass=Meta):
        pass

    return lambda x: x * Layer(), sets_item(table, "rate", 3.0)


@pattern(KIND)
def a_descriptor_reads_the_instance():
    class Scaled:
        def __get__(self, instance, owner):
            return instance.hidden * 2.0

    class Model:
        rate = Scaled()
        hidden = 1.0

    m = Model()
    return lambda x: x * m.rate, sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_descriptor_reads_itself():
    class Scaled:
        hidden = 2.0

        def __get__(self, instance, owner):
            return self.hidden

    class Model:
        rate = Scaled()

    m = Model()
    return lambda x: x * m.rate, sets_attr(vars(Model)["rate"], "hidden", 3.0)


@pattern(KIND)
def a_setter_reads_a_table():
    table = {"rate": 2.0}

    class Model:
        @property
        def scale(self):
            return self.stored

        @scale.setter
        def scale(self, value):
            self.stored = value * table["rate"]

    def f(x):
        m = Model()
        m.scale = 1.0
        return x * m.scale

    return f, sets_item(table, "rate", 3.0)


@pattern(KIND)
def an_in_place_operator_reads_the_instance():
    class Total:
        rate = 2.0

        def __iadd__(self, x):
            return x * self.rate

    total = Total()

    def f(x):
        y = total
        y += x
        return y

    return f, sets_attr(total, "rate", 3.0)


@pattern(KIND)
def an_iterator_class_reads_its_owner():
    class Layers:
        rates = (2.0,)

        def __iter__(self):
            return Steps(self)

    class Steps:
        def __init__(self, owner):
            self.owner, self.at = owner, 0

        def __next__(self):
            if self.at == len(self.owner.rates):
                raise StopIteration
            self.at += 1
            return self.owner.rates[self.at - 1]

        def __iter__(self):
            return self

    layers = Layers()
    return lambda x: x * sum(rate for rate in layers), sets_attr(
        layers, "rates", (1.0, 2)
    )


@pattern(KIND)
def an_instance_check_reads_a_table():
    table = {"yes": False}

    class Meta(type):
        def __instancecheck__(cls, value):
            return table["yes"]

    class Fast(metaclass=Meta):
        pass

    return lambda x: x * 3.0 if isinstance(1, Fast) else x, sets_item(
        table, "yes", True
    )


@pattern(KIND)
def a_class_item_reads_the_class():
    class Table:
        rate = 2.0

        def __class_getitem__(cls, key):
            return cls.rate

    return lambda x: x * Table[0], sets_attr(Table, "rate", 3.0)


@pattern(KIND)
def a_subclass_hook_runs_for_a_class_made_in_the_call():
    class Base:
        rate = 2.0

        def __init_subclass__(cls):
            cls.scale = Base.rate

    def f(x):
        class Made(Base):
            pass

        return x * Made.scale

    return f, sets_attr(Base, "rate", 3.0)
