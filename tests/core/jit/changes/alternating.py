"""State that alternates: it returns to what it was."""

import plugrad as pg

from .harness import gives, pattern, puts

KIND = "state that alternates"


class Model:
    """An object with state."""

    def __init__(self):
        self.calls = 0
        self.rate = 2.0
        self.w = None


def alternating(name, assign):
    def make():
        m = Model()
        other = assign(m, 3.0)
        first = assign(m, 2.0)
        first()
        return lambda x: x * m.rate, other, first, other, first

    make.__name__ = name
    return make


pattern(KIND)(
    alternating("a number alternates", lambda m, rate: gives(m, "rate", rate))
)
pattern(KIND)(
    alternating(
        "a tensor alternates",
        lambda m, rate: lambda: gives(m, "rate", pg.ones(3) * rate)(),
    )
)
pattern(KIND)(
    alternating(
        "a number and a counter alternate",
        lambda m, rate: lambda: (gives(m, "rate", rate)(), gives(m, "calls", 0)()),
    )
)


@pattern(KIND)
def two_tensors_alternate():
    tensors = [pg.asarray([1.0, 2.0, 3.0]), pg.asarray([4.0, 5.0, 6.0])]
    m = Model()
    m.w = tensors[0]
    one = gives(m, "w", tensors[0])
    other = gives(m, "w", tensors[1])
    return lambda x: x * m.w, other, one, other, one


@pattern(KIND)
def a_mode_alternates_between_methods():
    m = Model()
    m.step = lambda x: x * 2.0
    one, other = (gives(m, "step", g) for g in (lambda x: x, lambda x: x - 1.0))
    return lambda x: m.step(x), one, other, one, other


@pattern(KIND)
def a_key_comes_and_goes():
    cfg = {}
    return lambda x: x * cfg.get("rate", 2.0), *[
        puts(cfg, "rate", 3.0),
        cfg.clear,
        puts(cfg, "rate", 3.0),
        cfg.clear,
    ]


@pattern(KIND)
def an_attribute_comes_and_goes():
    m = Model()
    there = gives(m, "scale", 3.0)
    gone = lambda: delattr(m, "scale")
    return lambda x: x * getattr(m, "scale", 2.0), there, gone, there, gone


@pattern(KIND)
def two_states_alternate_independently():
    cfg = {"a": 2.0, "b": 1.0}
    return lambda x: x * cfg["a"] + cfg["b"], *[
        puts(cfg, "a", 3.0),
        puts(cfg, "b", 4.0),
        puts(cfg, "a", 2.0),
        puts(cfg, "b", 1.0),
    ]
