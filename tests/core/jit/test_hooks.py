"""Hooks of ``sys`` around ``jit``, inside it, in threads, and set by the function.

A hook that is set before a call is still set after it, and sees the user's functions;
the results equal those of eager mode.
"""

import cProfile
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import plugrad as pg
import pytest

from .helpers import floats, look, reason
from .hooking import CODES, HOOKS, Events, Model, check_against_eager

pytestmark = pytest.mark.usefixtures("hooks")
X = floats(3)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_sees_the_recording(name, wrap):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()
    jitted = wrap(model)
    install(events)
    result = jitted(X)
    after = installed()
    install(None)
    assert after is events
    assert look(result) == look(model(X))
    assert events.seen[0] == ("call", "__call__")
    assert events.count("call") == events.count("return") == 2
    assert events.is_balanced()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_stays_in_every_call(name, wrap):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()
    jitted = wrap(model)
    install(events)
    try:
        check_against_eager(jitted, model)
        assert installed() is events
    finally:
        install(None)
    assert events.is_balanced()
    assert events.count("call") >= 4  # two recordings, or two eager calls


@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("before", range(4))
def test_a_hook_is_set_between_calls(name, before, wrap):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()
    jitted = wrap(model)
    for _ in range(before):
        jitted(X)
    install(events)
    results = [look(jitted(X)) for _ in range(3)]
    after = installed()
    install(None)
    assert after is events
    assert results == [look(model(X))] * 3
    assert events.is_balanced()
    check_against_eager(jitted, model)


def test_a_profile_hook_and_a_trace_hook_together(wrap):
    both = (Events(), Events())
    model = Model()
    jitted = wrap(model)
    sys.setprofile(both[0])
    sys.settrace(both[1])
    result = jitted(X)
    after = sys.getprofile(), sys.gettrace()
    sys.setprofile(None)
    sys.settrace(None)
    assert after == both
    assert look(result) == look(model(X))
    assert all(events.is_balanced() and events.count("call") == 2 for events in both)


def test_there_is_no_hook_after_a_call_without_one(wrap):
    sys.setprofile(None)
    sys.settrace(None)
    model = Model()
    jitted = wrap(model)
    for _ in range(4):
        jitted(X)
        assert (sys.getprofile(), sys.gettrace()) == (None, None)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_survives_an_error_in_the_function(name, wrap):
    install, installed = HOOKS[name]
    model = Model()
    model.rate = "no number"
    jitted = wrap(model)
    events = Events()
    install(events)
    with pytest.raises(TypeError):
        jitted(X)
    after = installed()
    install(None)
    assert after is events
    assert events.is_balanced()
    check_against_eager(jitted, model)


def failing(frame, event, argument):
    if frame.f_code is Model.scaled.__code__:
        raise KeyError("of the hook")
    return failing


@pytest.mark.parametrize("name", HOOKS)
def test_an_error_in_a_hook_is_raised_by_the_call(name, wrap):
    install, _ = HOOKS[name]
    model = Model()
    jitted = wrap(model)
    install(failing)
    try:
        with pytest.raises(KeyError, match="of the hook"):
            jitted(X)
    finally:
        install(None)
    check_against_eager(jitted, model)


# --- hooks that the function sets ------------------------------------------------


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_the_function_sets_survives(name, wrap):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()

    def f(x):
        install(events)
        return model(x)

    jitted = wrap(f)
    result = jitted(X)
    after = installed()
    install(None)
    assert after is events
    assert look(result) == look(model(X))
    assert events.seen[0] == ("call", "__call__")
    assert events.is_balanced()
    check_against_eager(jitted, model)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_the_function_removes_stays_removed(name, wrap):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()

    def f(x):
        y = model(x)
        install(None)
        return y

    jitted = wrap(f)
    install(events)
    result = jitted(X)
    after = installed()
    install(None)
    assert after is None
    assert look(result) == look(model(X))
    assert events.count("call") == events.count("return") == 2
    check_against_eager(jitted, model)


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_the_function_replaces_and_restores(name, wrap):
    install, installed = HOOKS[name]
    outer = Events()
    inner = Events()
    model = Model()

    def f(x):
        before = installed()
        install(inner)
        y = model(x)
        install(before)
        return y

    jitted = wrap(f)
    install(outer)
    result = jitted(X)
    after = installed()
    install(None)
    assert after is outer
    assert look(result) == look(model(X))
    assert inner.count("call") == inner.count("return") == 2
    assert outer.seen == []
    check_against_eager(jitted, model)


def test_the_function_sees_the_hook_of_its_caller(wrap):
    """The function may query the current hook."""
    events = Events()
    model = Model()
    found = []

    def f(x):
        found.append(sys.gettrace())
        return model(x)

    jitted = wrap(f)
    sys.settrace(events)
    jitted(X)
    sys.settrace(None)
    assert found == [events]


# --- threads, generators, recursion ----------------------------------------------


