"""Changes of state that a function does not read, which cause no new recording."""

import contextvars
import itertools
import types

import numpy as np
import plugrad as pg

from .harness import module, sets_attr, sets_item, unread


class Model:
    """An object with state that its calls do not read."""

    shared = 0

    def __init__(self):
        self.rate = 2.0
        self.calls = 0
        self.epoch = 0
        self.history = []
        self.w = pg.asarray([1.0, 2.0, 3.0])

    def __call__(self, x):
        return x * self.rate * self.w


def repeated(change):
    """Return a list that repeats a change six times."""
    return [change] * 6


def increments(holder, name):
    """Return a change that adds 1 to an attribute."""
    return lambda: setattr(holder, name, getattr(holder, name) + 1)


@unread()
def a_counter_of_the_object():
    m = Model()
    return m, *repeated(increments(m, "calls"))


@unread()
def a_counter_of_the_class():
    class Counted(Model):
        pass

    return Counted(), *repeated(increments(Counted, "shared"))


@unread()
def a_list_of_the_object_grows():
    m = Model()
    return m, *repeated(lambda: m.history.append(1))


@unread()
def an_attribute_is_new():
    m = Model()
    numbers = itertools.count()
    return m, *repeated(lambda: setattr(m, f"new_{next(numbers)}", 1))


@unread()
def a_slot_other_than_the_one_that_is_read():
    class Slots:
        __slots__ = ("calls", "rate")

    m = Slots()
    m.rate, m.calls = 2.0, 0
    return lambda x: x * m.rate, *repeated(increments(m, "calls"))


@unread()
def an_attribute_of_a_deeper_object():
    m = types.SimpleNamespace(inner=Model())
    return lambda x: x * m.inner.rate, *repeated(increments(m.inner, "epoch"))


@unread()
def a_loop_variable_with_the_name_of_an_attribute():
    m = module("""
        class Model:
            step = 2.0

        model = Model()

        def f(x):
            return x * model.step

        step = 0
    """)
    return m.f, *repeated(increments(m, "step"))


@unread()
def an_attribute_with_the_name_of_a_global():
    m = module("""
        rate = 2.0

        class Model:
            rate = 0

            def __call__(self, x):
                return x * rate

        f = Model()
    """)
    return m.f, *repeated(increments(m.f, "rate"))


@unread()
def an_attribute_with_the_name_of_a_method_of_a_tensor():
    class Named:
        def __init__(self):
            self.sum, self.rate = 0, 2.0

    m = Named()
    return lambda x: pg.sum(x) * m.rate, *repeated(increments(m, "sum"))


@unread()
def a_global_that_no_function_names():
    m = module("""
        rate, calls = 2.0, 0

        def f(x):
            return x * rate
    """)
    return m.f, *repeated(increments(m, "calls"))


@unread()
def an_attribute_of_a_module():
    cfg = types.ModuleType("cfg")
    cfg.rate, cfg.calls = 2.0, 0
    return lambda x: x * cfg.rate, *repeated(increments(cfg, "calls"))


@unread()
def an_attribute_of_the_function():
    def f(x):
        return x * 2.0

    f.calls = 0
    return f, *repeated(increments(f, "calls"))


@unread()
def a_cell_of_another_function():
    calls = 0
    rate = 2.0

    def f(x):
        return x * rate

    def count():
        nonlocal calls
        calls += 1

    return f, *repeated(count)


@unread()
def a_context_variable():
    calls = contextvars.ContextVar("calls", default=0)
    rate = contextvars.ContextVar("rate", default=2.0)
    return lambda x: x * rate.get(), *repeated(lambda: calls.set(calls.get() + 1))


@unread()
def a_method_that_is_not_called():
    class Patched(Model):
        pass

    change = lambda: setattr(Patched, "report", lambda self: None)
    return Patched(), *repeated(change)


@unread()
def another_object_of_the_class():
    m = Model()
    other = Model()
    return m, *repeated(increments(other, "rate"))


@unread()
def a_number_that_is_set_again():
    m = Model()
    return m, *repeated(sets_attr(m, "rate", 2.0))


@unread(max_retraces=1)
def a_list_that_is_built_again():
    m = Model()
    m.rates = [2.0, [3.0]]
    change = lambda: setattr(m, "rates", [2.0, [3.0]])
    return lambda x: x * m.rates[1][0], *repeated(change)


@unread(max_retraces=1)
def a_dict_that_is_built_again():
    box = {"cfg": {"rate": 2.0}}
    change = lambda: box.update(cfg={"rate": 2.0})
    return lambda x: x * box["cfg"]["rate"], *repeated(change)


@unread(max_retraces=1)
def an_array_that_is_built_again():
    box = {"table": np.ones(3, dtype="f4")}
    change = lambda: box.update(table=np.ones(3, dtype="f4"))
    return lambda x: x * pg.asarray(box["table"]), *repeated(change)


@unread()
def a_number_that_changes_and_returns():
    m = Model()

    def change():
        m.rate = 3.0
        m.rate = 2.0

    return m, *repeated(change)


@unread()
def state_that_a_state_method_leaves_out():
    class Stated(Model):
        def __jit_state__(self):
            return (self.rate, self.w)

        def __call__(self, x):
            return super().__call__(x) + 0.0 * self.calls

    m = Stated()
    return m, *repeated(increments(m, "calls"))


@unread()
def a_mode_that_the_call_sets_to_its_present_value():
    m = Model()

    def f(x):
        m.training = True
        return m(x)

    m.training = True
    return f, *repeated(sets_attr(m, "epoch", 1))


@unread()
def a_value_that_the_call_makes_and_drops():
    box = {}

    def f(x):
        box["y"] = x * 2.0
        return box.pop("y") + 1.0

    return f, *repeated(lambda: None)


@unread(max_retraces=1)
def a_tensor_that_is_replaced_in_each_phase():
    m = Model()
    return m, *repeated(lambda: setattr(m, "w", m.w + 1.0))


@unread(max_retraces=1)
def a_tensor_in_a_dict_that_is_replaced_in_each_phase():
    params = {"w": pg.ones(3), "b": pg.zeros(3)}

    def change():
        params["w"] = params["w"] * 2.0
        params["b"] = params["b"] + 1.0

    return lambda x: x * params["w"] + params["b"], *repeated(change)


@unread(max_retraces=1)
def a_tensor_of_a_list_that_is_replaced_in_each_phase():
    layers = [pg.ones(3), pg.ones(3)]
    change = lambda: sets_item(layers, 1, layers[1] + 1.0)()
    return lambda x: x * layers[0] + layers[1], *repeated(change)


@unread(max_retraces=1)
def a_tensor_whose_item_is_assigned_in_each_phase():
    m = Model()
    numbers = itertools.count()
    return m, *repeated(lambda: sets_item(m.w, 0, float(next(numbers)))())


@unread(max_retraces=1)
def a_flag_that_alternates():
    m = Model()
    return m, *[sets_attr(m, "rate", rate) for rate in (3.0, 2.0) * 3]


@unread(max_retraces=2)
def a_number_that_has_three_values():
    m = Model()
    return m, *[sets_attr(m, "rate", rate) for rate in (3.0, 4.0, 2.0) * 2]


@unread(max_retraces=1)
def a_number_that_changes_once():
    m = Model()
    return m, sets_attr(m, "rate", 3.0), *repeated(increments(m, "calls"))
