"""Dataclasses, named tuples and enums."""

import dataclasses
import enum
import types
import typing
from collections import namedtuple

from .harness import pattern, sets_attr, sets_item

KIND = "dataclasses, tuples, enums"


@pattern(KIND)
def a_field_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        rate: float = 2.0

    cfg = Config()
    return lambda x: x * cfg.rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def a_field_of_a_dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Config:
        rate: float = 2.0

    cfg = Config()
    return lambda x: x * cfg.rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def a_field_of_a_frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Config:
        rate: float = 2.0

    cfg = Config()
    change = lambda: object.__setattr__(cfg, "rate", 3.0)
    return lambda x: x * cfg.rate, change


@pattern(KIND)
def a_default_of_a_dataclass():
    @dataclasses.dataclass
    class Config:
        rates: list = dataclasses.field(default_factory=lambda: [rate[0]])

    rate = [2.0]
    return lambda x: x * Config().rates[0], sets_item(rate, 0, 3.0)


@pattern(KIND)
def a_dataclass_as_a_dict():
    @dataclasses.dataclass
    class Config:
        rate: float = 2.0

    cfg = Config()
    return lambda x: x * dataclasses.asdict(cfg)["rate"], sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def a_dataclass_that_is_replaced():
    @dataclasses.dataclass(frozen=True)
    class Config:
        rate: float = 2.0
        shift: float = 1.0

    box = [Config()]
    changed = dataclasses.replace(box[0], shift=5.0)
    return lambda x: x * box[0].rate + box[0].shift, sets_item(box, 0, changed)


@pattern(KIND)
def two_dataclasses_are_compared():
    @dataclasses.dataclass
    class Config:
        rate: float = 2.0

    a = Config()
    b = Config()
    return lambda x: x * 2.0 if a == b else x, sets_attr(b, "rate", 3.0)


@pattern(KIND)
def a_named_tuple_is_replaced():
    config = namedtuple("Config", "rate shift")
    box = {"cfg": config(2.0, 1.0)}
    return lambda x: x * box["cfg"].rate, sets_item(box, "cfg", config(3.0, 1.0))


@pattern(KIND)
def a_list_in_a_named_tuple():
    class Config(typing.NamedTuple):
        rates: list

    cfg = Config([2.0])
    return lambda x: x * cfg.rates[0], sets_item(cfg.rates, 0, 3.0)


@pattern(KIND)
def a_method_of_a_named_tuple():
    class Config(typing.NamedTuple):
        rate: float

        def scale(self, x):
            return x * self.rate

    cfg = Config(2.0)
    return lambda x: cfg.scale(x), sets_attr(Config, "scale", lambda self, x: x * 3.0)


@pattern(KIND)
def a_member_of_an_enum_is_chosen():
    class Mode(enum.Enum):
        SLOW = 2.0
        FAST = 3.0

    m = types.SimpleNamespace(mode=Mode.SLOW)
    return lambda x: x * m.mode.value, sets_attr(m, "mode", Mode.FAST)


@pattern(KIND)
def the_value_of_an_enum_member():
    class Mode(enum.Enum):
        SLOW = 2.0

    return lambda x: x * Mode.SLOW.value, sets_attr(Mode.SLOW, "_value_", 3.0)


@pattern(KIND)
def an_attribute_of_an_enum_member():
    class Mode(enum.Enum):
        SLOW = 1

    Mode.SLOW.rate = 2.0
    return lambda x: x * Mode.SLOW.rate, sets_attr(Mode.SLOW, "rate", 3.0)


@pattern(KIND)
def a_flag_in_a_combination():
    class Mode(enum.Flag):
        A = 1
        B = 2

    m = types.SimpleNamespace(mode=Mode.A)
    return lambda x: x * 3.0 if Mode.B in m.mode else x, sets_attr(
        m, "mode", Mode.A | Mode.B
    )
