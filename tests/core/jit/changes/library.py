"""Objects of Python's standard library, and code in the library that reads them."""

import argparse
import configparser
import contextlib
import contextvars
import ctypes
import datetime
import decimal
import fractions
import json
import logging
import pathlib
import queue
import random
import re
import shelve
import string
import struct
import threading
import types

from .harness import NAMES, no_change, pattern, sets_attr, sets_item

KIND = "stdlib objects"


@pattern(KIND)
def an_argparse_namespace():
    args = argparse.Namespace(rate=2.0)
    return (
        lambda x: x * args.rate,
        sets_attr(args, "rate", 3.0),
        sets_attr(args, "rate", 4.0),
    )


@pattern(KIND)
def an_option_in_an_argparse_namespace():
    args = argparse.Namespace(rate=2.0)
    return lambda x: x * 3.0 if "fast" in args else x, sets_attr(args, "fast", True)


@pattern(KIND)
def a_simple_namespace():
    cfg = types.SimpleNamespace(inner=types.SimpleNamespace(rate=2.0))
    return (
        lambda x: x * cfg.inner.rate,
        sets_attr(cfg.inner, "rate", 3.0),
        sets_attr(cfg, "inner", types.SimpleNamespace(rate=4.0)),
    )


@pattern(KIND)
def a_subclass_of_a_namespace():
    class Config(types.SimpleNamespace):
        @property
        def scaled(self):
            return self.rate * 2.0

    cfg = Config(rate=2.0)
    return lambda x: x * cfg.scaled, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def a_config_parser():
    cfg = configparser.ConfigParser()
    cfg["train"] = {"rate": "2.0"}
    change = lambda: cfg.set("train", "rate", "3.0")
    return lambda x: x * cfg.getfloat("train", "rate"), change


@pattern(KIND)
def a_context_variable():
    rate = contextvars.ContextVar("rate", default=2.0)
    return lambda x: x * rate.get(), lambda: rate.set(3.0), lambda: rate.set(4.0)


@pattern(KIND)
def a_context_variable_that_is_reset():
    rate = contextvars.ContextVar("rate")
    tokens = []
    return (
        lambda x: x * rate.get(2.0),
        lambda: tokens.append(rate.set(3.0)),
        lambda: rate.reset(tokens.pop()),
    )


