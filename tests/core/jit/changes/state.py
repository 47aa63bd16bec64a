"""State that the function itself changes."""

import collections
import functools
import itertools
import random

import numpy as np
import plugrad as pg

from .harness import module, no_change, pattern, sets_attr, sets_item

KIND = "state that f changes"


class Model:
    """An object with state."""

    def __init__(self):
        self.calls = 0
        self.flag = False
        self.rate = 2.0
        self.w = None


def without_changes(f, phases=3):
    """Return a function, and for each phase but the first a change without effect."""
    return f, *[no_change] * (phases - 1)


@pattern(KIND)
def a_weight_is_made_in_the_first_call():
    m = Model()

    def f(x):
        if m.w is None:
            m.w = pg.zeros_like(x) + 2.0
            return x
        return x * m.w

    return f, sets_attr(m, "w", None)


@pattern(KIND)
def a_counter_is_read():
    m = Model()

    def f(x):
        m.calls += 1
        return x * float(m.calls)

    return without_changes(f)


@pattern(KIND)
def a_counter_reaches_a_limit_later():
    m = Model()

    def f(x):
        m.calls += 1
        return x * 3.0 if m.calls > 5 else x

    return without_changes(f)


@pattern(KIND)
def a_counter_in_a_global():
    m = module("""
        calls = 0

        def f(x):
            global calls
            calls += 1
            return x * 3.0 if calls > 4 else x
    """)
    return without_changes(m.f)


@pattern(KIND)
def a_counter_in_a_cell():
    calls = 0

    def f(x):
        nonlocal calls
        calls += 1
        return x * 3.0 if calls > 4 else x

    return without_changes(f)


@pattern(KIND)
def a_counter_of_the_function():
    def f(x):
        f.calls += 1
        return x * 3.0 if f.calls > 4 else x

    f.calls = 0
    return without_changes(f)


@pattern(KIND)
def a_counter_of_the_class():
    class Counted:
        calls = 0

        def __call__(self, x):
            Counted.calls += 1
            return x * 3.0 if Counted.calls > 4 else x

    return without_changes(Counted())


@pattern(KIND)
def a_counter_in_a_default():
    def f(x, calls=[0]):  # noqa: B006
        calls[0] += 1
        return x * 3.0 if calls[0] > 4 else x

    return without_changes(lambda x: f(x))


@pattern(KIND)
def a_list_that_counts_calls_is_read_by_len():
    seen = []

    def f(x):
        seen.append(0)
        return x * 3.0 if len(seen) > 4 else x

    return without_changes(f)


@pattern(KIND)
def a_counter_in_an_array():
    calls = np.zeros(1)

    def f(x):
        calls[0] += 1
        return x * 3.0 if calls[0] > 4 else x

    return without_changes(f)


@pattern(KIND)
def a_countdown_that_ends():
    m = Model()
    m.calls = 4

    def f(x):
        if m.calls:
            m.calls -= 1
            return x * 2.0
        return x

    return without_changes(f)


@pattern(KIND)
def a_flag_toggles_in_each_call():
    m = Model()

    def f(x):
        m.flag = not m.flag
        return x * 2.0 if m.flag else x

    return *without_changes(f), sets_attr(m, "flag", True)


@pattern(KIND)
def a_flag_toggles_in_every_second_call():
    m = Model()

    def f(x):
        m.calls += 1
        return x * 2.0 if m.calls // 2 % 2 else x

    return without_changes(f, 4)


