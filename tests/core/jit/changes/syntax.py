"""Syntax that reads names in ways that a simple search of the code misses."""

import contextlib

from .harness import module, pattern, sets_attr, sets_item

KIND = "syntax"


class Holder:
    """An object with a rate."""

    def __init__(self, rate=2.0):
        self.rate = rate


def holder_and_change():
    m = Holder()
    return m, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_walrus():
    rates = [2.0]
    f = lambda x: x * rate if (rate := rates[0]) > 1.0 else x
    return f, sets_item(rates, 0, 3.0), sets_item(rates, 0, 0.5)


@pattern(KIND)
def a_walrus_in_a_comprehension():
    rates = [2.0, 5.0]
    limit = [1.0]
    f = lambda x: x * sum(y for r in rates if (y := r * limit[0]) > 1.0)
    return f, sets_item(limit, 0, 0.3)


@pattern(KIND)
def a_global_in_a_comprehension():
    m = module("""
        rate = 2.0

        def f(x):
            return x * sum([rate * n for n in (1, 2)])
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_in_a_nested_comprehension():
    m = module("""
        rate = 2.0
        table = [[1.0], [2.0]]

        def f(x):
            return x * sum(sum({r * rate for r in row}) for row in table)
    """)
    return m.f, sets_attr(m, "rate", 3.0), sets_item(m.table, 0, [4.0])


@pattern(KIND)
def a_global_in_a_nested_function():
    m = module("""
        rate = 2.0

        def f(x):
            def inner():
                def innermost():
                    return rate
                return innermost()
            return x * inner()
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_in_a_class_body():
    m = module("""
        rate = 2.0

        def f(x):
            class Config:
                scale = rate
            return x * Config.scale
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_in_a_default_of_an_inner_function():
    m = module("""
        rate = 2.0

        def f(x):
            def inner(rate=rate):
                return rate
            return x * inner()
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_in_a_decorator():
    m = module("""
        rate = 2.0

        def scaled(by):
            return lambda g: lambda x: g(x) * by

        def f(x):
            @scaled(rate)
            def inner(x):
                return x + 1.0
            return inner(x)
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_that_the_function_assigns():
    m = module("""
        rate = 2.0
        last = None

        def f(x):
            global last
            last = rate
            return x * last
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_global_that_the_function_deletes():
    m = module("""
        rate = 2.0

        def f(x):
            global temporary
            temporary = rate
            y = x * temporary
            del temporary
            return y
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def keyword_arguments_from_a_dict():
    cfg = {"rate": 2.0, "shift": 1.0}
    scale = lambda x, rate, shift=0.0: x * rate + shift
    return (
        lambda x: scale(x, **cfg),
        sets_item(cfg, "rate", 3.0),
        lambda: cfg.pop("shift"),
    )


@pattern(KIND)
def positional_arguments_from_a_list():
    cfg = [2.0, 1.0]
    scale = lambda x, rate, shift=0.0: x * rate + shift
    return lambda x: scale(x, *cfg), sets_item(cfg, 0, 3.0), cfg.pop


@pattern(KIND)
def a_dict_that_is_merged():
    base = {"rate": 2.0}
    over = {}
    return (
        lambda x: x * {**base, **over}["rate"],
        sets_item(base, "rate", 3.0),
        sets_item(over, "rate", 4.0),
    )


@pattern(KIND)
def a_starred_assignment():
    rates = [2.0, 3.0, 4.0]

    def f(x):
        first, *_, last = rates
        return x * first + last

    return f, sets_item(rates, 0, 5.0), rates.pop


@pattern(KIND)
def a_slice_that_is_captured():
    box = {"part": slice(0, 2)}
    return lambda x: x[box["part"]], sets_item(box, "part", slice(1, 3))


@pattern(KIND)
def a_range_that_is_captured():
    box = {"steps": range(2)}

    def f(x):
        for step in box["steps"]:
            x = x * 2.0 + step
        return x

    return f, sets_item(box, "steps", range(3))


@pattern(KIND)
def a_loop_until_a_limit():
    box = {"limit": 4.0}

    def f(x):
        scale = 1.0
        while scale < box["limit"]:
            scale *= 2.0
            if scale > 100.0:
                break
        else:
            scale += 1.0
        return x * scale

    return f, sets_item(box, "limit", 9.0), sets_item(box, "limit", 1000.0)


@pattern(KIND)
def a_conditional_expression_with_two_reads():
    cfg = {"fast": False, "a": 2.0, "b": 3.0}
    return (
        lambda x: x * (cfg["a"] if cfg["fast"] else cfg["b"]),
        sets_item(cfg, "fast", True),
        sets_item(cfg, "a", 5.0),
    )


@pattern(KIND)
def a_branch_that_was_not_taken_before():
    m = Holder()
    m.mode, m.shift = "scale", 1.0

    def f(x):
        if m.mode == "scale":
            return x * m.rate
        return x + m.shift

    return (
        f,
        sets_attr(m, "mode", "shift"),
        sets_attr(m, "shift", 5.0),
        sets_attr(m, "rate", 9.0),
    )


@pattern(KIND)
def a_chain_of_comparisons():
    m, change = holder_and_change()
    return lambda x: x * 2.0 if 1.0 < m.rate < 2.5 else x, change


@pattern(KIND)
def a_short_circuit():
    cfg = {"a": None, "b": 2.0}
    return (
        lambda x: x * (cfg["a"] or cfg["b"]),
        sets_item(cfg, "b", 3.0),
        sets_item(cfg, "a", 4.0),
    )


@pattern(KIND)
def a_generator_expression():
    rates = [2.0, 3.0]
    return lambda x: x * sum(r for r in rates if r > 1), lambda: rates.append(4.0)


@pattern(KIND)
def a_generator_made_in_the_call():
    m, change = holder_and_change()

    def rates():
        yield 1.0
        yield from (m.rate for _ in range(2))

    return lambda x: x * sum(rates()), change


@pattern(KIND)
def a_coroutine_that_the_call_runs():
    m, change = holder_and_change()

    async def rate():
        return m.rate

    def f(x):
        try:
            rate().send(None)
        except StopIteration as stop:
            return x * stop.value

    return f, change


@pattern(KIND)
def a_stack_of_contexts():
    rates = [2.0]

    def f(x):
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: None)
            rate = stack.enter_context(contextlib.nullcontext(rates[0]))
            return x * rate

    return f, sets_item(rates, 0, 3.0)


@pattern(KIND)
def a_recursion():
    cfg = {"depth": 2, "rate": 2.0}

    def scaled(x, depth):
        return scaled(x * cfg["rate"], depth - 1) if depth else x

    return (
        lambda x: scaled(x, cfg["depth"]),
        sets_item(cfg, "depth", 3),
        sets_item(cfg, "rate", 0.5),
    )


@pattern(KIND)
def the_locals_of_the_function():
    rates = [2.0]

    def f(x):
        rate = rates[0]
        return x * locals()["rate"] + rate

    return f, sets_item(rates, 0, 3.0)


@pattern(KIND)
def a_setattr_with_a_computed_name():
    m = Holder()
    rates = {"rate": 2.0}

    def f(x):
        for name, value in rates.items():
            setattr(m, name, value)
        return x * m.rate

    return f, sets_item(rates, "rate", 3.0)


@pattern(KIND)
def a_closure_in_a_loop():
    rates = [2.0, 3.0]

    def f(x):
        for g in [lambda x, r=r: x * r + rates[0] for r in rates]:
            x = g(x)
        return x

    return f, sets_item(rates, 0, 4.0)


@pattern(KIND)
def a_closure_with_three_levels():
    def outer():
        rate = 2.0

        def middle():
            def inner(x):
                return x * rate

            return inner

        def change():
            nonlocal rate
            rate = 3.0

        return middle(), change

    return outer()


@pattern(KIND)
def a_cell_whose_content_is_assigned():
    rate = 2.0

    def f(x):
        return x * rate

    return f, sets_attr(f.__closure__[0], "cell_contents", 3.0)


@pattern(KIND)
def a_cell_that_was_empty():
    def f(x):
        try:
            return x * rate
        except NameError:
            return x

    def change():
        nonlocal rate
        rate = 3.0

    if change is None:
        rate = 2.0
    return f, change