@pattern(KIND)
def a_context_variable_with_a_dict():
    cfg = {"rate": 2.0}
    box = contextvars.ContextVar("cfg")
    box.set(cfg)
    return lambda x: x * box.get()["rate"], sets_item(cfg, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_thread_local():
    local = threading.local()
    local.rate = 2.0
    return (
        lambda x: x * local.rate,
        sets_attr(local, "rate", 3.0),
        lambda: delattr(local, "rate"),
    )


@pattern(KIND)
def an_attribute_that_a_thread_local_lacks():
    local = threading.local()
    return lambda x: x * getattr(local, "rate", 2.0), sets_attr(local, "rate", 3.0)


@pattern(KIND)
def a_subclass_of_a_thread_local():
    class Local(threading.local):
        rate = 2.0

    local = Local()
    return lambda x: x * local.rate, sets_attr(local, "rate", 3.0)


@pattern(KIND)
def an_event():
    event = threading.Event()
    return lambda x: x * 3.0 if event.is_set() else x, event.set, event.clear


@pattern(KIND)
def the_length_of_a_queue():
    jobs = queue.Queue()
    return lambda x: x * float(jobs.qsize()), lambda: jobs.put(1)


@pattern(KIND)
def a_ctypes_number():
    rate = ctypes.c_double(2.0)
    return lambda x: x * rate.value, sets_attr(rate, "value", 3.0)


@pattern(KIND)
def a_ctypes_array():
    rates = (ctypes.c_double * 2)(2.0, 5.0)
    return lambda x: x * rates[0], sets_item(rates, 0, 3.0)


@pattern(KIND)
def a_ctypes_structure():
    class Config(ctypes.Structure):
        _fields_ = [("rate", ctypes.c_double)]

    cfg = Config(2.0)
    return lambda x: x * cfg.rate, sets_attr(cfg, "rate", 3.0)


@pattern(KIND)
def a_date_is_replaced():
    box = {"day": datetime.date(2026, 1, 2)}
    return lambda x: x * float(box["day"].day), sets_item(
        box, "day", datetime.date(2026, 1, 3)
    )


@pattern(KIND)
def a_duration_is_replaced():
    box = {"time": datetime.timedelta(seconds=2)}
    return lambda x: x * box["time"].total_seconds(), sets_item(
        box, "time", datetime.timedelta(seconds=3)
    )


@pattern(KIND)
def a_decimal_is_replaced():
    box = {"rate": decimal.Decimal("2.0")}
    return lambda x: x * float(box["rate"]), sets_item(
        box, "rate", decimal.Decimal("3.0")
    )


@pattern(KIND)
def a_fraction_is_replaced():
    box = {"rate": fractions.Fraction(1, 2)}
    return lambda x: x * float(box["rate"]), sets_item(
        box, "rate", fractions.Fraction(1, 3)
    )


@pattern(KIND)
def a_path_is_replaced():
    box = {"path": pathlib.PurePath("/a/2.0")}
    return lambda x: x * float(box["path"].name), sets_item(
        box, "path", pathlib.PurePath("/a/3.0")
    )


@pattern(KIND)
def a_regular_expression_is_replaced():
    box = {"pattern": re.compile("a+")}
    return lambda x: x * float(len(box["pattern"].match("aab")[0])), sets_item(
        box, "pattern", re.compile("a")
    )


@pattern(KIND)
def a_json_text():
    box = {"text": '{"rate": 2.0}'}
    return lambda x: x * json.loads(box["text"])["rate"], sets_item(
        box, "text", '{"rate": 3.0}'
    )


@pattern(KIND)
def a_buffer_that_is_unpacked():
    raw = bytearray(struct.pack("d", 2.0))
    return lambda x: x * struct.unpack("d", raw)[0], sets_item(
        raw, slice(None), struct.pack("d", 3.0)
    )


@pattern(KIND)
def a_template():
    template = string.Template("$rate.0")
    cfg = {"rate": 2}
    return (
        lambda x: x * float(template.substitute(cfg)),
        sets_item(cfg, "rate", 3),
        sets_attr(template, "template", "1$rate.0"),
    )


@pattern(KIND)
def the_level_of_a_logger():
    logger = logging.Logger("pattern", level=10)
    return lambda x: x * float(logger.level), sets_attr(logger, "level", 20)


@pattern(KIND)
def whether_a_logger_is_enabled():
    logger = logging.getLogger(f"pattern_{next(NAMES)}")
    logger.setLevel(10)
    f = lambda x: x * 2.0 if logger.isEnabledFor(10) else x
    return f, lambda: logger.setLevel(20), lambda: logger.setLevel(10)


@pattern(KIND)
def a_null_context():
    context = contextlib.nullcontext(2.0)

    def f(x):
        with context as rate:
            return x * rate

    return f, sets_attr(context, "enter_result", 3.0)


@pattern(KIND)
def a_random_source_that_is_copied():
    source = random.Random(1)

    def f(x):
        copied = random.Random()
        copied.setstate(source.getstate())
        return x * copied.random()

    return f, source.random, lambda: source.seed(5)


@pattern(KIND)
def a_random_source_that_is_seeded_in_the_call():
    seed = [1]
    return lambda x: x * random.Random(seed[0]).random(), sets_item(seed, 0, 2)


@pattern(KIND)
def a_class_from_types():
    box = {"cls": types.new_class("Made", (), {}, lambda ns: ns.update(rate=2.0))}
    return lambda x: x * box["cls"].rate, sets_attr(box["cls"], "rate", 3.0)


@pattern(KIND)
def a_shelf(undo):
    raw = {}
    table = shelve.Shelf(raw)
    undo(table.close)
    table["rate"] = 2.0
    return lambda x: x * table["rate"], sets_item(table, "rate", 3.0)


@pattern(KIND)
def a_lock_is_acquired_in_the_call():
    lock = threading.Lock()
    rates = [2.0]

    def f(x):
        with lock:
            return x * rates[0]

    return f, sets_item(rates, 0, 3.0), no_change
