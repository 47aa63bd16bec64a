"""Decorators, and callables that lead to other callables."""

import contextlib
import functools
import operator

from .harness import pattern, sets_attr, sets_item

KIND = "decorators and callables"


@pattern(KIND)
def the_wrapped_function_of_a_wrapper():
    rates = [2.0]

    def doubled(g):
        @functools.wraps(g)
        def wrapper(x):
            return g(x) * rates[0]

        return wrapper

    return doubled(lambda x: x + 1.0), sets_item(rates, 0, 3.0)


@pattern(KIND)
def the_attribute_wrapped_is_called():
    def f(x):
        return f.__wrapped__(x)

    f.__wrapped__ = lambda x: x * 2.0
    return f, sets_attr(f, "__wrapped__", lambda x: x * 3.0)


@pattern(KIND)
def a_cache_of_results_is_cleared():
    rates = [2.0]

    @functools.lru_cache
    def rate():
        return rates[0]

    return lambda x: x * rate(), sets_item(rates, 0, 3.0), rate.cache_clear


@pattern(KIND)
def a_cache_of_results_by_key():
    rates = {"a": 2.0, "b": 3.0}
    chosen = ["a"]

    @functools.cache
    def rate(name):
        return rates[name]

    return lambda x: x * rate(chosen[0]), sets_item(chosen, 0, "b")


@pattern(KIND)
def a_single_dispatch_gets_a_class():
    @functools.singledispatch
    def rate(value):
        return 2.0

    return lambda x: x * rate(1), lambda: rate.register(int, lambda value: 3.0)


@pattern(KIND)
def a_single_dispatch_method_reads_self():
    class Model:
        hidden = 2.0

        @functools.singledispatchmethod
        def rate(self, value):
            return 0.0

        @rate.register
        def _(self, value: int):
            return self.hidden

    m = Model()
    return lambda x: x * m.rate(1), sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_dict_in_a_partial():
    cfg = {"rate": 2.0}
    return (
        functools.partial(lambda cfg, x: x * cfg["rate"], cfg),
        sets_item(cfg, "rate", 3.0),
    )


@pattern(KIND)
def the_keywords_of_a_partial():
    scale = functools.partial(lambda x, rate: x * rate, rate=2.0)
    return lambda x: scale(x), sets_item(scale.keywords, "rate", 3.0)


@pattern(KIND)
def the_state_of_a_partial():
    scale = functools.partial(lambda rate, x: x * rate, 2.0)
    change = lambda: scale.__setstate__((scale.func, (3.0,), {}, None))
    return lambda x: scale(x), change


@pattern(KIND)
def a_partial_method():
    class Model:
        hidden = 2.0

        def scaled(self, extra, x):
            return x * self.hidden + extra

        scale = functools.partialmethod(scaled, 1.0)

    m = Model()
    return lambda x: m.scale(x), sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_cached_property_is_deleted():
    class Model:
        hidden = 2.0

        @functools.cached_property
        def rate(self):
            return self.hidden

    m = Model()
    return lambda x: x * m.rate, sets_attr(m, "hidden", 3.0), lambda: delattr(m, "rate")


@pattern(KIND)
def a_context_manager_reads_a_list():
    rates = [2.0]

    @contextlib.contextmanager
    def scaled():
        yield rates[0]

    def f(x):
        with scaled() as rate:
            return x * rate

    return f, sets_item(rates, 0, 3.0)


@pattern(KIND)
def a_context_manager_as_a_decorator():
    rates = [2.0]
    current = [1.0]

    @contextlib.contextmanager
    def scaled():
        current[0] = rates[0]
        yield
        current[0] = 1.0

    return scaled()(lambda x: x * current[0]), sets_item(rates, 0, 3.0)


@pattern(KIND)
def a_static_method_is_replaced():
    class Model:
        @staticmethod
        def rate():
            return 2.0

    m = Model()
    return lambda x: x * m.rate(), sets_attr(Model, "rate", staticmethod(lambda: 3.0))


@pattern(KIND)
def a_class_method_reads_its_class():
    class Model:
        hidden = 2.0

        @classmethod
        def rate(cls):
            return cls.hidden

    return lambda x: x * Model.rate(), sets_attr(Model, "hidden", 3.0)


@pattern(KIND)
def a_class_as_a_decorator():
    class Scaled:
        def __init__(self, g):
            self.g, self.rate = g, 2.0

        def __call__(self, x):
            return self.g(x) * self.rate

    scaled = Scaled(lambda x: x + 1.0)
    return (
        lambda x: scaled(x),
        sets_attr(scaled, "rate", 3.0),
        sets_attr(scaled, "g", lambda x: x - 1.0),
    )


@pattern(KIND)
def a_bound_method_of_a_dict():
    cfg = {"rate": 2.0}
    get = cfg.get
    return lambda x: x * get("rate"), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_bound_special_method_of_a_list():
    items = [2.0]
    item = items.__getitem__
    return lambda x: x * item(0), sets_item(items, 0, 3.0)


@pattern(KIND)
def a_bound_method_that_is_captured():
    class Model:
        hidden = 2.0

        def rate(self):
            return self.hidden

    m = Model()
    rate = m.rate
    return lambda x: x * rate(), sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_bound_method_of_a_deeper_object():
    class Owner:
        cfg = {"rate": 2.0}  # noqa: RUF012

    owner = Owner()
    get = functools.partial(owner.cfg.get, "rate")
    return lambda x: x * get(), sets_item(owner.cfg, "rate", 3.0)


@pattern(KIND)
def an_attrgetter():
    class Model:
        pass

    m = Model()
    m.inner = Model()
    m.inner.rate = 2.0
    get = operator.attrgetter("inner.rate")
    return lambda x: x * get(m), sets_attr(m.inner, "rate", 3.0)


@pattern(KIND)
def an_itemgetter():
    cfg = {"rate": 2.0}
    get = operator.itemgetter("rate")
    return lambda x: x * get(cfg), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_methodcaller():
    class Model:
        hidden = 2.0

        def rate(self, by):
            return self.hidden * by

    m = Model()
    call = operator.methodcaller("rate", 2.0)
    return lambda x: x * call(m), sets_attr(m, "hidden", 3.0)


@pattern(KIND)
def a_key_of_sorted():
    weights = {"a": 1.0, "b": 2.0}
    rates = {"a": 2.0, "b": 3.0}
    first = lambda: sorted(rates, key=lambda name: weights[name])[0]
    return lambda x: x * rates[first()], sets_item(weights, "a", 5.0)


@pattern(KIND)
def a_key_of_max():
    weights = {"a": 1.0, "b": 2.0}
    names = ["a", "b"]
    return lambda x: x * float(ord(max(names, key=weights.get))), sets_item(
        weights, "a", 5.0
    )


@pattern(KIND)
def a_function_of_map():
    rates = [2.0]
    return lambda x: x * sum(map(lambda n: n * rates[0], [1, 2])), sets_item(
        rates, 0, 3.0
    )


@pattern(KIND)
def a_function_of_filter():
    limit = [2]
    return (
        lambda x: x * float(len([*filter(lambda n: n > limit[0], range(5))])),
        sets_item(limit, 0, 3),
    )


@pattern(KIND)
def a_function_of_reduce():
    rates = [2.0]
    add = lambda a, b: a + b * rates[0]
    return lambda x: x * functools.reduce(add, [1.0, 2.0]), sets_item(rates, 0, 3.0)
