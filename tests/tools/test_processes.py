"""Fork, spawn, exit, and threads that train different models at once."""

import ast
import multiprocessing
import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.registry import registry
from plugrad_conformance.toy import toy

pytestmark = [  # warnings from Python 3.12, and from JAX if a test has imported it
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
    pytest.mark.filterwarnings("ignore:os.fork.* was called:RuntimeWarning"),
]
DTYPES = ["bool", "int32", "float32"]
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
SECONDS = 60


def work(x, w):
    """Return the input, a value, a gradient and the backend, from another process."""
    loss = lambda x: pg.sum(pg.log1p(pg.exp(x * w)))
    value, dx = pg.value_and_grad(loss)(x)
    return x, value, dx, pg.get_backend()


def expected(x, w):
    x = x.numpy().astype(float)
    w = w.numpy().astype(float)
    return np.log1p(np.exp(x * w)).sum(), w / (1 + np.exp(-x * w))


def check(answer, x, w):
    echoed, value, dx, active = answer
    sum_, slope = expected(x, w)
    assert echoed.tolist() == x.tolist()
    assert echoed.backend == x.backend
    assert active
    np.testing.assert_allclose(value.numpy(), sum_, rtol=1e-5)
    np.testing.assert_allclose(dx.numpy(), slope, rtol=1e-5)


def inputs():
    """Return arguments of ``work``, on the active backend."""
    return pg.asarray([1.0, -2.0, 3.0]), pg.Variable([0.5, 1.0, -1.0], name="w")


# --- fork and spawn --------------------------------------------------------------


@pytest.mark.parametrize("installed", pg.backends())
@pytest.mark.parametrize("start", ["spawn", "forkserver"])
def test_a_pool_of_new_processes(start, installed):
    if start not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {start} here")
    with pg.use_backend(installed):
        x, w = inputs()
        check(work(x, w), x, w)
        with multiprocessing.get_context(start).Pool(1) as pool:
            for _ in range(3):
                check(pool.apply_async(work, (x, w)).get(SECONDS), x, w)
        check(work(x, w), x, w)


@forks
def test_a_pool_of_forks():
    with pg.use_backend("cpu"):
        x, w = inputs()
        check(work(x, w), x, w)
        with multiprocessing.get_context("fork").Pool(1) as pool:
            for _ in range(3):
                check(pool.apply_async(work, (x, w)).get(SECONDS), x, w)
        check(work(x, w), x, w)


