"""State that alternates between two values."""

import plugrad as pg

from .harness import pattern, sets_attr, sets_item

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
    alternating("a number alternates", lambda m, rate: sets_attr(m, "rate", rate))
)
pattern(KIND)(
    alternating(
        "a tensor alternates",
        lambda m, rate: lambda: sets_attr(m, "rate", pg.ones(3) * rate)(),
    )
)
pattern(KIND)(
    alternating(
        "a number and a counter alternate",
        lambda m, rate: (
            lambda: (sets_attr(m, "rate", rate)(), sets_attr(m, "calls", 0)())
        ),
    )
)


@pattern(KIND)
def two_tensors_alternate():
    tensors = [pg.asarray([1.0, 2.0, 3.0]), pg.asarray([4.0, 5.0, 6.0])]
    m = Model()
    m.w = tensors[0]
    one = sets_attr(m, "w", tensors[0])
    other = sets_attr(m, "w", tensors[1])
    return lambda x: x * m.w, other, one, other, one


@pattern(KIND)
def a_mode_alternates_between_methods():
    m = Model()
    m.step = lambda x: x * 2.0
    one, other = (sets_attr(m, "step", g) for g in (lambda x: x, lambda x: x - 1.0))
    return lambda x: m.step(x), one, other, one, other


@pattern(KIND)
def a_key_comes_and_goes():
    cfg = {}
    return lambda x: x * cfg.get("rate", 2.0), *[
        sets_item(cfg, "rate", 3.0),
        cfg.clear,
        sets_item(cfg, "rate", 3.0),
        cfg.clear,
    ]


@pattern(KIND)
def an_attribute_comes_and_goes():
    m = Model()
    add = sets_attr(m, "scale", 3.0)
    delete = lambda: delattr(m, "scale")
    return lambda x: x * getattr(m, "scale", 2.0), add, delete, add, delete


@pattern(KIND)
def two_states_alternate_independently():
    cfg = {"a": 2.0, "b": 1.0}
    return lambda x: x * cfg["a"] + cfg["b"], *[
        sets_item(cfg, "a", 3.0),
        sets_item(cfg, "b", 4.0),
        sets_item(cfg, "a", 2.0),
        sets_item(cfg, "b", 1.0),
    ]
