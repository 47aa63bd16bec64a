"""Scopes are context variables: threads, tasks, generators, leaving in any order."""

import asyncio
import contextvars
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.toy import toy


def scale(factor):
    """Return a scope in which the slope of relu is ``factor``."""
    return pg.override_gradient("Relu", x=lambda dy: dy * factor)


def slope():
    """Return the slope of relu at 1."""
    return pg.grad(pg.relu)(1.0).item()


@pytest.fixture(autouse=True)
def _no_scope_is_left_in_force(backend):
    before = pg.get_backend()
    yield
    assert pg.get_backend() == before
    assert slope() == 1.0


# --- tasks -----------------------------------------------------------------------


def test_tasks_do_not_see_each_others_scopes():
    turns = [asyncio.Event() for _ in range(4)]

    async def first():
        with scale(100.0), pg.use_backend("toy"):
            turns[0].set()
            await turns[1].wait()
            found = slope(), pg.get_backend()
        turns[2].set()
        return found

    async def second():
        await turns[0].wait()
        with scale(7.0):
            turns[1].set()
            await turns[2].wait()  # first() leaves its scopes before this one ends
            return slope(), pg.get_backend()

    async def both():
        return await asyncio.gather(first(), second())

    outer = pg.get_backend()
    with toy():
        assert asyncio.run(both()) == [(100.0, "toy"), (7.0, outer)]


def test_tidy_in_a_task_leaves_the_tensors_of_others_alone():
    async def one(entered, made):
        with pg.tidy():
            entered.set()
            await made.wait()

    async def other(entered, made):
        await entered.wait()
        x = pg.ones((2,)) + 1.0
        made.set()
        await asyncio.sleep(0)
        return x

    async def both():
        events = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(one(*events), other(*events))

    assert asyncio.run(both())[1].tolist() == [2.0, 2.0]


def test_a_task_keeps_the_scopes_that_it_was_created_in():
    async def slope_afterwards(scope_was_left):
        await scope_was_left.wait()
        return slope()

    async def main():
        scope_was_left = asyncio.Event()
        with scale(5.0):
            task = asyncio.create_task(slope_afterwards(scope_was_left))
        scope_was_left.set()
        return await task, slope(), await asyncio.to_thread(slope)

    assert asyncio.run(main()) == (5.0, 1.0, 1.0)


# --- threads ---------------------------------------------------------------------


def test_a_thread_takes_a_copy_of_the_context():
    with scale(3.0), ThreadPoolExecutor(1) as pool:
        assert pool.submit(contextvars.Context().run, slope).result() == 1.0
        assert pool.submit(contextvars.copy_context().run, slope).result() == 3.0
        assert pool.submit(contextvars.Context().run, slope).result() == 1.0


THREAD_STARTED_IN_A_SCOPE = """
import threading
import plugrad as pg

def work():
    found.append(pg.grad(pg.relu)(1.0).item())
    after.wait()
    found.append(pg.grad(pg.relu)(1.0).item())

found, after = [], threading.Event()
with pg.override_gradient("Relu", x=lambda dy: dy * 3):
    thread = threading.Thread(target=work)
    thread.start()
after.set()
thread.join()
print(found, pg.grad(pg.relu)(1.0).item())
"""