def run_in_child(f):
    """Call ``f`` in a forked child, which exits without clean-up; return its repr."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, repr(f()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    deadline = time.monotonic() + SECONDS
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            pytest.fail("the child hangs")
        time.sleep(0.005)
    with open(read, "rb") as file:
        answer = file.read().decode()
    assert ended[1] == 0, answer
    return answer


@forks
def test_a_child_uses_inherited_tensors_and_scopes():
    with pg.use_backend("cpu"):
        x, w = inputs()
        _, pullback = pg.vjp(lambda x: x * w, x)
        with pg.override_gradient("Exp", x=lambda dy: dy * 0.0):
            inherited = run_in_child(
                lambda: (
                    pullback(pg.ones((3,)))[0].tolist(),
                    pg.grad(lambda x: pg.sum(pg.exp(x)))(x).tolist(),
                    pg.get_backend(),
                )
            )
        assert inherited == repr(([0.5, 1.0, -1.0], [0.0, 0.0, 0.0], "cpu"))
        big = pg.ones((300, 300))  # the threads of a BLAS do not survive a fork
        assert pg.sum(big @ big).item() == 300.0**3
        assert run_in_child(lambda: pg.sum(big @ big).item()) == repr(300.0**3)


def work_or_reason(x, w):
    """Return the results of ``work``, or why the backend does not survive a fork."""
    try:
        _, value, dx, _ = work(x, w)
        return [value.item(), *dx.tolist()]
    except pg.BackendError as error:
        return str(error)


@forks
@pytest.mark.parametrize("installed", pg.backends())
def test_a_child_computes_or_gives_a_reason(installed):
    with pg.use_backend(installed):
        x, w = inputs()
        check(work(x, w), x, w)
        sum_, slope = expected(x, w)
        plain = np.float32([0.5, 2.0])

        def child():
            first = work_or_reason(x, w)
            with pg.use_backend("cpu"):  # cpu survives every fork
                return first, pg.grad(lambda x: pg.sum(x * x))(plain).tolist()

        for _ in range(2):
            first, slopes = ast.literal_eval(run_in_child(child))
            assert slopes == [1.0, 4.0]
            if isinstance(first, str):
                assert installed in first
                assert "fork" in first
            else:
                np.testing.assert_allclose(first, [sum_, *slope], rtol=1e-5)
            check(work(x, w), x, w)  # and the parent still works


@forks
def test_a_fork_waits_for_a_registration_in_another_thread():
    """Otherwise the child would wait forever for a thread that it does not have."""
    is_locked = threading.Event()
    release = threading.Event()

    def register():
        with registry.lock:
            is_locked.set()
            release.wait(SECONDS)

    thread = threading.Thread(target=register)
    thread.start()
    is_locked.wait(SECONDS)
    threading.Timer(0.1, release.set).start()
    with pg.use_backend("cpu"):
        slope = run_in_child(
            lambda: (
                pg.register_gradient("Sqrt", x=lambda dy: dy * 5.0),
                pg.grad(lambda x: pg.sqrt(x))(4.0).item(),
            )
        )
        thread.join(SECONDS)
        assert slope == "(None, 5.0)"
        assert pg.grad(lambda x: pg.sqrt(x))(4.0).item() == 0.25
    with registry.lock:  # the parent has released the lock as well
        pass


@forks
def test_forks_while_threads_train():
    stop = threading.Event()
    failures = []

    def train():
        try:
            x, w = inputs()
            while not stop.is_set():
                check(work(x, w), x, w)
                pg.register_gradient("Sqrt", x=lambda dy: dy)
                pg.unregister_gradient("Sqrt")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            assert run_in_child(lambda: pg.grad(lambda x: x * x)(3.0).item()) == "6.0"
    finally:
        stop.set()
        for thread in threads:
            thread.join(SECONDS)
    assert not failures


# --- exit ------------------------------------------------------------------------

ALIVE = """
import atexit, sys, threading, weakref
import plugrad as pg
pg.set_backend({backend!r})
x = pg.asarray([1.0, 2.0])
"""
SITUATIONS = {
    "a tensor, a variable and a pullback live": """
        kept = [x, pg.Variable(x), pg.vjp(lambda x: pg.exp(x), x)]
    """,
    "inside all scopes": """
        scopes = [pg.use_backend({backend!r}), pg.override_gradient("Exp", x=None)]
        for scope in scopes:
            scope.__enter__()
    """,
    "a finalizer runs ops": """
        class Last:
            def __del__(self):
                pg.exp(x)
        x.__class__, last = x.__class__, Last()
        weakref.finalize(last, lambda: pg.exp(x))
        atexit.register(lambda: pg.grad(lambda x: pg.sum(x * x))(x))
    """,
    "in a cycle": """
        cycle = [x]
        cycle.append(cycle)
        sys.modules["cycle"] = cycle
    """,
    "a thread computes": """
        def forever(x=x, pg=pg):
            while True:
                pg.grad(lambda x: pg.sum(pg.exp(x)))(x)
        for _ in range(2):
            threading.Thread(target=forever, daemon=True).start()
    """,
    "an error ends it": """
        def deep(x):
            raise SystemExit(0)
        pg.grad(deep)(x)
    """,
}


@pytest.mark.parametrize("installed", pg.backends())
@pytest.mark.parametrize("situation", SITUATIONS)
def test_exit_while_tensors_live(situation, installed):
    code = (ALIVE + textwrap.dedent(SITUATIONS[situation])).format(backend=installed)
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- threads ---------------------------------------------------------------------


def train_line(seed):
    """Train y = a x + b with variables; return the error."""
    w = pg.Variable([0.0])
    b = pg.Variable(0.0)
    x = pg.random.uniform((32, 1), seed=seed)
    y = x * (seed + 2.0) - 1.0
    for _ in range(300):
        _, grads = pg.variable_grads(lambda: pg.mean(pg.square(x * w + b - y)))
        for v, dv in grads.items():
            v.assign(v.value - 0.5 * dv)
    return abs(w.numpy()[0] - (seed + 2.0)) + abs(b.numpy() + 1.0)


def train_network(seed):
    """Train a network with a hidden layer to compute exclusive-or; return the loss."""
    x = pg.asarray([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = pg.asarray([[0.0], [1.0], [1.0], [0.0]])
    params = {
        "in": pg.random.normal((2, 16), seed=seed),
        "bias": pg.zeros((16,)),
        "out": pg.random.normal((16, 1), seed=seed + 1) * 0.3,
    }

    def loss(p):
        return pg.mean(pg.square(pg.tanh(x @ p["in"] + p["bias"]) @ p["out"] - y))

    for _ in range(400):
        value, slopes = pg.value_and_grad(loss)(params)
        params = {k: v - 0.3 * slopes[k] for k, v in params.items()}
    return value.item()


def train_filter(seed):
    """Train a filter from its results on images; return its error."""
    images = pg.random.normal((2, 8, 8, 1), seed=seed)
    true = pg.random.normal((3, 3, 1, 1), seed=seed + 1)
    wanted = pg.conv2d(images, true, strides=1, pad="valid")
    found = pg.zeros((3, 3, 1, 1))
    loss = lambda f: pg.mean(
        pg.square(pg.conv2d(images, f, strides=1, pad="valid") - wanted)
    )
    for _ in range(150):
        found = found - 0.3 * pg.grad(loss)(found)
    return pg.max(pg.abs(found - true)).item()


def train_at_once(jobs):
    """Train each model alone, then all in concurrent threads; return their errors."""
    alone = {}
    at_once = {}
    failures = []
    barrier = threading.Barrier(len(jobs))

    def train(number, name, model):
        try:
            barrier.wait(SECONDS)
            with pg.use_backend(name):
                at_once[number] = model(number)
                assert pg.get_backend() == name
        except BaseException as error:
            failures.append(error)

    for number, (name, model) in enumerate(jobs):
        with pg.use_backend(name):
            alone[number] = model(number)
    threads = [
        threading.Thread(target=train, args=(number, *work))
        for number, work in enumerate(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    return alone, at_once


def test_threads_train_different_models_on_different_backends():
    jobs = [
        ("cpu", train_line),
        ("toy", train_network),
        ("other", train_filter),
        ("toy", train_line),
    ]
    with toy(), toy("other", without=["Conv2D", "Tanh"], dtypes=DTYPES):
        alone, at_once = train_at_once(jobs)
    assert at_once == alone  # to the last bit, so threads did not interfere
    assert max(at_once.values()) < 0.05


@pytest.mark.parametrize("installed", pg.backends())
def test_threads_share_a_backend_while_another_uses_cpu(installed):
    jobs = [
        (installed, train_line),
        (installed, train_network),
        (installed, train_filter),
    ]
    jobs += [("cpu", train_network), (installed, train_line)]
    alone, at_once = train_at_once(jobs)
    assert at_once == alone
    assert max(at_once.values()) < 0.05
