"""Players that make random moves, which use plugrad in all the ways that users may.

Each player has a pool of tensors with their expected values. Most moves compute a
tensor from the pool, check it, and add it to the pool. Other moves transfer tensors,
dispose of them, or open a block (``use_backend``, ``tidy``, ``profile``, ...) and make
more moves inside. The moves of a player depend only on its seed, not on other threads.

The file defines the operations, ``Player``, and ``play``, which runs several players.
"""

import copy
import pickle
import random
import threading

import numpy as np
import plugrad as pg
import pytest

# Functions of one argument: the operation, its formula, and its derivative.
UNARY = [
    (pg.tanh, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    (pg.sigmoid, lambda x: 1 / (1 + np.exp(-x)), lambda x: 0.25 / np.cosh(x / 2) ** 2),
    (pg.sin, np.sin, np.cos),
    (pg.relu, lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0),
    (
        lambda x: pg.sqrt(x * x + 1.0),
        lambda x: np.sqrt(x * x + 1),
        lambda x: x / np.sqrt(x * x + 1),
    ),
    (
        lambda x: pg.exp(-pg.square(x)),
        lambda x: np.exp(-x * x),
        lambda x: -2 * x * np.exp(-x * x),
    ),
    (
        lambda x: pg.log1p(pg.abs(x)),
        lambda x: np.log1p(np.abs(x)),
        lambda x: np.sign(x) / (1 + np.abs(x)),
    ),
    (lambda x: x * 0.5 - 1.0, lambda x: x * 0.5 - 1, lambda x: np.full_like(x, 0.5)),
]
# Functions of two arguments of equal shape: the operation and its formula.
BINARY = [
    (lambda x, y: x + y, np.add),
    (lambda x, y: x - y, np.subtract),
    (lambda x, y: x * y, np.multiply),
    (pg.maximum, np.maximum),
    (lambda x, y: x / (pg.abs(y) + 1.0), lambda x, y: x / (np.abs(y) + 1)),
    (lambda x, y: pg.where(x > y, x, y * 0.5), lambda x, y: np.where(x > y, x, y / 2)),
]
# Rearranging a matrix: the operation and its formula.
REARRANGED = [
    (lambda x: pg.permute_dims(x, (1, 0)), np.transpose),
    (lambda x: pg.flip(x, axis=0), lambda x: x[::-1]),
    (lambda x: x[1:, ::2], lambda x: x[1:, ::2]),
    (lambda x: pg.concat([x, x], axis=1), lambda x: np.concatenate([x, x], 1)),
    (lambda x: pg.pad(x, [(1, 0), (0, 2)]), lambda x: np.pad(x, ((1, 0), (0, 2)))),
    (lambda x: pg.sum(x, axis=0, keepdims=True), lambda x: x.sum(0, keepdims=True)),
    (lambda x: pg.max(x, axis=1, keepdims=True), lambda x: x.max(1, keepdims=True)),
    (lambda x: pg.cumulative_sum(x, axis=1) * 0.125, lambda x: x.cumsum(1) / 8),
    (lambda x: pg.take(x, pg.asarray([0, 0]), axis=0), lambda x: x[[0, 0]]),
    (lambda x: pg.reshape(x, (-1, 1)), lambda x: x.reshape(-1, 1)),
]
IMAGE = (1, 6, 6, 2)
# Functions without a short formula: value and gradient are compared with cpu's.
COMPARED = [
    lambda x: pg.softmax(x),
    # Rows of nearly equal numbers would magnify rounding errors.
    lambda x: pg.layer_norm(x + pg.arange(x.shape[1], dtype="float32")),
    lambda x: pg.gelu(x, approximate=True),
    lambda x: pg.std(x, axis=0) + pg.logsumexp(x, axis=0),
    lambda x: pg.matmul(x, x, transpose_b=True),
    lambda x: pg.max_pool(_image(x), 2),
    lambda x: pg.conv2d(_image(x), _filter(x), pad="same"),
    lambda x: pg.depthwise_conv2d(_image(x), _filter(x), pad="same", strides=2),
    lambda x: pg.sort(x, axis=-1) * 2.0,
    lambda x: pg.image.resize_bilinear(_image(x), (4, 9)),
    lambda x: pg.unsorted_segment_sum(x, pg.arange(x.shape[0]) % 2, 2),
    lambda x: pg.cumulative_prod(pg.tanh(x), axis=0),
    lambda x: pg.einsum("ij,ik->jk", x, x),
    lambda x: pg.losses.huber_loss(x, pg.zeros_like(x)),
]


def _image(x):
    """Repeat the values of ``x`` to fill an image."""
    return pg.reshape(pg.tile(pg.reshape(x, (-1,)), (72,))[:72], IMAGE)


def _filter(x):
    return pg.reshape(pg.tile(pg.reshape(x, (-1,)), (36,))[:36], (3, 3, 2, 2))


def close(found, wanted, rtol=2e-4):
    """Compare with a tolerance relative to the largest number, as terms may cancel."""
    found = np.asarray(found)
    wanted = np.asarray(wanted)
    atol = rtol * max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol)


