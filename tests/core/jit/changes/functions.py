"""Functions as objects: their code, defaults, cells and attributes."""

from .harness import module, pattern, sets_attr, sets_item

KIND = "functions as objects"


@pattern(KIND)
def an_attribute_of_the_function():
    def f(x):
        return x * f.rate

    f.rate = 2.0
    return f, sets_attr(f, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_global_function():
    m = module("""
        def f(x):
            return x * f.rate

        f.rate = 2.0
    """)
    return m.f, sets_attr(m.f, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_helper():
    def helper(x):
        return x * helper.rate

    helper.rate = 2.0
    return lambda x: helper(x), sets_attr(helper, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_method():
    class Model:
        def scale(self, x):
            return x * self.scale.rate

    Model.scale.rate = 2.0
    return Model().scale, sets_attr(Model.scale, "rate", 3.0)


@pattern(KIND)
def the_code_of_the_function():
    def f(x):
        return x * 2.0

    return f, sets_attr(f, "__code__", (lambda x: x * 3.0).__code__)


@pattern(KIND)
def the_code_of_a_helper():
    def helper(x):
        return x * 2.0

    return lambda x: helper(x), sets_attr(
        helper, "__code__", (lambda x: x - 1.0).__code__
    )


@pattern(KIND)
def the_code_of_a_method():
    class Model:
        def scale(self, x):
            return x * 2.0

    def other(self, x):
        return x * 3.0

    return Model().scale, sets_attr(Model.scale, "__code__", other.__code__)


@pattern(KIND)
def the_defaults_of_a_helper():
    def helper(x, rate=2.0):
        return x * rate

    return lambda x: helper(x), sets_attr(helper, "__defaults__", (3.0,))


@pattern(KIND)
def the_keyword_defaults_of_a_helper():
    def helper(x, *, rate=2.0):
        return x * rate

    return lambda x: helper(x), sets_item(helper.__kwdefaults__, "rate", 3.0)


@pattern(KIND)
def a_helper_gets_defaults_for_keywords():
    def helper(x, *, rate=None):
        return x * (2.0 if rate is None else rate)

    return lambda x: helper(x), sets_attr(helper, "__kwdefaults__", {"rate": 3.0})


@pattern(KIND)
def a_list_as_a_default():
    def helper(x, rates=[2.0]):  # noqa: B006
        return x * rates[0]

    return lambda x: helper(x), sets_item(helper.__defaults__[0], 0, 3.0)


@pattern(KIND)
def the_name_of_a_function_that_is_read():
    def helper(x):
        return x

    table = {"helper": 2.0, "other": 3.0}
    return lambda x: x * table[helper.__name__], sets_attr(helper, "__name__", "other")


@pattern(KIND)
def the_docstring_of_a_function_that_is_read():
    def f(x):
        """2.0"""
        return x * float(f.__doc__)

    return f, sets_attr(f, "__doc__", "3.0")


@pattern(KIND)
def a_function_in_a_table_of_functions():
    table = {"act": lambda x: x * 2.0}
    return lambda x: table["act"](x), sets_item(table, "act", lambda x: x * 3.0)


@pattern(KIND)
def a_cell_of_a_function_in_a_list():
    def scaling():
        rate = 2.0

        def scale(x):
            return x * rate

        def change():
            nonlocal rate
            rate = 3.0

        return scale, change

    scale, change = scaling()
    steps = [scale]
    return lambda x: steps[0](x), change


@pattern(KIND)
def a_helper_that_a_notebook_defines_again():
    m = module("""
        def helper(x):
            return x * 2.0

        def f(x):
            return helper(x)
    """)
    redefined = "def helper(x):\n    return x * 3.0\n"
    return m.f, lambda: exec(redefined, vars(m))


@pattern(KIND)
def a_helper_of_a_helper_is_defined_again():
    m = module("""
        def inner(x):
            return x * 2.0

        def helper(x):
            return inner(x)

        def f(x):
            return helper(x)
    """)
    return m.f, sets_attr(m, "inner", lambda x: x * 3.0)
