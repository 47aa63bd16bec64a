"""Changes of the attributes of objects, for all kinds of classes."""

import abc
import copy
import weakref

import plugrad as pg

from .harness import pattern, sets_attr, sets_item

KIND = "class machinery"


class Holder:
    """An object without attributes of its own."""


def holder_with(**attributes):
    holder = Holder()
    vars(holder).update(attributes)
    return holder


@pattern(KIND)
def an_attribute_behind_a_property():
    class Model:
        hidden = 2.0

        @property
        def rate(self):
            return self.hidden + 1.0

    m = Model()
    return lambda x: x * m.rate, sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_property_of_the_class_is_replaced():
    class Model:
        rate = property(lambda self: 2.0)

    m = Model()
    return lambda x: x * m.rate, sets_attr(Model, "rate", property(lambda self: 3.0))


@pattern(KIND)
def a_slot():
    class Model:
        __slots__ = ("rate",)

    m = Model()
    m.rate = 2.0
    return lambda x: x * m.rate, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def slots_that_are_inherited():
    class Base:
        __slots__ = ("rate",)

    class Model(Base):
        __slots__ = ("shift",)

    m = Model()
    m.rate, m.shift = 2.0, 1.0
    return (
        lambda x: x * m.rate + m.shift,
        sets_attr(m, "rate", 3.0),
        sets_attr(m, "shift", 0.0),
    )


@pattern(KIND)
def a_slot_that_was_empty():
    class Model:
        __slots__ = ("rate",)

    m = Model()
    return (
        lambda x: x * getattr(m, "rate", 2.0),
        sets_attr(m, "rate", 3.0),
        lambda: delattr(m, "rate"),
    )


@pattern(KIND)
def a_slot_and_a_dict():
    class Base:
        __slots__ = ("rate",)

    class Model(Base):
        pass

    m = Model()
    m.rate, m.shift = 2.0, 1.0
    return (
        lambda x: x * m.rate + m.shift,
        sets_attr(m, "shift", 0.0),
        sets_attr(m, "rate", 3.0),
    )


@pattern(KIND)
def a_getattr_that_reads_a_dict():
    class Model:
        def __init__(self):
            self.table = {"rate": 2.0}

        def __getattr__(self, name):
            return self.table[name]

    m = Model()
    return lambda x: x * m.rate, sets_item(m.table, "rate", 3.0)


@pattern(KIND)
def a_getattr_that_forwards():
    class Wrapper:
        def __init__(self, inner):
            self._inner = inner

        def __getattr__(self, name):
            return getattr(self._inner, name)

    m = Wrapper(holder_with(rate=2.0))
    return (
        lambda x: x * m.rate,
        sets_attr(m._inner, "rate", 3.0),
        sets_attr(m, "_inner", holder_with(rate=4.0)),
    )


@pattern(KIND)
def a_getattribute_that_reads_a_table():
    rates = {"rate": 2.0}

    class Model:
        def __getattribute__(self, name):
            if name in rates:
                return rates[name]
            return object.__getattribute__(self, name)

    m = Model()
    return lambda x: x * m.rate, sets_item(rates, "rate", 3.0)


@pattern(KIND)
def an_attribute_by_a_computed_name():
    m = holder_with(rate_1=2.0, rate_2=3.0)
    names = [1]
    return (
        lambda x: x * getattr(m, f"rate_{names[0]}"),
        sets_attr(m, "rate_1", 5.0),
        sets_item(names, 0, 2),
    )


@pattern(KIND)
def the_vars_of_an_object():
    m = holder_with(rate=2.0)
    return (
        lambda x: x * sum(vars(m).values()),
        sets_attr(m, "rate", 3.0),
        sets_attr(m, "b", 1),
    )


@pattern(KIND)
def the_dict_of_an_object():
    m = holder_with(rate=2.0)
    return lambda x: x * m.__dict__["rate"], sets_attr(m, "rate", 3.0)


@pattern(KIND)
def the_names_that_dir_finds():
    m = holder_with(rate=2.0)
    count = lambda: sum(name.startswith("rate") for name in dir(m))
    return lambda x: x * float(count()), sets_attr(m, "rate_2", 3.0)


@pattern(KIND)
def the_class_that_type_returns():
    class Model:
        rate = 2.0

    m = Model()
    return lambda x: x * type(m).rate, sets_attr(Model, "rate", 3.0)


@pattern(KIND)
def the_name_of_a_class():
    class Model:
        pass

    m = Model()
    return lambda x: x * float(len(type(m).__name__)), sets_attr(Model, "__name__", "M")


@pattern(KIND)
def the_class_that_isinstance_checks():
    class Slow:
        pass

    class Fast:
        pass

    m = Slow()
    return lambda x: x * 3.0 if isinstance(m, Fast) else x, sets_attr(
        m, "__class__", Fast
    )