@pattern(KIND)
def a_rate_halves_after_some_equal_calls():
    m = Model()

    def f(x):
        m.calls += 1
        return x * (0.5 ** (m.calls // 4))

    return without_changes(f, 4)


@pattern(KIND)
def a_cache_is_filled():
    cache = {}

    def f(x):
        if "mask" not in cache:
            cache["mask"] = pg.ones(3) * 2.0
        return x * cache["mask"]

    return f, cache.clear, lambda: cache.update(mask=pg.ones(3) * 3.0)


@pattern(KIND)
def a_cache_is_filled_by_setdefault():
    cache = {}
    rates = [2.0]
    return (
        lambda x: x * cache.setdefault("rate", rates[0]),
        sets_item(rates, 0, 3.0),
        cache.clear,
    )


@pattern(KIND)
def a_cached_function_counts_its_runs():
    runs = [0.0]

    @functools.cache
    def rate(key):
        runs[0] += 1.0
        return runs[0]

    key = [0]
    return lambda x: x * rate(key[0]), sets_item(key, 0, 1), rate.cache_clear


@pattern(KIND)
def a_moving_average_of_arguments():
    m = Model()
    m.w = pg.zeros(3)

    def f(x):
        m.w = m.w * 0.5 + x
        return m.w

    return without_changes(f)


@pattern(KIND)
def the_previous_argument_is_added():
    last = {}

    def f(x):
        y = x + last.get("x", 0.0)
        last["x"] = x
        return y

    return without_changes(f)


@pattern(KIND)
def results_are_collected():
    results = []

    def f(x):
        results.append(x * 2.0)
        return pg.sum(results[0]) + results[-1]

    return without_changes(f)


@pattern(KIND)
def a_queue_is_popped():
    queue = [2.0, 3.0, 4.0] * 4
    return without_changes(lambda x: x * queue.pop())


@pattern(KIND)
def a_queue_of_equal_numbers_is_popped():
    queue = [3.0, 2.0, 2.0, 2.0, 2.0]
    return without_changes(lambda x: x * queue.pop() if queue else x)


@pattern(KIND)
def a_deque_rotates_in_the_call():
    rates = collections.deque([2.0, 3.0])

    def f(x):
        rates.rotate()
        return x * rates[0]

    return without_changes(f)


@pattern(KIND)
def an_iterator_advances():
    numbers = iter([2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    return without_changes(lambda x: x * next(numbers), 2)


@pattern(KIND)
def an_iterator_ends():
    numbers = iter([2.0, 3.0])
    return without_changes(lambda x: x * next(numbers, 1.0), 2)


@pattern(KIND)
def a_cycle_of_numbers():
    numbers = itertools.cycle([2.0, 3.0, 4.0])
    return with_shift(lambda x: x * next(numbers))


def with_shift(f):
    """Add a number that changes between phases, because phases may repeat a cycle."""
    shift = [0.0]
    return lambda x: f(x) + shift[0], sets_item(shift, 0, 1.0)


@pattern(KIND)
def a_count_that_advances():
    numbers = itertools.count(2)
    return without_changes(lambda x: x * float(next(numbers)))


@pattern(KIND)
def a_generator_advances():
    def rates():
        rate = 1.0
        while True:
            rate += 1.0
            yield rate

    generator = rates()
    return without_changes(lambda x: x * next(generator))


@pattern(KIND)
def a_generator_that_reads_a_list():
    box = [2.0]

    def rates():
        while True:
            yield box[0]

    generator = rates()
    return lambda x: x * next(generator) * box[0], sets_item(box, 0, 3.0)


@pattern(KIND)
def numbers_are_sent_to_a_generator():
    def totals():
        total = 0.0
        while True:
            total += yield total

    generator = totals()
    next(generator)
    return without_changes(lambda x: x * generator.send(1.0))


@pattern(KIND)
def numbers_of_a_random_generator():
    source = random.Random(1)
    return without_changes(lambda x: x * source.random())


@pattern(KIND)
def numbers_of_the_random_module():
    random.seed(1)
    return without_changes(lambda x: x * random.random())


@pattern(KIND)
def numbers_of_a_numpy_generator():
    source = np.random.default_rng(1)
    return without_changes(lambda x: x * float(source.random()))


@pattern(KIND)
def random_numbers_from_plugrad():
    pg.random.seed(1)
    return without_changes(lambda x: x + pg.random.normal((3,)))


@pattern(KIND)
def an_error_in_the_first_calls():
    m = Model()

    def f(x):
        m.calls += 1
        if m.calls < 3:
            raise RuntimeError(f"call {m.calls}")
        return x * 2.0

    return without_changes(f)


@pattern(KIND)
def an_error_in_a_later_call():
    m = Model()

    def f(x):
        m.calls += 1
        if m.calls == 5:
            raise RuntimeError("the fifth call")
        return x * 2.0

    return without_changes(f)


@pattern(KIND)
def a_helper_replaces_itself():
    m = module("""
        def helper(x):
            global helper
            helper = lambda x: x * 3.0
            return x

        def f(x):
            return helper(x)
    """)
    return without_changes(m.f, 2)


@pattern(KIND)
def a_function_that_the_call_defines():
    m = Model()

    def f(x):
        if not hasattr(m, "scale"):
            m.scale = lambda x: x * m.rate
        return m.scale(x)

    return f, sets_attr(m, "rate", 3.0), lambda: delattr(m, "scale")


@pattern(KIND)
def a_value_that_equals_the_one_it_replaces():
    m = Model()

    def f(x):
        m.cfg = {"rate": [m.rate]}
        return x * m.cfg["rate"][0]

    return f, sets_attr(m, "rate", 3.0)