@pytest.mark.parametrize("inherits", [0, 1])
def test_a_thread_that_inherits_the_context_inherits_scopes(inherits):
    if sys.version_info < (3, 14):
        if inherits:
            pytest.skip("threads inherit the context since Python 3.14")
        options = []
    else:
        options = ["-X", f"thread_inherit_context={inherits}"]
    command = [sys.executable, *options, "-c", THREAD_STARTED_IN_A_SCOPE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    inside = 3.0 if inherits else 1.0
    assert done.stdout == f"{[inside, inside]} 1.0\n"


def test_runs_of_threads_in_a_copy_of_the_context_are_recorded(backend):
    def f(x):
        with ThreadPoolExecutor(2) as pool:
            runs = [contextvars.copy_context().run for _ in range(2)]
            parts = [pool.submit(run, pg.square, x) for run in runs]
            return pg.sum(parts[0].result() * parts[1].result())

    np.testing.assert_allclose(pg.grad(f)(np.float32([1, 2])).numpy(), [4.0, 32.0])


# --- leaving in any order --------------------------------------------------------


def test_scopes_may_be_left_in_any_order():
    with toy():
        a = scale(2.0)
        b = pg.use_backend("toy")
        c = scale(3.0)
        outer = pg.get_backend()
        for scope in (a, b, c):
            scope.__enter__()
        assert (slope(), pg.get_backend()) == (3.0, "toy")
        b.__exit__(None, None, None)
        assert (slope(), pg.get_backend()) == (3.0, outer)
        c.__exit__(None, None, None)
        assert (slope(), pg.get_backend()) == (2.0, outer)
        a.__exit__(None, None, None)


def _slope_inside(scope):
    with scope:
        yield slope()


def test_closing_a_suspended_generator_ends_only_its_own_scope():
    one = _slope_inside(scale(2.0))
    assert next(one) == 2.0
    with scale(3.0):
        assert slope() == 3.0
        one.close()
        assert slope() == 3.0
    assert slope() == 1.0
    two = _slope_inside(scale(2.0))
    next(two)
    with scale(3.0):
        pass
    assert slope() == 2.0  # while it is suspended inside its block
    two.close()


def test_a_scope_that_is_left_in_another_thread_ends():
    suspended = _slope_inside(scale(2.0))
    next(suspended)
    assert slope() == 2.0
    thread = threading.Thread(target=suspended.close)
    thread.start()
    thread.join()
    assert slope() == 1.0


def test_a_scope_that_is_left_in_a_task_ends():
    suspended = _slope_inside(scale(2.0))
    next(suspended)
    inside = contextvars.copy_context()  # like that of a task: it inherits the scope
    assert inside.run(slope) == slope() == 2.0
    inside.run(suspended.close)
    assert inside.run(slope) == slope() == 1.0


def test_an_outer_scope_can_be_left_first_in_a_copy_of_the_context():
    outer = scale(2.0)
    inner = scale(3.0)
    outer.__enter__()
    inner.__enter__()
    inside = contextvars.copy_context()
    inside.run(outer.__exit__, None, None, None)
    assert inside.run(slope) == slope() == 3.0
    inner.__exit__(None, None, None)
    assert slope() == 1.0
    assert inside.run(slope) == 3.0  # a copy keeps the scopes entered before it


def test_an_open_generator_in_f_does_not_keep_the_tape():
    generators = []

    def f(x):
        generators.append(_slope_inside(scale(2.0)))
        next(generators[0])
        return pg.relu(x)

    assert pg.grad(f)(1.0).item() == 2.0
    assert pg.exp(1.0)._tape_id is None
    generators.pop().close()


def _backends_before_and_after_a_change():
    found = []

    def f(x):
        found.append(pg.get_backend())
        pg.set_backend("toy")
        found.append(pg.exp(0.0).backend)
        return x

    with scale(2.0):
        pg.grad(f)(1.0)
        return [*found, pg.get_backend()]


def test_set_backend_has_effect_inside_scopes_that_choose_no_backend():
    run = contextvars.Context().run  # a context without the backend scope of this test
    before = run(pg.get_backend)  # chosen before the scope is entered
    with toy():
        try:
            assert run(_backends_before_and_after_a_change) == [before, "toy", "toy"]
        finally:
            run(pg.set_backend, before)


# --- misuse ----------------------------------------------------------------------


def test_a_scope_cannot_be_entered_while_it_is_in_force():
    scope = scale(2.0)
    with scope:
        with pytest.raises(RuntimeError, match="entered already"), scope:
            pass
        assert slope() == 2.0
    with scope:  # entered again after it was left
        assert slope() == 2.0
    with pytest.raises(RuntimeError, match="has not been entered"):
        scope.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pg.use_backend(pg.get_backend()), "use_backend"),
        (lambda: scale(2.0), "override_gradient"),
        (lambda: pg.use_gradients("guided"), "use_gradients"),
    ],
)
def test_a_scope_that_is_never_entered_warns_where_it_was_made(make, name):
    with pytest.warns(RuntimeWarning, match=f"write `with {name}") as found:
        make()
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with make():
            pass
        make()(lambda: None)


def test_scopes_are_decorators():
    @scale(4.0)
    def decorated(n):
        return slope() if n == 0 else decorated(n - 1)

    @scale(5.0)
    async def awaited():
        await asyncio.sleep(0)
        return slope()

    assert decorated(2) == 4.0
    assert asyncio.run(awaited()) == 5.0
    assert decorated.__name__ == "decorated"
    with pytest.raises(TypeError, match="cannot decorate a generator"):
        scale(2.0)(_slope_inside)
    with pytest.raises(TypeError, match="override_gradient: expected a function"):
        scale(2.0)(3)
    with scale(3.0):
        assert decorated(0) == 4.0
