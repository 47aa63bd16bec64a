"""Match statements, and strings that name the state that they read."""

from .harness import module, pattern, sets_attr, sets_item

KIND = "match and strings"


class Holder:
    """An object with a rate."""

    def __init__(self, rate=2.0):
        self.rate = rate


def holder_and_change():
    m = Holder()
    return m, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def code_that_is_evaluated():
    m = module("""
        rate = 2.0

        def f(x):
            return x * eval("rate * 2.0")
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def code_that_is_executed():
    m = module("""
        rate = 2.0

        def f(x):
            names = {"x": x, "rate": rate}
            exec("y = x * rate", names)
            return names["y"]
    """)
    return m.f, sets_attr(m, "rate", 3.0)


@pattern(KIND)
def a_string_that_is_evaluated():
    box = {"code": "2.0 + 1.0"}
    return lambda x: x * eval(box["code"]), sets_item(box, "code", "5.0")


@pattern(KIND)
def a_compiled_expression():
    box = {"code": compile("2.0", "rate", "eval")}
    return lambda x: x * eval(box["code"]), sets_item(
        box, "code", compile("3.0", "rate", "eval")
    )


@pattern(KIND)
def a_match_of_a_class():
    m, change = holder_and_change()

    def f(x):
        match m:
            case Holder(rate=2.0):
                return x * 2.0
            case Holder(rate=rate):
                return x + rate

    return f, change


@pattern(KIND)
def a_match_of_a_mapping():
    cfg = {"kind": "scale", "by": 2.0}

    def f(x):
        match cfg:
            case {"kind": "scale", "by": by}:
                return x * by
            case {"kind": "shift", **rest}:
                return x + rest["by"]

    return f, sets_item(cfg, "by", 3.0), sets_item(cfg, "kind", "shift")


@pattern(KIND)
def a_match_of_a_sequence():
    steps = ["scale", 2.0]

    def f(x):
        match steps:
            case ["scale", by]:
                return x * by
            case ["scale", *_, by]:
                return x - by

    return f, sets_item(steps, 1, 3.0), lambda: steps.append(4.0)


@pattern(KIND)
def a_match_by_positions():
    class Config:
        __match_args__ = ("rate",)

        def __init__(self):
            self.rate, self.shift = 2.0, 5.0

    cfg = Config()

    def f(x):
        match cfg:
            case Config(value):
                return x * value

    return (
        f,
        sets_attr(Config, "__match_args__", ("shift",)),
        sets_attr(cfg, "shift", 7.0),
    )


@pattern(KIND)
def a_match_of_a_dotted_name():
    m = module("""
        class Names:
            FAST = "fast"

        mode = "fast"

        def f(x):
            match mode:
                case Names.FAST:
                    return x * 2.0
                case _:
                    return x
    """)
    return m.f, sets_attr(m.Names, "FAST", "other"), sets_attr(m, "mode", "other")


@pattern(KIND)
def a_formatted_string():
    m, change = holder_and_change()
    return lambda x: x * float(f"{m.rate:.2f}"), change


@pattern(KIND)
def a_formatted_string_with_a_width():
    width = {"digits": 2}
    return lambda x: x * float(f"{1.23456:.{width['digits']}f}"), sets_item(
        width, "digits", 3
    )


@pattern(KIND)
def a_format_string_that_names_an_attribute():
    m, change = holder_and_change()
    text = "{0.rate}"
    return lambda x: x * float(text.format(m)), change


@pattern(KIND)
def a_format_string_that_names_an_item():
    cfg = {"rate": [2.0]}
    text = "{c[rate][0]}"
    return lambda x: x * float(text.format(c=cfg)), sets_item(cfg["rate"], 0, 3.0)


@pattern(KIND)
def a_format_string_that_is_captured():
    m = Holder()
    m.shift = 5.0
    box = {"format": "{0.rate}"}
    return (
        lambda x: x * float(box["format"].format(m)),
        sets_attr(m, "rate", 3.0),
        sets_item(box, "format", "{0.shift}"),
    )


@pattern(KIND)
def a_format_map():
    cfg = {"rate": 2.0}
    return lambda x: x * float("{rate}".format_map(cfg)), sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def a_percent_format():
    cfg = {"rate": 2.0}
    text = "%(rate)f"
    return lambda x: x * float(text % cfg), sets_item(cfg, "rate", 3.0)
