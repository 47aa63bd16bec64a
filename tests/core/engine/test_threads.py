"""Threads have their own scopes and tapes, and share one registry."""

import contextvars
import functools
import os
import signal
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.engine.tape import alias
from plugrad_conformance.toy import toy

pytestmark = pytest.mark.thread_unsafe(reason="it starts threads")
STEPS = 3000


def _run_concurrently(*functions):
    """Run functions in concurrent threads; raise the first error, if any."""
    failures = []
    barrier = threading.Barrier(len(functions))

    def run_and_note_error(work):
        try:
            barrier.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=run_and_note_error, args=(work,)) for work in functions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_two_backends_and_their_tapes_do_not_disturb_each_other():
    def train(name, target):
        def work():
            with pg.use_backend(name):
                w = pg.asarray(np.zeros(3, np.float32))
                loss = lambda w: pg.sum((w - target) * (w - target))
                for step in range(STEPS):
                    value, dw = pg.value_and_grad(loss)(w)
                    assert value.backend == dw.backend == name
                    w = w - 0.1 * dw
                    if step % 100 == 0:
                        with pg.override_gradient("Sub", a=lambda dy: dy * 0.0):
                            assert pg.grad(loss)(w).tolist() == [0.0, 0.0, 0.0]
                np.testing.assert_allclose(w.numpy(), target, rtol=1e-5)

        return work

    with toy():
        _run_concurrently(train("cpu", 3.0), train("toy", -2.0))
    assert pg.exp(0.0).item() == 1.0


def test_registering_while_others_compute(backend):
    done = threading.Event()

    def compute():
        x = pg.asarray([1.0, 2.0])
        try:
            for _ in range(STEPS):
                assert pg.grad(lambda x: pg.sum(x * x))(x).tolist() == [2.0, 4.0]
        finally:
            done.set()

    def register():
        while not done.is_set():
            pg.register_gradient("Sqrt", x=lambda dy: dy)
            pg.register_kernel("Sqrt", backend, np.sqrt)
            pg.unregister_kernel("Sqrt", backend)
            pg.unregister_gradient("Sqrt")

    _run_concurrently(compute, register)