@pattern(KIND)
def an_attribute_of_a_metaclass():
    class Meta(type):
        @property
        def rate(cls):
            return cls.hidden

    class Model(metaclass=Meta):
        hidden = 2.0

    return lambda x: x * Model.rate, sets_attr(Model, "hidden", 3.0)


@pattern(KIND)
def a_descriptor_with_a_table_of_instances():
    class Field:
        def __init__(self):
            self.values = {}

        def __get__(self, instance, owner):
            return self.values[id(instance)]

        def __set__(self, instance, value):
            self.values[id(instance)] = value

    class Model:
        rate = Field()

    m = Model()
    m.rate = 2.0
    return lambda x: x * m.rate, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_registry_of_subclasses_grows():
    class Base:
        registry = []  # noqa: RUF012

        def __init_subclass__(cls):
            Base.registry.append(cls)

    return lambda x: x * float(len(Base.registry)), lambda: type("Made", (Base,), {})


@pattern(KIND)
def an_abstract_base_of_a_model():
    class Base(abc.ABC):
        @abc.abstractmethod
        def rate(self):
            pass

        def __call__(self, x):
            return x * self.rate()

    class Model(Base):
        hidden = 2.0

        def rate(self):
            return self.hidden

    m = Model()
    return m, sets_attr(m, "hidden", 3.0), sets_attr(Model, "rate", lambda self: 4.0)


@pattern(KIND)
def a_number_with_attributes():
    class Rate(float):
        pass

    rate = Rate(2.0)
    rate.shift = 1.0
    return lambda x: x * float(rate) + rate.shift, sets_attr(rate, "shift", 3.0)


@pattern(KIND)
def a_str_with_attributes():
    class Name(str):
        pass

    name = Name("2.0")
    name.shift = 1.0
    return lambda x: x * float(name) + name.shift, sets_attr(name, "shift", 3.0)


@pattern(KIND)
def an_exception_with_attributes():
    error = ValueError("no")
    error.rate = 2.0

    def f(x):
        try:
            raise error
        except ValueError as caught:
            return x * caught.rate

    return f, sets_attr(error, "rate", 3.0)


@pattern(KIND)
def an_object_behind_a_weak_reference():
    m = holder_with(rate=2.0)
    box = [m]
    reference = weakref.ref(m)

    def f(x):
        found = reference()
        return x * found.rate if box else x

    return f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_weak_reference_that_dies():
    box = [holder_with(rate=2.0)]
    reference = weakref.ref(box[0])
    return lambda x: x if reference() is None else x * 2.0, box.clear


@pattern(KIND)
def a_weak_dictionary():
    table = weakref.WeakKeyDictionary()
    keys = [Holder()]
    table[keys[0]] = 2.0
    return lambda x: x * table[keys[0]], lambda: table.update({keys[0]: 3.0})


@pattern(KIND)
def a_copy_of_an_object():
    m = holder_with(rate=2.0)
    return lambda x: x * copy.copy(m).rate, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_deep_copy_of_an_object():
    m = holder_with(inner=holder_with(rate=2.0))
    return lambda x: x * copy.deepcopy(m).inner.rate, sets_attr(m.inner, "rate", 3.0)


@pattern(KIND)
def an_object_that_refers_to_its_parent():
    parent = holder_with(rate=2.0)
    parent.child = holder_with(parent=parent)
    return lambda x: x * parent.child.parent.child.parent.rate, sets_attr(
        parent, "rate", 3.0
    )


@pattern(KIND)
def a_class_made_by_type():
    model = type("Model", (), {"rate": 2.0})
    m = model()
    return lambda x: x * m.rate, sets_attr(model, "rate", 3.0)


@pattern(KIND)
def a_state_method_returns_what_changes():
    class Model:
        def __init__(self):
            self.rate, self.calls = 2.0, 0

        def __jit_state__(self):
            return (self.rate,)

        def __call__(self, x):
            return x * self.rate

    m = Model()
    return m, sets_attr(m, "rate", 3.0), sets_attr(m, "rate", 4.0)


@pattern(KIND)
def a_state_method_returns_a_tensor():
    class Model:
        def __init__(self):
            self.w = pg.asarray([1.0, 2.0, 3.0])

        def __jit_state__(self):
            return (self.w,)

        def __call__(self, x):
            return x * self.w

    m = Model()
    return m, lambda: sets_attr(m, "w", m.w + 1.0)(), lambda: sets_item(m.w, 0, 9.0)()


@pattern(KIND)
def a_state_method_of_a_base():
    class Base:
        def __jit_state__(self):
            return (self.rate, tuple(self.layers))

    class Model(Base):
        def __init__(self):
            self.rate = 2.0
            self.layers = [1.0]

        def __call__(self, x):
            return x * self.rate + self.layers[0]

    m = Model()
    return m, sets_item(m.layers, 0, 3.0), sets_attr(m, "rate", 3.0)