@pytest.mark.parametrize("name", HOOKS)
def test_two_threads_record_with_hooks_of_their_own(name, wrap):
    install, installed = HOOKS[name]
    ready = threading.Barrier(2)
    results = {}

    class Slow(Model):
        def scaled(self, x):
            time.sleep(0.005)  # the other thread records meanwhile
            return super().scaled(x)

    def work(number):
        model = Slow()
        events = Events()
        jitted = wrap(model)
        ready.wait(timeout=10)
        install(events)
        check_against_eager(jitted, model)
        results[number] = events, installed()
        install(None)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    for events, after in results.values():
        assert after is events
        assert events.is_balanced()
        assert events.count("call") >= 4


def test_two_threads_record_one_function(wrap):
    model = Model()
    ready = threading.Barrier(2)

    def f(x):
        time.sleep(0.005)
        return model(x)

    jitted = wrap(f)

    def work():
        events = Events()
        ready.wait(timeout=60)
        sys.setprofile(events)
        try:
            results = [look(jitted(X)) for _ in range(4)]
            return results, sys.getprofile() is events, events
        finally:
            sys.setprofile(None)

    with ThreadPoolExecutor(2) as pool:  # result() raises the error of a thread
        found = [thread.result() for thread in [pool.submit(work) for _ in range(2)]]
    for results, has_hook, events in found:
        assert results == [look(model(X))] * 4
        assert has_hook
        assert events.is_balanced(), events.seen


def test_a_hook_is_set_only_in_its_thread(wrap):
    model = Model()
    after = []

    def work():
        wrap(model)(X)
        after.append(sys.getprofile())

    events = Events()
    sys.setprofile(events)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    sys.setprofile(None)
    assert after == [None]
    assert events.seen == []


@pytest.mark.parametrize("name", HOOKS)
def test_a_call_inside_a_generator(name, wrap):
    install, installed = HOOKS[name]
    model = Model()
    events = Events({*CODES})
    jitted = wrap(model)

    def results():
        for _ in range(4):
            yield look(jitted(X))

    events.codes.add(results.__code__)
    install(events)
    found = [*results()]
    after = installed()
    install(None)
    assert after is events
    assert found == [look(model(X))] * 4
    assert events.is_balanced()


@pytest.mark.parametrize("name", HOOKS)
def test_a_generator_that_calls_advance(name, wrap):
    """The generator starts before the calls and continues in them."""
    install, installed = HOOKS[name]
    model = Model()
    events = Events()

    def rates():
        while True:
            yield model.rate

    generator = rates()
    events.codes = {*CODES, rates.__code__}
    jitted = wrap(lambda x: model(x) * next(generator))
    install(events)
    next(generator)
    found = [look(jitted(X)) for _ in range(4)]
    after = installed()
    install(None)
    assert after is events
    assert found == [look((X * 2.0 + 1.0) * 2.0)] * 4
    assert events.is_balanced()


@pytest.mark.parametrize("name", HOOKS)
def test_a_function_that_calls_itself(name, wrap):
    install, installed = HOOKS[name]

    def scaled(x, depth):
        return scaled(x, depth - 1) * 2.0 if depth else x

    events = Events({scaled.__code__})
    jitted = wrap(lambda x: scaled(x, 5))
    install(events)
    found = [look(jitted(X)) for _ in range(3)]
    after = installed()
    install(None)
    assert after is events
    assert found == [look(scaled(X, 5))] * 3
    assert events.is_balanced()
    assert events.count("call") >= 6


@pytest.mark.parametrize("name", HOOKS)
def test_a_jitted_function_that_calls_itself(name, wrap):
    install, installed = HOOKS[name]

    def scaled(x, depth):
        return jitted(x, depth - 1) * 2.0 if depth else x

    jitted = wrap(scaled)
    events = Events({scaled.__code__})
    install(events)
    found = [look(jitted(X, 5)) for _ in range(3)]
    after = installed()
    install(None)
    assert after is events
    assert found == [look(X * 32.0)] * 3
    assert events.is_balanced()
    assert events.count("call") >= 6


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_stays_in_nested_jit_calls(name, wrap):
    install, installed = HOOKS[name]
    model = Model()
    events = Events()
    inner = wrap(model)
    jitted = wrap(lambda x: inner(x))
    install(events)
    check_against_eager(jitted, model)
    after = installed()
    install(None)
    assert after is events
    assert events.is_balanced()


@pytest.mark.parametrize("name", HOOKS)
def test_explain_keeps_a_hook(name):
    install, installed = HOOKS[name]
    events = Events()
    model = Model()
    jitted = pg.jit(model)
    install(events)
    jitted.explain(X)
    after = installed()
    install(None)
    assert after is events
    assert events.is_balanced()


def test_calls_are_replayed_after_a_profiler():
    """A recording made under a hook is as good as one made without."""
    model = Model()
    jitted = pg.jit(model)
    with cProfile.Profile():
        check_against_eager(jitted, model)
    assert reason(jitted, X) == ""
    events = Events()
    sys.setprofile(events)
    jitted(X)
    sys.setprofile(None)
    assert events.seen == []