def test_one_pullback_in_many_threads(backend):
    x = pg.asarray(np.linspace(0, 1, 5, dtype=np.float32))
    _, pullback = pg.vjp(lambda x: pg.exp(x * x), x)
    expected = pullback(pg.ones((5,)))[0].tolist()

    def work():
        for _ in range(STEPS // 10):
            assert pullback(pg.ones((5,)))[0].tolist() == expected

    _run_concurrently(work, work, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_assign_items_while_its_parent_does():
    assigning = threading.Event()
    forked = threading.Event()

    class Waiting:
        def __index__(self):  # called while the assignment is under way
            assigning.set()
            forked.wait(timeout=10)
            return 1

    def assign():
        with pg.use_backend("cpu"):
            pg.zeros(3)[Waiting()] = 1.0

    thread = threading.Thread(target=assign)
    thread.start()
    assert assigning.wait(timeout=10)
    child = os.fork()
    if not child:
        with pg.use_backend("cpu"):
            signal.alarm(20)  # a deadlock ends the child
            x = pg.zeros(3)
            x[0] = 2.0
            os._exit(int(x.tolist() != [2.0, 0.0, 0.0]))
    forked.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


# --- what threads share ----------------------------------------------------------


def test_tapes_of_many_threads_watch_one_variable(backend):
    variables = [pg.Variable([1.0, 2.0]) for _ in range(STEPS // 5)]

    def differentiate():
        for v in variables:
            slopes = pg.variable_grads(lambda v=v: pg.sum(v * v))[1]
            assert slopes[v].tolist() == [2.0, 4.0]

    runners = [contextvars.copy_context().run for _ in range(4)]
    _run_concurrently(*[functools.partial(run, differentiate) for run in runners])


def test_a_variable_is_assigned_while_others_differentiate():
    v = pg.Variable(1.0)
    done = threading.Event()

    def differentiate():
        try:
            for _ in range(STEPS // 3):
                value, slopes = pg.variable_grads(lambda: pg.square(v))
                assert slopes[v].item() ** 2 == 4 * value.item() != 0
        finally:
            done.set()

    def assign():
        while not done.is_set():
            v.assign(float(np.random.default_rng().integers(1, 100)))

    _run_concurrently(differentiate, differentiate, assign)


def test_a_tensor_is_assigned_while_others_move_it():
    done = threading.Event()

    def move():
        try:
            for _ in range(STEPS // 3):
                y = alias(x)
                with pg.use_backend("toy"):
                    moved = pg.abs(y)
                assert moved.tolist() == y.tolist()
        finally:
            done.set()

    def assign():
        n = 1.0
        while not done.is_set():
            x[:] = n = n % 5 + 1

    with toy(), pg.use_backend("cpu"):
        x = pg.asarray([1.0, 1.0])
        runners = [contextvars.copy_context().run for _ in range(3)]
        _run_concurrently(*map(functools.partial, runners, (move, move, assign)))


def test_a_tensor_is_disposed_while_others_use_it(backend):
    tensors = [pg.zeros(2) for _ in range(STEPS // 3)]

    def use():
        for x in tensors:
            try:
                assert pg.exp(x).tolist() == [1.0, 1.0]
            except ValueError as error:
                if "disposed" not in str(error):
                    raise

    runners = [contextvars.copy_context().run for _ in range(3)]
    dispose = functools.partial(pg.dispose, tensors)
    _run_concurrently(*[functools.partial(run, use) for run in runners], dispose)


def test_backends_come_and_go_while_others_list_them():
    done = threading.Event()

    def list_them():
        try:
            for _ in range(STEPS):
                assert "cpu" in pg.backends()
                assert pg.engine().opened
        finally:
            done.set()

    def register_and_remove(name):
        while not done.is_set():
            with toy(name):
                pg.register_kernel("Exp", name, np.exp)

    _run_concurrently(
        list_them,
        lambda: register_and_remove("one"),
        lambda: register_and_remove("two"),
    )


def test_gradients_change_while_threads_share_a_scope():
    done = threading.Event()

    def compute():
        try:
            for _ in range(STEPS):
                assert pg.grad(lambda x: pg.relu(x) * x)(2.0).item() in (6.0, 10.0)
        finally:
            done.set()

    def change():
        while not done.is_set():
            pg.register_gradient("Multiply", a=lambda dy, b: dy * b * 2)
            pg.unregister_gradient("Multiply")

    with pg.override_gradient("Relu", x=lambda dy: dy * 2):
        runners = [contextvars.copy_context().run for _ in range(3)]
        _run_concurrently(*map(functools.partial, runners, (compute, compute, change)))
        assert pg.grad(lambda x: pg.relu(x) * x)(2.0).item() == 6.0


def test_keep_in_threads_that_share_a_block(backend):
    with pg.tidy():
        runners = [contextvars.copy_context().run for _ in range(4)]
        make = lambda: kept.extend([pg.keep(pg.ones(1)) for _ in range(STEPS // 4)])
        kept = []
        _run_concurrently(*[functools.partial(run, make) for run in runners])
    assert {x.tolist()[0] for x in kept} == {1.0}
    assert len(kept) == STEPS // 4 * 4


def test_all_runs_of_decompositions_are_counted():
    def count():
        return sum(
            n for (_, at, _), n in pg.engine().fallback_counts.items() if at == "toy"
        )

    with toy(without=["Relu"]), pg.use_backend("toy"):
        pg.relu(1.0)
        before = count()
        runs = STEPS // 10
        runners = [contextvars.copy_context().run for _ in range(4)]
        work = lambda: [pg.relu(1.0) for _ in range(runs)]
        _run_concurrently(*[functools.partial(run, work) for run in runners])
        assert count() - before == 4 * runs
