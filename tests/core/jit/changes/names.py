"""Lookups that find a name in a different place than before."""

from .harness import module, pattern, sets_attr

KIND = "name lookups"


class Holder:
    """An object without attributes of its own."""


def reader(holder):
    """Return a function that reads an attribute of an object."""
    return lambda x: x * holder.rate


@pattern(KIND)
def an_instance_attribute_hides_a_class_attribute():
    class Model:
        rate = 2.0

        def scale(self, x):
            return x * self.rate

    m = Model()
    return m.scale, sets_attr(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def an_inherited_class_attribute_is_replaced():
    class Base:
        rate = 2.0

    class Model(Base):
        pass

    m = Model()
    return reader(m), sets_attr(Base, "rate", 3.0), sets_attr(Base, "rate", 4.0)


@pattern(KIND)
def a_subclass_gets_an_attribute_of_its_base():
    class Base:
        rate = 2.0

    class Model(Base):
        pass

    m = Model()
    return reader(m), sets_attr(Model, "rate", 3.0), lambda: delattr(Model, "rate")


@pattern(KIND)
def a_mixin_gets_an_attribute_of_a_base():
    class Base:
        rate = 2.0

    class Mixin:
        pass

    class Model(Mixin, Base):
        pass

    return reader(Model()), sets_attr(Mixin, "rate", 3.0)


@pattern(KIND)
def the_bases_of_a_class_are_replaced():
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    class Model(Slow):
        pass

    return reader(Model()), sets_attr(Model, "__bases__", (Fast,))


@pattern(KIND)
def the_class_of_an_object_is_replaced():
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    m = Slow()
    return reader(m), sets_attr(m, "__class__", Fast), sets_attr(m, "__class__", Slow)


@pattern(KIND)
def a_class_with_other_methods_is_assigned():
    class Train:
        def __call__(self, x):
            return x * 2.0

    class Evaluate(Train):
        def __call__(self, x):
            return x - 1.0

    m = Train()
    return lambda x: m(x), sets_attr(m, "__class__", Evaluate)


@pattern(KIND)
def a_method_of_an_instance_is_patched():
    class Model:
        def scale(self, x):
            return x * 2.0

    m = Model()
    return lambda x: m.scale(x), sets_attr(m, "scale", lambda x: x * 3.0)


@pattern(KIND)
def a_method_of_the_class_is_patched():
    class Model:
        def scale(self, x):
            return x * 2.0

    m = Model()
    return lambda x: m.scale(x), sets_attr(Model, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def a_method_that_was_inherited_is_overridden():
    class Base:
        def factor(self):
            return 2.0

    class Model(Base):
        pass

    m = Model()
    return lambda x: x * m.factor(), sets_attr(Model, "factor", lambda self: 3.0)


@pattern(KIND)
def a_base_method_behind_super_is_patched():
    class Base:
        def scale(self, x):
            return x * 2.0

    class Model(Base):
        def scale(self, x):
            return super().scale(x) + 1.0

    return Model().scale, sets_attr(Base, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def a_middle_class_gets_the_method_that_super_finds():
    class Base:
        def scale(self, x):
            return x * 2.0

    class Middle(Base):
        pass

    class Model(Middle):
        def scale(self, x):
            return super().scale(x) + 1.0

    return Model().scale, sets_attr(Middle, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def an_attribute_that_was_missing_for_getattr():
    m = Holder()
    return lambda x: x * getattr(m, "rate", 2.0), sets_attr(m, "rate", 3.0)


@pattern(KIND)
def an_attribute_that_was_missing_for_hasattr():
    m = Holder()
    return lambda x: x * 3.0 if hasattr(m, "fast") else x, sets_attr(m, "fast", None)


@pattern(KIND)
def an_attribute_that_was_missing_for_except():
    m = Holder()

    def f(x):
        try:
            return x * m.rate
        except AttributeError:
            return x

    return f, sets_attr(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def an_attribute_that_was_missing_on_the_class():
    class Model:
        pass

    m = Model()
    return lambda x: x * getattr(m, "rate", 2.0), sets_attr(Model, "rate", 3.0)


@pattern(KIND)
def a_global_that_was_missing():
    m = module("""
        def f(x):
            try:
                return x * rate
            except NameError:
                return x
    """)
    return m.f, sets_attr(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def a_global_shadows_a_builtin():
    m = module("""
        def f(x):
            return x * float(max(2, 1))
    """)
    return m.f, sets_attr(m, "max", min), lambda: delattr(m, "max")


@pattern(KIND)
def a_global_shadows_a_builtin_in_a_helper():
    m = module("""
        def helper():
            return abs(-2.0)

        def f(x):
            return x * helper()
    """)
    return m.f, sets_attr(m, "abs", lambda number: number)


@pattern(KIND)
def a_property_replaces_an_attribute():
    class Model:
        def __init__(self):
            self.rate = 2.0

    return reader(Model()), sets_attr(Model, "rate", property(lambda self: 3.0))


@pattern(KIND)
def a_data_descriptor_hides_an_instance_attribute():
    class Model:
        pass

    class Fixed:
        def __get__(self, instance, owner):
            return 3.0

        def __set__(self, instance, value):
            raise AttributeError

    m = Model()
    m.rate = 2.0
    return reader(m), sets_attr(Model, "rate", Fixed()), lambda: delattr(Model, "rate")


@pattern(KIND)
def an_attribute_hides_the_result_of_getattr():
    class Model:
        def __getattr__(self, name):
            return 2.0

    m = Model()
    return reader(m), sets_attr(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def a_class_gets_a_getattribute():
    class Model:
        rate = 2.0

    def lookup(self, name):
        return 3.0 if name == "rate" else object.__getattribute__(self, name)

    return reader(Model()), sets_attr(Model, "__getattribute__", lookup)


@pattern(KIND)
def the_dict_of_an_object_is_replaced():
    m = Holder()
    m.rate = 2.0
    return reader(m), sets_attr(m, "__dict__", {"rate": 3.0}), sets_attr(m, "rate", 4.0)


@pattern(KIND)
def a_class_attribute_hides_a_metaclass_attribute():
    class Meta(type):
        rate = 2.0

    class Model(metaclass=Meta):
        pass

    return reader(Model), sets_attr(Meta, "rate", 3.0), sets_attr(Model, "rate", 4.0)


@pattern(KIND)
def a_global_and_an_attribute_of_one_name():
    m = module("""
        rate = 2.0

        class Model:
            rate = 5.0

        model = Model()

        def f(x):
            return x * rate + model.rate
    """)
    return m.f, sets_attr(m, "rate", 3.0), sets_attr(m.model, "rate", 6.0)


@pattern(KIND)
def an_argument_and_a_global_of_one_name():
    m = module("""
        rate = 2.0

        def scaled(x, rate=None):
            return x * (5.0 if rate is None else rate)

        def f(x):
            return scaled(x, rate)
    """)
    return m.f, sets_attr(m, "rate", 3.0), sets_attr(m, "rate", None)


@pattern(KIND)
def a_class_attribute_hides_an_inherited_slot():
    class Base:
        __slots__ = ("rate",)

    class Model(Base):
        pass

    m = Model()
    m.rate = 2.0
    return reader(m), sets_attr(Model, "rate", 3.0)
