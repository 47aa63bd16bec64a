"""Threads have their own scopes and tapes; the registry is one."""

import os
import signal
import threading

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance.toy import toy

STEPS = 3000


def _together(*works):
    """Run functions in threads at once; raise what one of them raises."""
    failures = []
    barrier = threading.Barrier(len(works))

    def guarded(work):
        try:
            barrier.wait(timeout=10)
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
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
        _together(train("cpu", 3.0), train("toy", -2.0))
    assert pg.exp(0.0).item() == 1.0


def test_registering_while_others_compute(backend):
    done = threading.Event()

    def compute():
        x = pg.asarray([1.0, 2.0])
        for _ in range(STEPS):
            assert pg.grad(lambda x: pg.sum(x * x))(x).tolist() == [2.0, 4.0]
        done.set()

    def register():
        while not done.is_set():
            pg.register_gradient("Sqrt", x=lambda dy: dy)
            pg.register_kernel("Sqrt", backend, np.sqrt)
            pg.unregister_kernel("Sqrt", backend)
            pg.unregister_gradient("Sqrt")

    _together(compute, register)


def test_one_tensor_pulled_back_in_many_threads(backend):
    x = pg.asarray(np.linspace(0, 1, 5, dtype=np.float32))
    _, pullback = pg.vjp(lambda x: pg.exp(x * x), x)
    expected = pullback(pg.ones((5,)))[0].tolist()

    def work():
        for _ in range(STEPS // 10):
            assert pullback(pg.ones((5,)))[0].tolist() == expected

    _together(work, work, work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_assigns_items_while_a_thread_of_its_parent_does():
    assigning, forked = threading.Event(), threading.Event()

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
