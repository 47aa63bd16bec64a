"""The names that code reads, and the code that runs in a block."""

import argparse
import dis
import functools
import gc
import sys
import threading
import types
import weakref
from pathlib import Path

import plugrad as pg
import pytest
from plugrad._src.engine import accelerated
from plugrad._src.engine.code import (
    RunningCode,
    all_names,
    code_inside,
    code_of,
    names_in,
)

GLOBAL_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
ATTRIBUTE_READS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM")


MODULES = [argparse, dis, functools, types, weakref, pg.plugin]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_names_agree_with_dis(module):
    path = Path(module.__file__)
    for code in code_inside(compile(path.read_text(), str(path), "exec")):
        steps = [*dis.get_instructions(code)]
        names = names_in(code)
        expected = {
            s.argval for s in steps if s.opname in (*GLOBAL_READS, *ATTRIBUTE_READS)
        }
        found = all_names(names)
        assert expected <= found if names.has_dynamic_lookups else expected == found
        assert {s.argval for s in steps if s.opname == "IMPORT_NAME"} <= names.modules


CHAINS = {
    "a.b.c + a": ({"a"}, set(), {("a", ("b", "c"))}),
    "a.b(x.c)": ({"a", "x"}, set(), {("a", ("b",)), ("x", ("c",))}),
    "a[0].b": ({"a"}, {"b"}, set()),
    "a().b.c": ({"a"}, {"b", "c"}, set()),
    "(lambda: a)().b": (set(), {"b"}, set()),
}


@pytest.mark.parametrize("text", CHAINS)
def test_attribute_chains_of_globals_are_listed_separately(text):
    names = names_in(compile(text, "text", "eval"))
    assert (names.globals, names.attributes, names.chains) == CHAINS[text]


@pytest.mark.parametrize(
    "text", ["getattr(a, b)", "vars(a)", "a.__dict__", "'{0.b}'.format(a)"]
)
def test_code_that_may_read_any_attribute(text):
    assert names_in(compile(text, "text", "eval")).any_attribute
    assert not names_in(compile("a.b", "text", "eval")).any_attribute


def test_more_names_than_fit_into_a_byte():
    text = "\n".join(f"name_{n}.attribute_{n}" for n in range(400))
    names = names_in(compile(text, "text", "exec"))
    assert len(names.globals) == len(names.chains) == 400


# --- what runs -------------------------------------------------------------------


class WithFinalizer:
    """An object whose finalizer calls a function."""

    def __del__(self):
        called_by_a_finalizer()


def called_by_a_finalizer():
    pass


def ran(f):
    """Return the names of the functions that a call runs."""
    with RunningCode() as running:
        f()
    assert sys.gettrace() is sys.getprofile() is None
    assert not running.reason
    return [code.co_name for code, _ in running.ran]


def test_functions_and_methods_of_the_caller_are_listed():
    class Model:
        @property
        def rate(self):
            return 2.0

        def __getitem__(self, at):
            return self.rate

    model = Model()
    assert ran(lambda: model[0]) == ["<lambda>", "__getitem__", "rate"]


def test_kernels_finalizers_and_plugrad_are_left_out():
    def kernel(x):
        return helper(x)

    def helper(x):
        return x + 1

    pg.register_kernel("Tanh", "cpu", kernel)
    try:
        with pg.use_backend("cpu"), pg.profile():

            def call():
                WithFinalizer()
                return pg.tanh(pg.ones(3))

            assert ran(call) == ["call"]
    finally:
        pg.unregister_kernel("Tanh", "cpu")


@pytest.mark.thread_unsafe(reason="it counts what the garbage collector calls")
def test_callbacks_of_the_garbage_collector_are_left_out():
    called = []

    def callback(phase, info):
        called.append(phase)

    gc.callbacks.append(callback)
    try:
        assert ran(gc.collect) == []
    finally:
        gc.callbacks.remove(callback)
    assert called == ["start", "stop"]


def test_an_error_ends_the_block():
    with pytest.raises(ZeroDivisionError):
        ran(lambda: 1 / 0)
    assert sys.gettrace() is sys.getprofile() is None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="threading has no such function")
@pytest.mark.parametrize("kind", ["profile", "trace"])
def test_code_that_replaces_the_hook_of_all_threads_for_a_while(kind):
    set_hook = getattr(threading, f"set{kind}_all_threads")
    get_hook = getattr(sys, f"get{kind}")

    def call():
        hook = get_hook()
        set_hook(None)
        unseen()
        set_hook(hook)

    def unseen():
        pass

    try:
        with RunningCode() as running:
            call()
    finally:
        getattr(threading, f"set{kind}")(None)
    assert sys.gettrace() is sys.getprofile() is None
    assert running.reason == "the call starts or stops a debugger or a profiler"


def test_a_finalizer_that_raises(monkeypatch):
    class Raising:
        def __del__(self):
            raise ValueError

    def call():
        Raising()
        return after()

    def after():
        return 1

    errors = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: errors.append(error))
    found = ran(call)
    assert [type(error.exc_value) for error in errors] == [ValueError]
    errors.clear()
    assert found == ["call", "<lambda>", "after"]


def test_the_watcher_in_c_checks_its_arguments():
    if (watcher := accelerated.watcher()) is None:
        pytest.skip("the accelerators are off")
    with pytest.raises(TypeError, match="is no Watcher"):
        watcher.install(3)
    with pytest.raises(TypeError):
        watcher()
    raising = watcher(lambda frame: 1 / 0)
    watcher.install(raising)
    try:  # the hook is called for the next function
        error = called_by_a_finalizer()
    except ZeroDivisionError as raised:
        error = raised
    assert isinstance(error, ZeroDivisionError)
    assert sys.getprofile() is None


# --- without running -------------------------------------------------------------


def first(x):
    return second(x)


def second(x):
    return x


def test_code_that_a_function_could_run_is_found():
    found = code_of(first, __name__)
    assert {code.co_name for code, _ in found} == {"first", "second"}
    closed = lambda f: lambda x: f(x)
    names = {code.co_name for code, _ in code_of(closed(second), __name__)}
    assert names == {"<lambda>", "second"}
