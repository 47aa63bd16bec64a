"""Sixteen concurrent threads get the same results as a single thread.

Each worker runs a random program, which uses gradients, jitted functions that all
workers share, overrides, temporary backends and kernels, and variables. A program is
determined by its seed. The programs run one after the other, and then in concurrent
threads.
"""

import contextvars
import itertools
import random
import threading
import time

import numpy as np
import plugrad as pg
import pytest
from plugrad._src.registry.contract import Kernel
from plugrad_conformance.toy import toy

THREADS, STEPS = 16, 8


def tensor(rng, *shape):
    """Return a tensor of random eighths."""
    size = int(np.prod(shape))
    values = [rng.randrange(-16, 17) / 8 for _ in range(size)]
    return pg.asarray(np.array(values, np.float32).reshape(shape))


class Shared:
    """The objects that all workers share."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.weights = [tensor(rng, 3, 4), tensor(rng, 4, 2)]
        self.variable = pg.Variable(tensor(rng, 3))
        self.forward = pg.jit(self.network)
        self.step = pg.jit(pg.value_and_grad(self.network))

    def network(self, x):
        """Return a number for a batch of rows."""
        first, second = self.weights
        return pg.mean(pg.square(pg.softmax(pg.tanh(x @ first) @ second)))


class Worker:
    """A worker with a random program."""

    def __init__(self, number, seed, shared):
        self.rng = random.Random(f"{seed} {number}")
        self.shared = shared
        self.name, self.kernel = f"soak{number}", Kernel(f"soak.Times{number}(x)")
        self.variable = pg.Variable(tensor(self.rng, 3))
        self.state = {"factor": 1.0}
        self.scaled = pg.jit(lambda x: pg.sum(pg.exp(x) * self.state["factor"]))

    def run(self):
        """Return the results of some steps, as numbers."""
        jobs = [self.differentiate, self.replay, self.replay_step, self.change_state]
        jobs += [self.override, self.change_backend, self.register, self.use_variables]
        jobs += [self.assign_items]
        found = []
        for _ in range(STEPS):
            job = self.rng.choice(jobs)
            results = pg.tree.leaves(job())
            found.append((job.__name__, [x.tolist() for x in results]))
        return found

    def rows(self):
        """Return a batch of one of several sizes."""
        return tensor(self.rng, self.rng.randrange(1, 5), 3)

    def differentiate(self):
        """Return a value, its gradient, and a second derivative."""
        x = self.rows()
        slope = lambda x: pg.sum(pg.grad(self.shared.network)(x))
        return pg.value_and_grad(self.shared.network)(x), pg.grad(slope)(x)

    def replay(self):
        """Call a function that all threads record and replay."""
        return [self.shared.forward(self.rows()) for _ in range(4)]

    def replay_step(self):
        """Call a shared function that differentiates."""
        return [self.shared.step(self.rows()) for _ in range(4)]

    def change_state(self):
        """Change what a function under ``jit`` reads."""
        x = tensor(self.rng, 2)
        found = [self.scaled(x) for _ in range(3)]
        self.state["factor"] = float(self.rng.randrange(4))
        return [*found, self.scaled(x)]

    def override(self):
        """Differentiate inside and outside of a block."""
        factor = float(self.rng.randrange(4))
        x = self.rows()
        with pg.override_gradient("Tanh", x=lambda dy, original: factor * original(dy)):
            inside = pg.grad(self.shared.network)(x)
        return inside, pg.grad(self.shared.network)(x)

    def change_backend(self):
        """Compute on a temporary backend."""
        x = tensor(self.rng, 5)
        factor = self.rng.randrange(4)
        with toy(self.name), pg.use_backend(self.name):
            pg.register_kernel("Abs", self.name, lambda x: np.abs(x) * factor)
            return [y.to("cpu") for y in (pg.abs(x), pg.grad(pg.exp)(x[0]))]

    def register(self):
        """Register a kernel and its gradient, and remove both."""
        factor = float(self.rng.randrange(4))
        x = tensor(self.rng, 5)
        name = self.kernel.name
        pg.register_kernel(self.kernel, "cpu", lambda x: x * np.float32(factor))
        pg.register_gradient(name, x=lambda dy: dy * factor)
        try:
            with pg.use_backend("cpu"):
                f = lambda x: pg.sum(pg.run_kernel(name, [x]) * x)
                return pg.value_and_grad(f)(x)
        finally:
            pg.unregister_gradient(name)
            pg.unregister_kernel(name, "cpu")

    def use_variables(self):
        """Take a step of gradient descent that also reads a shared variable."""
        read = self.shared.variable
        loss = lambda: pg.sum(pg.square(self.variable * read) + pg.tanh(read))
        value, slopes = pg.variable_grads(loss)
        self.variable.assign_sub(slopes[self.variable] * 0.125)
        return value, slopes[self.variable], slopes[read], self.variable.value

    def assign_items(self):
        """Assign items of a tensor; an earlier result keeps its values."""
        x = self.rows()
        y = x * 2.0
        x[:, self.rng.randrange(3)] = 0.5
        return x, y


def run_in_threads(functions):
    """Run functions in concurrent threads, and return their results."""
    found, failures = {}, []
    barrier = threading.Barrier(len(functions))

    def guarded(number, function):
        try:
            barrier.wait(timeout=60)
            found[number] = function()
        except BaseException as error:
            failures.append(error)

    threads = []
    for number, function in enumerate(functions):
        run = contextvars.copy_context().run
        arguments = (guarded, number, function)
        threads.append(threading.Thread(target=run, args=arguments))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [found[number] for number in range(len(functions))]


@pytest.mark.filterwarnings("ignore:jit. ")
@pytest.mark.thread_unsafe(reason="it starts threads")
def test_soak_of_threads(seconds, request):
    first = request.config.getoption("--soak-seed")
    end = time.monotonic() + seconds
    for seed in itertools.count(first):
        alone = Shared(seed)
        shared = Shared(seed)
        wanted = [Worker(n, seed, alone).run() for n in range(THREADS)]
        workers = [Worker(n, seed, shared) for n in range(THREADS)]
        found = run_in_threads([worker.run for worker in workers])
        for number, (result, expected) in enumerate(zip(found, wanted, strict=True)):
            assert result == expected, f"worker {number}, --soak-seed={seed}"
        if time.monotonic() > end:
            break
    print(f"{seed - first + 1} rounds of {THREADS} threads from seed {first}")
