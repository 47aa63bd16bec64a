"""Threads, forks and the end of a process."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import plugrad as pg
import pytest

from .processes import program


def run_in_threads(*functions: Callable[[], None]) -> None:
    """Run functions in concurrent threads; raise the first error, if any."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(functions))

    def run(function: Callable[[], None]) -> None:
        start.wait()
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(w,), daemon=True) for w in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def loss(w: pg.Tensor) -> pg.Tensor:
    return pg.sum(pg.square(pg.tanh(pg.matmul(w, w))))


def weights(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(16, 16)).astype(np.float32)


def test_threads_do_not_disturb_each_other(backend: str) -> None:
    """Four concurrent threads compute the same gradients as a single thread."""
    expected = [pg.grad(loss)(pg.asarray(weights(i))).numpy() for i in range(4)]

    def work(i: int) -> Callable[[], None]:
        def train() -> None:
            with pg.use_backend(backend):
                for _ in range(25):
                    found = pg.grad(loss)(pg.asarray(weights(i)))
                    np.testing.assert_array_equal(found.numpy(), expected[i])

        return train

    run_in_threads(*(work(i) for i in range(4)))


def test_a_tensor_is_used_and_dropped_by_other_threads(backend: str) -> None:
    x = pg.asarray(weights(0))
    expected = (x + x).numpy()
    results: list[pg.Tensor] = []

    def use() -> None:
        with pg.use_backend(backend):
            for _ in range(50):
                results.append(x + x)
                if len(results) > 8:
                    results.pop(0)

    run_in_threads(use, use, use)
    for y in results:
        np.testing.assert_array_equal(y.numpy(), expected)


def test_two_backends_at_once(backend: str) -> None:
    others = [name for name in pg.backends() if name != backend]
    x = weights(1)
    wanted = x @ x

    def use(name: str) -> Callable[[], None]:
        def work() -> None:
            with pg.use_backend(name):
                for _ in range(20):
                    y = pg.matmul(x, x)
                    assert y.backend == name
                    np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-4)

        return work

    run_in_threads(use(backend), use(others[0] if others else backend))


def test_threads_that_open_it(backend: str) -> None:
    """The first ops of several threads, run concurrently, open the backend once."""
    program(
        backend,
        """
        import threading
        results = []
        def work():
            results.append(pg.exp(pg.zeros((2,))).tolist())
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert results == [[1.0, 1.0]] * 8, results
        """,
    )


def test_the_process_ends_with_tensors_alive(backend: str) -> None:
    result = program(
        backend,
        """
        import threading, time
        tensors = [pg.exp(pg.ones((100, 100))) for _ in range(10)]
        def work():
            while True:
                pg.exp(tensors[0])
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.05)
        print("done")
        """,
    )
    assert result.stdout == "done\n"
    assert "Traceback" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_a_fork_works_or_says_why_not(backend: str) -> None:
    """The child computes or gets a plugrad error; neither process hangs."""
    import os

    if not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    result = program(
        backend,
        """
        import os, signal, sys, warnings
        warnings.simplefilter("ignore")
        x = pg.asarray([0.0, 0.0])
        assert pg.exp(x).tolist() == [1.0, 1.0]
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            try:
                right = pg.exp(x).tolist() == [1.0, 1.0]
                print("computes" if right else "WRONG", flush=True)
            except (pg.BackendError, pg.BackendUnavailable, RuntimeError) as error:
                print("says", error, flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status == 0, f"the child ended with status {status}"
        assert pg.exp(x).tolist() == [1.0, 1.0]
        print("parent goes on")
        """,
    )
    first, last = result.stdout.splitlines()
    assert first == "computes" or (first.startswith("says") and backend in first)
    assert last == "parent goes on"


def test_a_spawned_process_opens_its_own_backend(backend: str) -> None:
    result = program(
        backend,
        """
        import pickle, subprocess, sys
        data = pickle.dumps(pg.asarray([1.0, 2.0]))
        code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).tolist())"
        run = [sys.executable, "-W", "ignore", "-c", code]
        done = subprocess.run(run, input=data, capture_output=True, check=False)
        sys.stdout.write(done.stdout.decode() or done.stderr.decode())
        """,
    )
    assert result.stdout.strip() == "[1.0, 2.0]"
