"""A name is found in a nearer place than before, or in another one."""

from .harness import gives, module, pattern

KIND = "name lookup moves"


class Holder:
    """An object without attributes of its own."""


def reader(thing):
    """Return a function that reads an attribute of an object."""
    return lambda x: x * thing.rate


@pattern(KIND)
def an_instance_attribute_hides_that_of_the_class():
    class Model:
        rate = 2.0

        def scale(self, x):
            return x * self.rate

    m = Model()
    return m.scale, gives(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def an_inherited_class_attribute_is_replaced():
    class Base:
        rate = 2.0

    class Model(Base):
        pass

    m = Model()
    return reader(m), gives(Base, "rate", 3.0), gives(Base, "rate", 4.0)


@pattern(KIND)
def a_subclass_gets_what_its_base_has():
    class Base:
        rate = 2.0

    class Model(Base):
        pass

    m = Model()
    return reader(m), gives(Model, "rate", 3.0), lambda: delattr(Model, "rate")


@pattern(KIND)
def a_mixin_between_gets_what_a_base_has():
    class Base:
        rate = 2.0

    class Mixin:
        pass

    class Model(Mixin, Base):
        pass

    return reader(Model()), gives(Mixin, "rate", 3.0)


@pattern(KIND)
def the_bases_of_a_class_are_replaced():
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    class Model(Slow):
        pass

    return reader(Model()), gives(Model, "__bases__", (Fast,))


@pattern(KIND)
def the_class_of_an_object_is_replaced():
    class Slow:
        rate = 2.0

    class Fast:
        rate = 3.0

    m = Slow()
    return reader(m), gives(m, "__class__", Fast), gives(m, "__class__", Slow)


@pattern(KIND)
def a_class_with_other_methods_is_assigned():
    class Train:
        def __call__(self, x):
            return x * 2.0

    class Evaluate(Train):
        def __call__(self, x):
            return x - 1.0

    m = Train()
    return lambda x: m(x), gives(m, "__class__", Evaluate)


@pattern(KIND)
def a_method_of_an_instance_is_patched():
    class Model:
        def scale(self, x):
            return x * 2.0

    m = Model()
    return lambda x: m.scale(x), gives(m, "scale", lambda x: x * 3.0)


@pattern(KIND)
def a_method_of_the_class_is_patched():
    class Model:
        def scale(self, x):
            return x * 2.0

    m = Model()
    return lambda x: m.scale(x), gives(Model, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def a_method_that_was_inherited_is_overridden():
    class Base:
        def factor(self):
            return 2.0

    class Model(Base):
        pass

    m = Model()
    return lambda x: x * m.factor(), gives(Model, "factor", lambda self: 3.0)


@pattern(KIND)
def a_base_method_behind_super_is_patched():
    class Base:
        def scale(self, x):
            return x * 2.0

    class Model(Base):
        def scale(self, x):
            return super().scale(x) + 1.0

    return Model().scale, gives(Base, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def a_class_between_gets_the_method_that_super_finds():
    class Base:
        def scale(self, x):
            return x * 2.0

    class Middle(Base):
        pass

    class Model(Middle):
        def scale(self, x):
            return super().scale(x) + 1.0

    return Model().scale, gives(Middle, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def an_attribute_that_was_missing_for_getattr():
    m = Holder()
    return lambda x: x * getattr(m, "rate", 2.0), gives(m, "rate", 3.0)


@pattern(KIND)
def an_attribute_that_was_missing_for_hasattr():
    m = Holder()
    return lambda x: x * 3.0 if hasattr(m, "fast") else x, gives(m, "fast", None)


@pattern(KIND)
def an_attribute_that_was_missing_for_except():
    m = Holder()

    def f(x):
        try:
            return x * m.rate
        except AttributeError:
            return x

    return f, gives(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def an_attribute_that_was_missing_on_the_class():
    class Model:
        pass

    m = Model()
    return lambda x: x * getattr(m, "rate", 2.0), gives(Model, "rate", 3.0)


@pattern(KIND)
def a_global_that_was_missing():
    m = module("""
        def f(x):
            try:
                return x * rate
            except NameError:
                return x
    """)
    return m.f, gives(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def a_global_shadows_a_builtin():
    m = module("""
        def f(x):
            return x * float(max(2, 1))
    """)
    return m.f, gives(m, "max", min), lambda: delattr(m, "max")


@pattern(KIND)
def a_global_shadows_a_builtin_in_a_helper():
    m = module("""
        def helper():
            return abs(-2.0)

        def f(x):
            return x * helper()
    """)
    return m.f, gives(m, "abs", lambda number: number)


@pattern(KIND)
def a_property_takes_the_place_of_an_attribute():
    class Model:
        def __init__(self):
            self.rate = 2.0

    return reader(Model()), gives(Model, "rate", property(lambda self: 3.0))


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
    return reader(m), gives(Model, "rate", Fixed()), lambda: delattr(Model, "rate")


@pattern(KIND)
def an_attribute_hides_what_getattr_made():
    class Model:
        def __getattr__(self, name):
            return 2.0

    m = Model()
    return reader(m), gives(m, "rate", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def a_class_gets_a_getattribute():
    class Model:
        rate = 2.0

    def lookup(self, name):
        return 3.0 if name == "rate" else object.__getattribute__(self, name)

    return reader(Model()), gives(Model, "__getattribute__", lookup)


@pattern(KIND)
def the_dict_of_an_object_is_replaced():
    m = Holder()
    m.rate = 2.0
    return reader(m), gives(m, "__dict__", {"rate": 3.0}), gives(m, "rate", 4.0)


@pattern(KIND)
def a_class_attribute_hides_that_of_the_metaclass():
    class Meta(type):
        rate = 2.0

    class Model(metaclass=Meta):
        pass

    return reader(Model), gives(Meta, "rate", 3.0), gives(Model, "rate", 4.0)


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
    return m.f, gives(m, "rate", 3.0), gives(m.model, "rate", 6.0)


@pattern(KIND)
def an_argument_and_a_global_of_one_name():
    m = module("""
        rate = 2.0

        def scaled(x, rate=None):
            return x * (5.0 if rate is None else rate)

        def f(x):
            return scaled(x, rate)
    """)
    return m.f, gives(m, "rate", 3.0), gives(m, "rate", None)


@pattern(KIND)
def a_class_attribute_hides_an_inherited_slot():
    class Base:
        __slots__ = ("rate",)

    class Model(Base):
        pass

    m = Model()
    m.rate = 2.0
    return reader(m), gives(Model, "rate", 3.0)