class Player:
    """Makes moves in one thread; ``log`` contains the last ones."""

    def __init__(self, seed, backends):
        self.random = random.Random(seed)
        self.backends = backends
        self.pool = []  # pairs of a tensor and its values
        self.pulls = []  # pairs of a pullback and its gradient for a cotangent of ones
        self.variable = pg.Variable(np.zeros((2, 3), np.float32))
        self.expected = np.zeros((2, 3), np.float32)
        self.log = []
        self.depth = 0
        self.overridden = False

    def move(self):
        """Make a random move."""
        moves = [self.compute, self.combine, self.rearrange, self.compare]
        moves += [
            self.differentiate,
            self.differentiate_twice,
            self.record_pullback,
            self.pull,
            self.check,
        ]
        moves += [self.transfer, self.dispose, self.assign, self.train, self.duplicate]
        moves += [self.fail]
        if self.depth < 3:
            moves += [self.switch, self.tidy, self.watch, self.override] * 2
        self.random.choice(moves)()

    def note(self, *words):
        self.log = [*self.log[-30:], " ".join(map(str, words))]

    # --- the pool ----------------------------------------------------------------

    def new(self):
        shape = self.random.choice([(2, 3), (3, 3), (1, 5), (4, 1), (16, 9)])
        rng = np.random.default_rng(self.random.getrandbits(32))
        values = rng.normal(size=shape).astype(np.float32)
        return pg.asarray(values), values

    def pick(self):
        if not self.pool or self.random.random() < 0.2:
            self.pool.append(self.new())
        return self.random.choice(self.pool)

    def add(self, x, wanted, what):
        """Check a new tensor; add it to the pool if its shape and numbers are small."""
        self.note(what, x.shape, x.backend)
        close(x.numpy(), wanted)
        if x.ndim == 2 and 0 < x.size <= 200 and np.abs(x.numpy()).max() < 100:
            self.pool.append((x, x.numpy().copy()))
        if len(self.pool) > 12:
            del self.pool[self.random.randrange(12)]

    def check(self):
        for x, values in self.pool:
            np.testing.assert_array_equal(x.numpy(), values)
        np.testing.assert_array_equal(self.variable.numpy(), self.expected)

    # --- computing ---------------------------------------------------------------

    def compute(self):
        x, values = self.pick()
        op, formula, _ = self.random.choice(UNARY)
        self.add(op(x), formula(values.astype(float)), "compute")

    def combine(self):
        x, a = self.pick()
        op, formula = self.random.choice(BINARY)
        y, b = self.random.choice([p for p in self.pool if p[1].shape == a.shape])
        self.add(op(x, y), formula(a.astype(float), b), "combine")

    def rearrange(self):
        x, values = self.pick()
        op, formula = self.random.choice(REARRANGED)
        self.add(op(x), formula(values), "rearrange")

    def compare(self):
        x, values = self.pick()
        number = self.random.randrange(len(COMPARED))
        f = lambda x: COMPARED[number](x)
        self.note("compare", number, values.shape, pg.get_backend())
        y, pull = pg.vjp(f, x)
        (dx,) = pull(pg.ones_like(y))
        with pg.use_backend("cpu"):
            wanted, pull = pg.vjp(f, pg.asarray(values))
            (slope,) = pull(pg.ones_like(wanted))
        close(y.numpy(), wanted.numpy(), 1e-3)
        if not self.overridden:
            close(dx.numpy(), slope.numpy(), 1e-3)

    # --- gradients ---------------------------------------------------------------

    def chain(self):
        """Return a function, its formula and its derivative."""
        links = self.random.choices(UNARY, k=self.random.randint(1, 3))

        def f(x):
            for op, _, _ in links:
                x = op(x)
            return x

        def slope(x):
            x = x.astype(float)
            total = 1.0
            for _, formula, derivative in links:
                x, total = formula(x), total * derivative(x)
            return total

        return f, slope

    def differentiate(self):
        x, values = self.pick()
        f, slope = self.chain()
        dx = pg.grad(lambda x: pg.sum(f(x)))(x)
        wanted = dx.numpy().copy() if self.overridden else slope(values)
        self.add(dx, wanted, "differentiate")

    def differentiate_twice(self):
        x, values = self.pick()
        cube = lambda x: pg.sum(x * x * x)
        second = pg.grad(lambda x: pg.sum(pg.grad(cube)(x)))(x)
        self.add(second, 6 * values, "twice")

    def record_pullback(self):
        if len(self.pulls) < 5 and not self.overridden:
            x, values = self.pick()
            f, slope = self.chain()
            y, pull = pg.vjp(f, x)
            self.pulls.append((pull, slope(values)))
            self.note("prepare", y.shape, y.backend)

    def pull(self):
        if self.pulls:
            pull, wanted = self.random.choice(self.pulls)
            self.note("pull", wanted.shape)
            self.add(pull(pg.ones(wanted.shape))[0], wanted, "pull")
            if self.random.random() < 0.3:
                self.pulls.remove(next(p for p in self.pulls if p[0] is pull))

    def train(self):
        before = self.expected.astype(float)
        loss = lambda: pg.mean(pg.square(self.variable - 1.0))
        _, found = pg.variable_grads(loss, [self.variable])
        self.variable.assign(self.variable.value - 0.5 * found[self.variable])
        close(self.variable.numpy(), before - (before - 1) / before.size)
        self.expected = self.variable.numpy().copy()
        self.note("train", self.variable.value.backend)

    # --- handles -----------------------------------------------------------------

    def transfer(self):
        x, values = self.pick()
        name = self.random.choice(self.backends)
        moved = x.to(name)
        assert moved.backend == name
        self.add(moved, values, "travel")

    def dispose(self):
        if self.pool:
            x, values = self.pool.pop(self.random.randrange(len(self.pool)))
            self.pool = [p for p in self.pool if p[0] is not x]  # and its aliases
            other = pg.stop_gradient(x)
            pg.dispose(x)
            self.note("dispose", values.shape)
            with pytest.raises(ValueError, match="disposed"):
                x.numpy()
            np.testing.assert_array_equal(other.numpy(), values)

    def assign(self):
        values = np.full((2, 3), self.random.randrange(8), np.float32)
        self.variable.assign(pg.asarray(values))
        self.expected = values
        self.note("assign")

    def duplicate(self):
        x, values = self.pick()
        function = self.random.choice([copy.copy, copy.deepcopy])
        self.add(function(x), values, function.__name__)
        self.add(pickle.loads(pickle.dumps(x)), values, "pickle")

    def fail(self):
        x, _ = self.pick()
        self.note("fail", x.shape)
        with pytest.raises(ValueError, match="matmul: "):
            pg.grad(lambda x: pg.sum(x + pg.zeros((7, 7, 7)) @ pg.ones((8, 8))))(x)

    # --- blocks ------------------------------------------------------------------

    def move_inside(self):
        self.depth += 1
        for _ in range(self.random.randint(1, 5)):
            self.move()
        self.depth -= 1

    def switch(self):
        name = self.random.choice(self.backends)
        self.note("use", name)
        with pg.use_backend(name):
            self.move_inside()
            assert pg.get_backend() == name

    def tidy(self):
        before = {id(x): x for x, _ in self.pool}
        self.note("tidy")
        with pg.tidy():
            self.move_inside()
            pairs = [p for p in self.pool if self.random.random() < 0.5]
            pg.keep([x for x, _ in pairs])
        kept_ids = {id(x) for x, _ in pairs} | before.keys()
        self.pool = [p for p in self.pool if id(p[0]) in kept_ids]
        self.check()  # the kept tensors are still valid

    def watch(self):
        kind = self.random.choice(["profile", "debug"] * 5 + ["memory"])
        self.note(kind)
        if kind == "memory":
            assert pg.memory().tensors >= len({id(x) for x, _ in self.pool})
        else:
            with getattr(pg, kind)():
                self.move_inside()

    def override(self):
        """Override a gradient, which the other threads must not see."""
        self.note("override")
        before, self.overridden = self.overridden, True
        with pg.override_gradient("Tanh", x=lambda dy: dy * 3.0):
            x = pg.asarray([0.5, 2.0])
            assert pg.grad(lambda x: pg.sum(pg.tanh(x)))(x).tolist() == [3.0, 3.0]
            self.move_inside()
        self.overridden = before


def play(seed, backends, *, players=3, moves=60):
    """Let players play at the same time, exchange a tensor each, and continue.

    Raises:
        AssertionError: A check failed. The message says how to repeat the run.

    """
    barrier = threading.Barrier(players)
    exchanged, failures = {}, []

    def run(number):
        player = Player(seed * 1000 + number, backends)
        try:
            barrier.wait(60)
            for half in (0, 1):
                for _ in range(moves // 2):
                    player.move()
                x, values = player.pick()
                # A copy of the handle, because this player may dispose of ``x``.
                exchanged[half, number] = pg.stop_gradient(x), values
                barrier.wait(600)
                player.pool.append(exchanged[half, (number + 1) % players])
            player.check()
        except BaseException as error:
            barrier.abort()
            if not isinstance(error, threading.BrokenBarrierError):
                failures.append((number, error, player.log))

    threads = [threading.Thread(target=run, args=(i,)) for i in range(players)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        number, error, log = failures[0]
        raise AssertionError(
            f"player {number} of --soak-seed={seed}: {type(error).__name__}: {error}\n"
            "after " + ", ".join(log)
        ) from error
