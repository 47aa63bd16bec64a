"""State that ``jit`` freezes: it is not compared, but ``check`` finds changes."""

import abc
import builtins
import decimal
import functools
import io
import os
import pathlib
import random
import sys
import tempfile
import threading
import warnings
import weakref

import plugrad as pg

from .harness import no_change, patched, pattern, sets_attr, sets_item

KIND = "frozen"
# name of the pattern: why the state is not compared
FROZEN = {
    "a weak proxy": "its class is that of the target, which names no attribute",
    "an abstract class gets a virtual subclass": "the table is in C code",
    "the subclasses of a class": "the list is in C code",
    "a builtin is patched in its module": "the module builtins is Python's own",
    "a function of plugrad is patched": "plugrad's own functions are not compared",
    "a variable of the environment": "it is outside of Python's objects",
    "the contents of a file": "it is outside of Python's objects",
    "the existence of a file": "it is outside of Python's objects",
    "the text of a stream": "the buffer is in C code",
    "the state of a lock": "its state is in C code",
    "the precision of decimals": "the context is in C code",
    "the limit of recursion": "it is state of the interpreter",
    "the name of the thread": "the table of threads is Python's own",
    "the filters of warnings": "the list is Python's own",
    "a container is replaced by an equal one": "containers are compared by items",
    "an iterator whose first numbers are equal": "what it will yield is not compared",
    "a generator whose first numbers are equal": "what it will yield is not compared",
}


@pattern(KIND)
def a_weak_proxy():
    class Model:
        rate = 2.0

    box = [Model()]
    proxy = weakref.proxy(box[0])
    return lambda x: x * proxy.rate, sets_attr(box[0], "rate", 3.0)


@pattern(KIND)
def an_abstract_class_gets_a_virtual_subclass():
    class Fast(abc.ABC):  # noqa: B024
        pass

    class Model:
        pass

    m = Model()
    return lambda x: x * 3.0 if isinstance(m, Fast) else x, lambda: Fast.register(Model)


@pattern(KIND)
def the_subclasses_of_a_class():
    class Base:
        pass

    subclasses = []
    return lambda x: x * float(len(Base.__subclasses__())), lambda: subclasses.append(
        type("Made", (Base,), {})
    )


@pattern(KIND)
def a_builtin_is_patched_in_its_module(undo):
    return lambda x: x * float(ascii(2)), patched(
        undo, builtins, "ascii", lambda value: "3"
    )


@pattern(KIND)
def a_function_of_plugrad_is_patched(undo):
    return lambda x: pg.softsign(x) * 2.0, patched(
        undo, pg, "softsign", lambda x: x * 7.0
    )


@pattern(KIND)
def a_variable_of_the_environment(undo):
    undo(os.environ.pop, "PATTERN_RATE", None)
    f = lambda x: x * float(os.environ.get("PATTERN_RATE", "2.0"))
    return f, sets_item(os.environ, "PATTERN_RATE", "3.0")


def temporary_file(undo, text):
    folder = tempfile.TemporaryDirectory()
    undo(folder.cleanup)
    path = pathlib.Path(folder.name) / "rate"
    path.write_text(text)
    return path


@pattern(KIND)
def the_contents_of_a_file(undo):
    path = temporary_file(undo, "2.0")
    return lambda x: x * float(path.read_text()), lambda: path.write_text("3.0")


@pattern(KIND)
def the_existence_of_a_file(undo):
    path = temporary_file(undo, "2.0")
    return lambda x: x * 2.0 if path.exists() else x, path.unlink


@pattern(KIND)
def the_text_of_a_stream():
    stream = io.StringIO("2.0")
    return lambda x: x * float(stream.getvalue()), lambda: stream.write("3.0")


@pattern(KIND)
def the_state_of_a_lock():
    lock = threading.Lock()
    return lambda x: x * 2.0 if lock.locked() else x, lock.acquire


@pattern(KIND)
def the_precision_of_decimals(undo):
    context = decimal.getcontext()
    undo(setattr, context, "prec", context.prec)
    third = lambda: float(decimal.Decimal(1) / decimal.Decimal(3))
    return lambda x: x * third(), lambda: setattr(decimal.getcontext(), "prec", 2)


@pattern(KIND)
def the_limit_of_recursion(undo):
    limit = sys.getrecursionlimit()
    undo(sys.setrecursionlimit, limit)
    f = lambda x: x * float(sys.getrecursionlimit())
    return f, lambda: sys.setrecursionlimit(limit + 100)


@pattern(KIND)
def the_name_of_the_thread(undo):
    thread = threading.current_thread()
    undo(setattr, thread, "name", thread.name)
    f = lambda x: x * float(len(threading.current_thread().name))
    return f, lambda: setattr(thread, "name", thread.name + "!")


@pattern(KIND)
def the_filters_of_warnings(undo):
    scope = warnings.catch_warnings()
    scope.__enter__()
    undo(scope.__exit__, None, None, None)

    def f(x):
        try:
            warnings.warn("pattern", UserWarning, stacklevel=1)
        except UserWarning:
            return x
        return x * 2.0

    warnings.simplefilter("ignore")
    return f, lambda: warnings.simplefilter("error")


@pattern(KIND)
def a_container_is_replaced_by_an_equal_one():
    default = [1.0]
    box = {"rates": default}
    return lambda x: x * 2.0 if box["rates"] is default else x, sets_item(
        box, "rates", [1.0]
    )


@pattern(KIND)
def an_iterator_whose_first_numbers_are_equal():
    numbers = iter([2.0] * 4 + [3.0] * 20)
    return lambda x: x * next(numbers), no_change, no_change


@pattern(KIND)
def a_generator_whose_first_numbers_are_equal():
    def rates():
        for n in range(20):
            yield 2.0 if n < 4 else 3.0

    generator = rates()
    return lambda x: x * next(generator), no_change, no_change


@pattern(KIND)
def random_numbers_that_take_the_same_branch_at_first():
    source = random.Random(2)  # its first numbers: 0.96, 0.95, 0.06
    f = lambda x: x * 2.0 if source.random() < 0.5 else x
    return f, no_change, no_change


@pattern(KIND)
def a_callable_inside_of_an_iterator():
    rates = [2.0]
    numbers = iter(functools.partial(rates.__getitem__, 0), None)
    return lambda x: x * next(numbers), sets_item(rates, 0, 3.0)
