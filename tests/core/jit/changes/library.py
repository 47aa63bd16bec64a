"""Objects of Python's standard library, and code that reads them there."""

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

from .harness import NAMES, gives, nothing, pattern, puts

KIND = "stdlib objects"


@pattern(KIND)
def an_argparse_namespace():
    args = argparse.Namespace(rate=2.0)
    return lambda x: x * args.rate, gives(args, "rate", 3.0), gives(args, "rate", 4.0)


@pattern(KIND)
def an_option_in_an_argparse_namespace():
    args = argparse.Namespace(rate=2.0)
    return lambda x: x * 3.0 if "fast" in args else x, gives(args, "fast", True)


@pattern(KIND)
def a_simple_namespace():
    cfg = types.SimpleNamespace(inner=types.SimpleNamespace(rate=2.0))
    return (
        lambda x: x * cfg.inner.rate,
        gives(cfg.inner, "rate", 3.0),
        gives(cfg, "inner", types.SimpleNamespace(rate=4.0)),
    )


@pattern(KIND)
def a_subclass_of_a_namespace():
    class Config(types.SimpleNamespace):
        @property
        def scaled(self):
            return self.rate * 2.0

    cfg = Config(rate=2.0)
    return lambda x: x * cfg.scaled, gives(cfg, "rate", 3.0)


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
    return lambda x: x * box.get()["rate"], puts(cfg, "rate", 3.0)


@pattern(KIND)
def an_attribute_of_a_thread_local():
    local = threading.local()
    local.rate = 2.0
    return (
        lambda x: x * local.rate,
        gives(local, "rate", 3.0),
        lambda: delattr(local, "rate"),
    )


@pattern(KIND)
def an_attribute_that_a_thread_local_lacks():
    local = threading.local()
    return lambda x: x * getattr(local, "rate", 2.0), gives(local, "rate", 3.0)


@pattern(KIND)
def a_subclass_of_a_thread_local():
    class Local(threading.local):
        rate = 2.0

    local = Local()
    return lambda x: x * local.rate, gives(local, "rate", 3.0)


@pattern(KIND)
def an_event():
    event = threading.Event()
    return lambda x: x * 3.0 if event.is_set() else x, event.set, event.clear


@pattern(KIND)
def the_length_of_a_queue():
    jobs = queue.Queue()
    return lambda x: x * float(jobs.qsize()), lambda: jobs.put(1)


@pattern(KIND)
def a_number_of_ctypes():
    rate = ctypes.c_double(2.0)
    return lambda x: x * rate.value, gives(rate, "value", 3.0)


@pattern(KIND)
def an_array_of_ctypes():
    rates = (ctypes.c_double * 2)(2.0, 5.0)
    return lambda x: x * rates[0], puts(rates, 0, 3.0)


@pattern(KIND)
def a_structure_of_ctypes():
    class Config(ctypes.Structure):
        _fields_ = [("rate", ctypes.c_double)]

    cfg = Config(2.0)
    return lambda x: x * cfg.rate, gives(cfg, "rate", 3.0)


@pattern(KIND)
def a_date_is_replaced():
    box = {"day": datetime.date(2026, 1, 2)}
    return lambda x: x * float(box["day"].day), puts(
        box, "day", datetime.date(2026, 1, 3)
    )


@pattern(KIND)
def a_duration_is_replaced():
    box = {"time": datetime.timedelta(seconds=2)}
    return lambda x: x * box["time"].total_seconds(), puts(
        box, "time", datetime.timedelta(seconds=3)
    )


@pattern(KIND)
def a_decimal_is_replaced():
    box = {"rate": decimal.Decimal("2.0")}
    return lambda x: x * float(box["rate"]), puts(box, "rate", decimal.Decimal("3.0"))


@pattern(KIND)
def a_fraction_is_replaced():
    box = {"rate": fractions.Fraction(1, 2)}
    return lambda x: x * float(box["rate"]), puts(box, "rate", fractions.Fraction(1, 3))


@pattern(KIND)
def a_path_is_replaced():
    box = {"path": pathlib.PurePath("/a/2.0")}
    return lambda x: x * float(box["path"].name), puts(
        box, "path", pathlib.PurePath("/a/3.0")
    )


@pattern(KIND)
def a_pattern_is_replaced():
    box = {"pattern": re.compile("a+")}
    return lambda x: x * float(len(box["pattern"].match("aab")[0])), puts(
        box, "pattern", re.compile("a")
    )


@pattern(KIND)
def a_text_in_json():
    box = {"text": '{"rate": 2.0}'}
    return lambda x: x * json.loads(box["text"])["rate"], puts(
        box, "text", '{"rate": 3.0}'
    )


@pattern(KIND)
def a_buffer_that_is_unpacked():
    raw = bytearray(struct.pack("d", 2.0))
    return lambda x: x * struct.unpack("d", raw)[0], puts(
        raw, slice(None), struct.pack("d", 3.0)
    )


@pattern(KIND)
def a_template():
    template = string.Template("$rate.0")
    cfg = {"rate": 2}
    return (
        lambda x: x * float(template.substitute(cfg)),
        puts(cfg, "rate", 3),
        gives(template, "template", "1$rate.0"),
    )


@pattern(KIND)
def the_level_of_a_logger():
    logger = logging.Logger("pattern", level=10)
    return lambda x: x * float(logger.level), gives(logger, "level", 20)


@pattern(KIND)
def a_question_to_a_logger():
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

    return f, gives(context, "enter_result", 3.0)


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
    return lambda x: x * random.Random(seed[0]).random(), puts(seed, 0, 2)


@pattern(KIND)
def a_class_from_types():
    box = {"cls": types.new_class("Made", (), {}, lambda ns: ns.update(rate=2.0))}
    return lambda x: x * box["cls"].rate, gives(box["cls"], "rate", 3.0)


@pattern(KIND)
def a_mapping_of_the_library_by_hand(undo):
    raw = {}
    table = shelve.Shelf(raw)
    undo(table.close)
    table["rate"] = 2.0
    return lambda x: x * table["rate"], puts(table, "rate", 3.0)


@pattern(KIND)
def a_lock_is_only_held():
    lock = threading.Lock()
    rates = [2.0]

    def f(x):
        with lock:
            return x * rates[0]

    return f, puts(rates, 0, 3.0), nothing
