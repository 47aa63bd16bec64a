"""Random numbers: literal values, distributions, independence, threads and forks."""

import hashlib
import itertools
import math
import subprocess
import sys
import threading
from statistics import NormalDist

import numpy as np
import plugrad as pg
import pytest
from plugrad import random

from ..check import check_gradients, require_dtypes
from ..toy import toy

# --- the promise: these numbers never change --------------------------------------

FROZEN_VALUES = {
    "random.uniform(4, seed=0)": [0.03474188, 0.011546731, 0.6119502, 0.2415492],
    "random.uniform(4, seed=2**64 - 1)": [0.5541741, 0.23494154, 0.6799778, 0.7173107],
    "random.uniform(3, minval=-10, maxval=100, seed=1)": [
        40.438778,
        23.39248,
        70.240875,
    ],
    'random.uniform(3, dtype="float64", seed=1)': [
        0.3035680343067586,
        0.8487087496857769,
        0.1561347780434731,
    ],
    "random.uniform_int(8, -50, 50, seed=2)": [-32, 42, 35, 39, 38, 4, -48, 26],
    'random.uniform_int(2, -(2**62), 2**63 - 1, dtype="int64", seed=3)': [
        2450243930735739431,
        -3151414453934738355,
    ],
    "random.bernoulli(9, 0.3, seed=4)": [
        False,
        True,
        False,
        False,
        False,
        False,
        True,
        True,
        False,
    ],
    "random.normal(4, seed=5)": [-0.34014684, 0.5380817, -1.2596132, 0.7665265],
    'random.normal((2, 2), mean=1, stddev=3, dtype="float64", seed=5)': [
        [-0.020440495341417897, 2.614245105330792],
        [-2.7788395228378406, 3.2995794900472375],
    ],
    'random.truncated_normal(4, dtype="float64", seed=6)': [
        0.3860632418113227,
        1.0401471329213479,
        -1.8774970089416272,
        -1.0622867531699027,
    ],
    'random.exponential(4, rate=3, dtype="float64", seed=7)': [
        0.0456272071471505,
        0.4065140358829438,
        0.28908934229001754,
        0.3009667241561148,
    ],
    'random.gamma(4, 2.5, 2, dtype="float64", seed=8)': [
        1.0873264582394002,
        1.7443191903119146,
        1.1898031821813488,
        0.5509281917031459,
    ],
    'random.gamma(4, 0.3, dtype="float64", seed=8)': [
        0.0004547214883618017,
        0.0001271558404007081,
        0.019045930986625482,
        0.002834935292855166,
    ],
    "random.normal(3, seed=random.key(5))": [-0.34014684, 0.5380817, -1.2596132],
    "random.key(2**64 - 2)": [-1, -2],
    "random.split(random.key(18), 3)": [
        [1031763804, 1737621797],
        [86118107, -133582668],
        [221581299, 588663839],
    ],
    "random.split(random.key(18), 2)": [
        [1031763804, 1737621797],
        [86118107, -133582668],
    ],
    "random.fold_in(random.key(18), 2**64 - 1)": [-600221085, -960932148],
    "random.permutation(10, seed=9)": [9, 0, 2, 6, 4, 5, 1, 3, 8, 7],
    "random.shuffle(pg.arange(7), seed=10)": [6, 1, 4, 2, 0, 5, 3],
    "random.choice(100, 8, seed=11)": [55, 40, 72, 1, 11, 6, 53, 81],
    "random.choice(10, 6, replace=False, seed=12)": [6, 3, 2, 5, 1, 0],
    "random.choice(4, 7, p=[1, 2, 3, 4], seed=13)": [3, 1, 2, 3, 1, 3, 3],
    "random.choice(6, 4, replace=False, p=[1, 2, 3, 4, 5, 6], seed=14)": [5, 1, 2, 0],
    "random.multinomial([0.0, 1.0, 2.0], 8, seed=15)": [2, 2, 2, 2, 2, 2, 2, 1],
    "random.multinomial([0.2, 0.3, 0.5], 8, normalized=True, seed=15)": [
        2,
        2,
        2,
        2,
        0,
        2,
        2,
        0,
    ],
    "pg.dropout(pg.ones((8,)), 0.5, seed=16)": [0.0, 2.0, 0.0, 2.0, 2.0, 2.0, 0.0, 0.0],
    '(random.seed(17), random.normal(3, dtype="float64"))[1]': [
        0.5365079532361967,
        0.5150880451826129,
        -0.2761677207567035,
    ],
    '(random.seed(17), random.normal(3), random.normal(3, dtype="float64"))[2]': [
        0.8165526019169617,
        0.46737227215514376,
        -1.0701516783896277,
    ],
}


@pytest.mark.parametrize("row", FROZEN_VALUES)
def test_the_numbers_of_a_seed_never_change(row, backend):
    expected = FROZEN_VALUES[row]
    for dtype in ("float32", "float64"):
        if dtype in row:
            require_dtypes(backend, dtype)
    y = eval(row, {"random": random, "pg": pg})
    np.testing.assert_array_equal(y.numpy(), np.asarray(expected, y.dtype))


# SHA-256 of 100,000 float64 numbers, which reach every branch of the transforms.
DIGESTS = {
    "uniform": "de4021b0e1a101c4",
    "normal": "dcfae2cd74fa66ee",
    "truncated_normal": "301b634bb55b30b6",
    "exponential": "216de9be0883d813",
    "gamma 2.5": "9c119ade92be2b33",
    "gamma 0.3": "75e085a6ac2cd861",
    "gamma 1000": "4111e8b2909fb968",
}


@pytest.mark.parametrize("row", DIGESTS)
def test_no_bit_of_100_000_numbers_changes(row):
    op, *parameters = row.split()
    draw = getattr(random, op)
    y = draw(100_000, *map(float, parameters), dtype="float64", seed=1).numpy()
    assert hashlib.sha256(y.astype("<f8")).hexdigest()[:16] == DIGESTS[row]


def test_philox_gives_the_known_answer():
    """Compare with Random123; NumPy increments the counter before it draws."""
    words = np.random.Philox(key=0, counter=2**256 - 1).random_raw(4)
    assert list(map(hex, words.tolist())) == [
        "0x16554d9eca36314c",
        "0xdb20fe9d672d0fdc",
        "0xd7e772cee186176b",
        "0x7e68b68aec7ba23b",
    ]


def test_a_seed_repeats_the_sequence_of_calls(backend):
    calls = (
        lambda: random.uniform((3,)),
        lambda: random.gamma((3,), 0.5),
        lambda: random.permutation(5),
    )
    random.seed(7)
    first = [call().tolist() for call in calls]
    random.uniform((2,), seed=1)  # does not advance the global stream
    second = [call().tolist() for call in calls]
    random.seed(7)
    assert [call().tolist() for call in calls] == first
    assert [call().tolist() for call in calls] == second
    assert first[0] != second[0] != random.uniform((3,), seed=7).tolist()
    random.seed(7)
    assert random.uniform((3,)).tolist() != random.uniform((3,), seed=7).tolist()
    random.seed()
    assert [call().tolist() for call in calls] != first
    one = random.uniform(3, seed=3)
    other = random.uniform(3, seed=np.int64(3))
    assert one.tolist() == other.tolist()


OPS = {
    "uniform": random.uniform,
    "uniform64": lambda shape, seed: random.uniform(shape, dtype="float64", seed=seed),
    "uniform_int": lambda shape, seed: random.uniform_int(shape, 0, 1000, seed=seed),
    "bernoulli": random.bernoulli,
    "normal": random.normal,
    "truncated_normal": random.truncated_normal,
    "exponential": random.exponential,
    "multinomial": lambda n, seed: random.multinomial([1.0, 2, 3], n, seed=seed),
}


@pytest.mark.parametrize("op", OPS)
def test_a_short_draw_is_the_beginning_of_a_long_draw(op):
    """The result depends neither on chunk sizes nor on the shape."""
    n = (1 << 17) + 1
    long = OPS[op](n, seed=5).numpy()
    np.testing.assert_array_equal(OPS[op](99, seed=5).numpy(), long[:99])
    if op != "multinomial":
        matrix = OPS[op]((3, 11), seed=5).numpy()
        np.testing.assert_array_equal(matrix.ravel(), long[:33])
    assert OPS[op](0, seed=5).shape == (0,)


@pytest.mark.parametrize("op", OPS)
def test_every_backend_draws_the_same_numbers(op):
    expected = OPS[op](1000, seed=1).numpy()
    dtypes = ["bool", "int32", "float32", "float64"]
    with toy(without=["Multinomial"], dtypes=dtypes), pg.use_backend("toy"):
        y = OPS[op](1000, seed=1)
        assert y.backend == "toy"
    np.testing.assert_array_equal(y.numpy(), expected)


# --- threads and processes -------------------------------------------------------


def test_threads_share_one_sequence_and_get_different_numbers():
    random.seed(11)
    expected = {random.uniform(4).numpy().tobytes() for _ in range(400)}
    random.seed(11)
    drawn = [[] for _ in range(8)]

    def draw(results):
        for _ in range(50):
            results.append(random.uniform(4).numpy().tobytes())

    threads = [threading.Thread(target=draw, args=(results,)) for results in drawn]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(expected) == 400
    assert set(itertools.chain(*drawn)) == expected


FORK = """
import os, sys
import plugrad as pg
if sys.argv[1]:
    pg.random.seed(int(sys.argv[1]))
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, pg.random.uniform(4).numpy().tobytes())
    os._exit(0)
os.wait()
print(os.read(read, 99) == pg.random.uniform(4).numpy().tobytes())
"""


@pytest.mark.skipif(
    not hasattr(sys.modules["os"], "fork"), reason="this system cannot fork"
)
@pytest.mark.parametrize(("seed", "is_same"), [("", "False"), ("5", "True")])
def test_a_forked_child_repeats_its_parent_only_if_seeded(seed, is_same):
    run = subprocess.run(
        [sys.executable, "-c", FORK, seed], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == is_same


# --- distributions ---------------------------------------------------------------


def gamma_cdf(alpha, x):
    """Return the lower incomplete gamma function by its series, for x up to 30."""
    term = 1 / math.gamma(alpha + 1)
    total = 0.0
    for n in range(1, 200):
        total += term
        term *= x / (alpha + n)
    return x**alpha * math.exp(-x) * total


def truncated_cdf(x):
    low = NormalDist().cdf(-2)
    return (NormalDist().cdf(x) - low) / (1 - 2 * low)


# The function that draws, the distribution function, the mean and the variance.
DRAWS = {
    "uniform": (
        lambda **options: random.uniform(20_000, minval=-1, maxval=3, **options),
        lambda x: (x + 1) / 4,
        (1, 16 / 12),
    ),
    "normal": (
        lambda **options: random.normal(20_000, mean=2, stddev=3, **options),
        NormalDist(2, 3).cdf,
        (2, 9),
    ),
    "truncated_normal": (
        lambda **options: random.truncated_normal(20_000, mean=-1, stddev=2, **options),
        lambda x: truncated_cdf((x + 1) / 2),
        (-1, 4 * 0.7737413),
    ),
    "exponential": (
        lambda **options: random.exponential(20_000, rate=4, **options),
        lambda x: 1 - math.exp(-4 * x),
        (1 / 4, 1 / 16),
    ),
    **{
        f"gamma {alpha}": (
            lambda alpha=alpha, **options: random.gamma(20_000, alpha, 2, **options),
            lambda x, alpha=alpha: gamma_cdf(alpha, 2 * x),
            (alpha / 2, alpha / 4),
        )
        for alpha in (0.1, 0.5, 1, 1.5, 8)
    },
}


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("row", DRAWS)
def test_distributions(row, dtype, backend):
    """Check the first two moments, and the Kolmogorov-Smirnov test at level 0.001."""
    require_dtypes(backend, dtype)
    draw, cdf, (mean, variance) = DRAWS[row]
    y = draw(dtype=dtype, seed=9)
    assert (y.shape, y.dtype) == ((20_000,), dtype)
    values = np.sort(y.numpy().astype(np.float64))
    assert values.mean() == pytest.approx(mean, abs=4 * math.sqrt(variance / 20_000))
    assert values.var() == pytest.approx(variance, rel=0.15)
    if dtype != "float16":
        probabilities = np.asarray([*map(cdf, values.tolist())])
        empirical = np.arange(20_001) / 20_000
        gap = max(
            np.max(empirical[1:] - probabilities),
            np.max(probabilities - empirical[:-1]),
        )
        assert gap * math.sqrt(20_000) < 1.95


def is_fair(counts, probabilities=None):
    """Return whether chi-squared is below its mean plus 5 standard deviations."""
    counts = np.asarray(counts)
    probabilities = (
        np.full(len(counts), 1 / len(counts))
        if probabilities is None
        else probabilities
    )
    expected = np.asarray(probabilities) * counts.sum()
    degrees_of_freedom = len(counts) - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return statistic < degrees_of_freedom + 5 * math.sqrt(2 * degrees_of_freedom)


RANGES = [
    ("int32", -3, 4),
    ("int32", -(2**31), 2**31),
    ("int64", -(2**63), 2**63),
    ("int64", -(2**62), 2**63),  # a quarter of the words is rejected
    ("uint64", 0, 2**64),
    ("uint64", 0, 2**63 + 1),  # nearly half of the words are rejected
    ("uint8", 0, 256),
    ("int8", -128, -27),
    ("int32", 5, 6),
]


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
def test_integers_have_no_bias(dtype, low, high, backend):
    require_dtypes(backend, dtype)
    y = random.uniform_int((40, 500), low, high, dtype=dtype, seed=4)
    assert (y.shape, y.dtype) == ((40, 500), dtype)
    numbers = [n - low for n in y.numpy().ravel().tolist()]
    assert min(numbers) >= 0
    assert max(numbers) < high - low
    bins = min(high - low, 101)
    if bins > 1:
        counts = np.bincount(
            [n * bins // (high - low) for n in numbers], minlength=bins
        )
        edges = [-(-(i + 1) * (high - low) // bins) for i in range(-1, bins)]
        assert is_fair(counts, np.diff(np.asarray(edges) / (high - low)))


@pytest.mark.parametrize("p", [0, 0.001, 0.3, 1])
def test_bernoulli(p, backend):
    y = random.bernoulli((100, 300), p, seed=2).numpy()
    assert (y.dtype, y.shape) == (bool, (100, 300))
    assert y.mean() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / y.size))


def test_all_orders_are_equally_likely(backend):
    random.seed(0)
    orders = [tuple(random.permutation(3).tolist()) for _ in range(1200)]
    counts = [orders.count(order) for order in itertools.permutations(range(3))]
    assert sum(counts) == 1200
    assert is_fair(counts)
    assert sorted(random.permutation(1000).tolist()) == [*range(1000)]
    assert random.permutation(0).shape == (0,)
    assert random.permutation(4).dtype == np.int32


def test_calls_and_neighbours_are_independent():
    random.seed(21)
    calls = [random.normal(1000, dtype="float64").numpy() for _ in range(20)]
    calls += [random.normal(1000, dtype="float64", seed=n).numpy() for n in range(20)]
    correlations = np.corrcoef(calls)[np.triu_indices(40, 1)] * math.sqrt(1000)
    assert abs(correlations).max() < 4.5
    assert correlations.var() == pytest.approx(1, abs=0.2)
    one = random.normal(20_000, dtype="float64", seed=3).numpy()
    for lag in (1, 2, 3, 4, 7):  # Philox makes four words at a time
        for f in (lambda z: z, np.abs):
            correlation = np.corrcoef(f(one[lag:]), f(one[:-lag]))[0, 1]
            assert abs(correlation) * math.sqrt(20_000) < 4


def test_keys_are_used_as_seeds(backend):
    one, other = random.split(random.key(3))
    for op in OPS.values():
        assert op(50, seed=one).tolist() == op(50, seed=one).tolist()
    assert (
        random.uniform(9, seed=one).tolist() != random.uniform(9, seed=other).tolist()
    )
    random.seed(one)
    first = random.uniform(9).tolist()
    random.seed(one)
    assert random.uniform(9).tolist() == first != random.uniform(9, seed=one).tolist()
    assert random.split(one, (2, 3)).shape == (2, 3, 2)
    assert random.split(one, 0).shape == (0, 2)
    assert (
        random.fold_in(one, pg.asarray(7)).tolist() == random.fold_in(one, 7).tolist()
    )


INVALID_KEYS = {
    "random.normal(2, seed=random.split(KEY, 3))": "shape \\(3, 2\\); .* several keys",
    "random.split(pg.asarray([1.0, 2.0]))": "split: a key must .*, got float32 of",
    "random.fold_in(3, 4)": "fold_in: a key must be an int32 .*random.key\\(seed\\)",
    "random.fold_in(KEY, -1)": "fold_in: a number must be from 0 to below",
    "random.key(2**64)": "key: a seed must be from 0 to below",
    "random.split(KEY, -1)": "split: n -1 must not be negative",
}


@pytest.mark.parametrize("row", INVALID_KEYS)
def test_invalid_keys(row, backend):
    with pytest.raises(ValueError, match=INVALID_KEYS[row]):
        eval(row, {"random": random, "pg": pg, "KEY": random.key(1)})


def _words(keys):
    return np.ascontiguousarray(keys.numpy().astype(">i4")).view(">u8")[..., 0]


def test_streams_of_keys_are_independent():
    key = random.key(5)
    steps = [random.fold_in(key, n) for n in range(30)]
    keys = [key, *random.split(key, 30), *steps, *random.split(steps[0], 30)]
    draws = [random.normal(1000, dtype="float64", seed=k).numpy() for k in keys]
    correlations = np.corrcoef(draws)[np.triu_indices(91, 1)] * math.sqrt(1000)
    assert abs(correlations).max() < 5.2  # the largest of 4,095
    assert correlations.var() == pytest.approx(1, abs=0.1)


def test_keys_look_random():
    n = 50_000
    split = _words(random.split(random.key(0), n))
    folded = _words(pg.stack([random.fold_in(random.key(0), i) for i in range(2000)]))
    first = _words(pg.stack([random.split(random.key(i))[0] for i in range(1, 2001)]))
    every = np.concatenate([split, folded, first])
    assert len(np.unique(every)) == len(every)
    for words in (split, folded, first):
        bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
        slack = 5 * math.sqrt(0.25 / len(bits))
        assert abs(bits.mean(axis=0) - 0.5).max() < slack  # for each of 64 bits
        changes = (bits[1:] != bits[:-1]).sum(axis=1)  # between neighbours
        assert changes.mean() == pytest.approx(32, abs=5 * 4 / math.sqrt(len(bits)))
        assert changes.std() == pytest.approx(4, rel=0.1)


def test_limits_of_uniform(backend):
    y = random.uniform(100_000, seed=0).numpy()
    assert 0 <= y.min() < 1e-4
    assert 1 - 1e-4 < y.max() < 1
    y = random.uniform(100_000, minval=1, maxval=1 + 2**-22, seed=0).numpy()
    assert set(y.tolist()) == {1, 1 + 2**-23}
    require_dtypes(backend, "float16")
    y = random.uniform(100_000, dtype="float16", seed=0).numpy()
    assert y.max() == 1 - 2**-11
    y = random.uniform(1000, minval=-65504, maxval=65504, dtype="float16", seed=0)
    assert np.isfinite(y.numpy()).all()


def test_normal_distributions_without_deviation(backend):
    assert random.normal((2, 0), mean=3, stddev=0).shape == (2, 0)
    assert random.normal((), mean=3, stddev=0).item() == 3
    assert random.truncated_normal((2,), mean=3, stddev=0).tolist() == [3, 3]
    y = random.truncated_normal(10_000, seed=0).numpy()
    assert 1.99 < abs(y).max() <= 2


def test_gamma_with_a_tiny_shape_parameter(backend):
    y = random.gamma(1000, 1e-4, seed=0).numpy()
    assert (y >= 0).all()
    assert (y == 0).mean() > 0.95
    assert random.gamma((2, 0), 3).shape == (2, 0)


# --- choice ----------------------------------------------------------------------


def test_choice_with_equal_weights(backend):
    y = random.choice(7, (30, 100), seed=1)
    assert (y.shape, y.dtype) == ((30, 100), np.int32)
    assert is_fair(np.bincount(y.numpy().ravel(), minlength=7))
    assert sorted(random.choice(5, (5,), replace=False).tolist()) == [*range(5)]
    assert len(set(random.choice(1000, (10, 30), replace=False).numpy().flat)) == 300
    assert random.choice(np.int64(3)).shape == ()
    assert random.choice(0, (0, 2)).shape == (0, 2)


def test_choice_by_weight(backend):
    p = [0.1, 0, 0.6, 0.3, 0]
    y = random.choice(5, 5000, p=p, seed=1).numpy()
    counts = np.bincount(y, minlength=5)
    assert counts[1] == counts[4] == 0
    assert is_fair(counts[[0, 2, 3]], [0.1, 0.6, 0.3])
    scaled = random.choice(5, 5000, p=pg.asarray([1, 0, 6, 3, 0]), seed=1)
    assert (scaled.numpy() == y).mean() > 0.999
    assert random.choice(0, 0, p=[]).shape == (0,)
    assert set(random.choice(3, 50, p=[1e308, 0, 1.7e308]).tolist()) == {0, 2}


def test_choice_by_weight_without_replacement(backend):
    random.seed(5)
    pairs = [
        tuple(random.choice(3, 2, p=[1, 2, 5], replace=False).tolist())
        for _ in range(2000)
    ]
    w = [1 / 8, 2 / 8, 5 / 8]
    orders = [*itertools.permutations(range(3), 2)]
    probabilities = [w[a] * w[b] / (1 - w[a]) for a, b in orders]
    assert is_fair([pairs.count(order) for order in orders], probabilities)
    assert sorted(random.choice(4, 2, p=[0, 1, 0, 9], replace=False).tolist()) == [1, 3]


def test_choice_and_shuffle_of_slices(backend):
    x = np.arange(24).reshape(2, 3, 4)
    y = random.shuffle(x, axis=-1, seed=3).numpy()
    order = random.permutation(4, seed=3).numpy()
    np.testing.assert_array_equal(y, x[:, :, order])
    y = random.choice(x, (2, 2), axis=1, seed=3)
    places = random.choice(3, (2, 2), seed=3).numpy()
    np.testing.assert_array_equal(y.numpy(), x[:, places])
    assert y.dtype == x.dtype


def test_gradients_of_choice_and_shuffle(backend):
    require_dtypes(backend, "float64")
    x = np.random.default_rng(0).normal(size=(4, 3))
    check_gradients(lambda x: random.shuffle(x * x, seed=1), x)
    check_gradients(lambda x: random.choice(x * x, (5,), axis=1, seed=1), x)


# --- multinomial -----------------------------------------------------------------

P = np.asarray([[0.2, 0.5, 0.3], [0.05, 0.05, 0.9]])


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("shift", [0, 1000])
def test_multinomial(normalized, shift, backend):
    given = P * (1 + shift) if normalized else np.log(P) + shift
    given = given.astype(np.float32)
    y = random.multinomial(given, 4000, normalized=normalized, seed=1)
    assert (y.shape, y.dtype) == ((2, 4000), np.int32)
    for row, p in zip(y.numpy(), P, strict=True):
        assert is_fair(np.bincount(row, minlength=3), p)


def test_shapes_of_multinomial(backend):
    logits = np.log(P).astype(np.float32)
    assert random.multinomial(logits[0], 5).shape == (5,)
    batches = np.broadcast_to(logits, (4, 1, 2, 3))
    assert random.multinomial(batches, 5).shape == (4, 1, 2, 5)
    assert random.multinomial(batches[:0], 5).shape == (0, 1, 2, 5)
    assert random.multinomial(logits, 0).shape == (2, 0)
    assert random.multinomial([3.0], 4).tolist() == [0] * 4
    assert random.multinomial([0, 1, 0], 3, normalized=True).tolist() == [1] * 3


def test_multinomial_with_extreme_weights(backend):
    inf = math.inf
    for logits, only in [
        ([-inf, 0, -inf], 1),
        ([-inf, -inf, -inf], 0),
        ([0, inf, 5], 1),
        ([-1e38, 1e38, 0], 1),
        ([math.nan, -1e30, 0], 2),
    ]:
        assert set(random.multinomial(logits, 50, seed=0).tolist()) == {only}
    for weights, only in [([0, 0, 0], 0), ([0, 1e-30, 0], 1), ([math.nan, 0, 1], 2)]:
        y = random.multinomial(weights, 50, normalized=True, seed=0)
        assert set(y.tolist()) == {only}


def test_multinomial_has_no_gradient(backend):
    def f(x):
        return pg.sum(x * x) + pg.sum(
            pg.astype(random.multinomial(x, 3, seed=1), "float32")
        )

    assert pg.grad(f)(pg.asarray([1.0, 2.0])).tolist() == [2, 4]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("normalized", [False, True])
def test_decomposition_of_multinomial(dtype, normalized):
    """Every sample agrees: no step depends on how a backend rounds."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(50, 17)).astype(dtype)
    logits = abs(logits) if normalized else logits
    logits[0, 0] = math.nan
    logits[1, 0] = math.inf
    logits[2] = -math.inf
    options = {"normalized": normalized, "seed": 8}
    expected = random.multinomial(logits, 200, **options).numpy()
    dtypes = ["bool", "int32", "float16", "float32", "float64"]
    with toy(without=["Multinomial"], dtypes=dtypes), pg.use_backend("toy"):
        y = random.multinomial(logits, 200, **options)
    np.testing.assert_array_equal(y.numpy(), expected)


# --- dropout ---------------------------------------------------------------------


def test_dropout(backend):
    x = np.random.default_rng(0).normal(size=(100, 90)).astype(np.float32)
    y = pg.dropout(x, 0.25, seed=3).numpy()
    mask = random.bernoulli((100, 90), 0.75, seed=3).numpy()
    np.testing.assert_allclose(y, np.where(mask, x / 0.75, 0), rtol=1e-6)
    assert y.dtype == np.float32
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.02)
    random.seed(1)
    assert (pg.dropout(x, 0.5).numpy() != pg.dropout(x, 0.5).numpy()).any()
    tensor = pg.asarray(x)
    assert pg.dropout(tensor, 0) is not tensor  # users may assign to it
    np.testing.assert_array_equal(pg.dropout(tensor, 0).numpy(), x)
    assert pg.dropout([1, 2], 0).dtype == np.float32
    assert pg.dropout(np.empty((0, 3), np.float32), 0.5).shape == (0, 3)


def test_dropped_infinities_do_not_give_nan(backend):
    x = pg.full((50,), math.inf)
    y = pg.dropout(x, 0.5, seed=1).numpy()
    assert set(y.tolist()) == {0, math.inf}
    dx = pg.grad(lambda x: pg.sum(pg.dropout(x, 0.5, seed=1)))(x).numpy()
    np.testing.assert_array_equal(dx, np.where(y == 0, 0, 2))


@pytest.mark.parametrize(
    "noise", [(4, 1), (4, None), (1, 3), (3,), (None,), (1, 1), ()]
)
def test_noise_shape_of_dropout(noise, backend):
    y = pg.dropout(pg.ones((4, 3)), 0.5, noise_shape=noise, seed=2).numpy()
    sizes = {(4, None): (4, 3), (None,): (3,)}.get(noise, noise)
    expected = random.bernoulli(sizes, 0.5, seed=2).numpy() * 2.0
    np.testing.assert_array_equal(y, np.broadcast_to(expected, (4, 3)))


def test_a_call_that_fails_draws_nothing(backend):
    random.seed(5)
    expected = random.uniform((2,)).tolist()
    random.seed(5)
    with pytest.raises(TypeError, match="normalized must be True or False"):
        random.multinomial([1.0, 2.0], 3, normalized="no")
    assert random.uniform((2,)).tolist() == expected


def test_gradients_of_dropout(backend):
    require_dtypes(backend, "float64")
    x = np.random.default_rng(0).normal(size=(4, 3))
    check_gradients(lambda x: pg.dropout(x * x, 0.4, seed=1), x)
    check_gradients(lambda x: pg.dropout(x * x, 0.4, noise_shape=(4, 1), seed=1), x)


# --- errors ----------------------------------------------------------------------

ERRORS = [
    (
        lambda: random.seed(-1),
        ValueError,
        r"a seed must be from 0 to below 2\*\*64",
    ),
    (lambda: random.seed(0.5), TypeError, "seed: seed must be an integer, got 0.5"),
    (lambda: random.normal(3, seed="a"), TypeError, "normal: seed must be an int"),
    (
        lambda: random.uniform(3, seed=2**64),
        ValueError,
        "uniform: a seed must be from 0 .* got 18446744073709551616",
    ),
    (
        lambda: random.uniform((2, 2.5)),
        TypeError,
        r"uniform: shape must be integers, got \(2, 2.5\)",
    ),
    (lambda: random.normal((2, -1)), ValueError, r"normal: shape .* must not be negat"),
    (
        lambda: random.uniform(3, minval=1, maxval=1),
        ValueError,
        "uniform: minval 1.0 must be less than maxval 1.0 in float32",
    ),
    (
        lambda: random.uniform(3, minval=1, maxval=1 + 1e-9),
        ValueError,
        "in float32, and their difference finite",
    ),
    (
        lambda: random.uniform(3, maxval=1e39),
        ValueError,
        "in float32, and their difference finite",
    ),
    (
        lambda: random.uniform(3, maxval=math.inf),
        ValueError,
        "uniform: maxval must be finite, got inf",
    ),
    (
        lambda: random.uniform(3, dtype="int32"),
        TypeError,
        "uniform: int32 is not floating; use uniform_int or bernoulli",
    ),
    (
        lambda: random.normal(3, dtype="complex64"),
        TypeError,
        "normal: complex64 is not floating",
    ),
    (
        lambda: random.uniform_int(3, 0, 4, dtype="float32"),
        TypeError,
        "uniform_int: draws integers, not float32",
    ),
    (
        lambda: random.uniform_int(3, 0, 4.5),
        TypeError,
        "uniform_int: minval and maxval must be integers",
    ),
    (
        lambda: random.uniform_int(3, 4, 4),
        ValueError,
        "uniform_int: there is no integer from 4 to below 4",
    ),
    (
        lambda: random.uniform_int(3, 0, 2**31 + 1),
        OverflowError,
        "uniform_int: int32 cannot hold 0 to 2147483648",
    ),
    (
        lambda: random.bernoulli(3, 1.1),
        ValueError,
        "bernoulli: p must be from 0 to 1, got 1.1",
    ),
    (
        lambda: random.normal(3, stddev=-1),
        ValueError,
        "normal: stddev must not be negative, got -1.0",
    ),
    (
        lambda: random.truncated_normal(3, mean=math.nan),
        ValueError,
        "truncated_normal: mean must be finite, got nan",
    ),
    (
        lambda: random.normal(3, mean=pg.ones((3,))),
        TypeError,
        "normal: mean must be a number, got Tensor",
    ),
    (
        lambda: random.exponential(3, rate=0),
        ValueError,
        "exponential: rate must be positive and finite, got 0.0",
    ),
    (lambda: random.gamma(3, -1), ValueError, "gamma: alpha must be positive"),
    (lambda: random.gamma(3, 1, 0), ValueError, "gamma: beta must be positive .*got 0"),
    (
        lambda: random.permutation(-1),
        ValueError,
        "permutation: n -1 must be 0 or more",
    ),
    (lambda: random.shuffle(1.0), ValueError, "shuffle: axis 0 is out of range"),
    (
        lambda: random.choice([1, 2], axis=1),
        ValueError,
        "choice: axis 1 is out of range",
    ),
    (
        lambda: random.choice(3, 4, replace=False),
        ValueError,
        r"choice: cannot choose 4 of 3 \(replace=False\)",
    ),
    (lambda: random.choice(0, 1), ValueError, "choice: cannot choose 1 of 0"),
    (
        lambda: random.choice(3, 3, p=[1, 1, 0], replace=False),
        ValueError,
        "choice: cannot choose 3 of 2",
    ),
    (lambda: random.choice(2, 1, p=[0, 0]), ValueError, "choice: cannot choose 1 of 0"),
    (
        lambda: random.choice(3, 1, p=[1, 2]),
        ValueError,
        r"choice: p must be 3 finite, non-negative numbers, got \[1. 2.\]",
    ),
    (lambda: random.choice(2, 1, p=[1, -1]), ValueError, "non-negative"),
    (lambda: random.choice(2, 1, p=[1, math.nan]), ValueError, "non-negative"),
    (
        lambda: random.choice(2, 1, p=[1, math.inf]),
        ValueError,
        "2 finite, non-negative",
    ),
    (lambda: random.choice(2, 1, p="ab"), TypeError, "choice: p must be numbers"),
    (
        lambda: random.multinomial(1.0, 3),
        ValueError,
        r"multinomial: logits of shape \(\) have no classes",
    ),
    (lambda: random.multinomial(pg.ones((2, 0)), 3), ValueError, "have no classes"),
    (lambda: random.multinomial([1j], 3), TypeError, "no multinomial of complex"),
    (
        lambda: random.multinomial([1.0], 1.5),
        TypeError,
        "multinomial: num_samples must be an integer",
    ),
    (
        lambda: pg.dropout([1.0], 1),
        ValueError,
        "dropout: rate must be from 0 to below 1, got 1.0",
    ),
    (lambda: pg.dropout([1.0], -0.1), ValueError, "dropout: rate must be"),
    (lambda: pg.dropout([1.0], math.nan), ValueError, "dropout: rate must be finite"),
    (
        lambda: pg.dropout(pg.ones((3,)), 0.5, noise_shape=(2, 3)),
        ValueError,
        r"dropout: noise_shape must broadcast to \(3,\); got shape \(2, 3\)",
    ),
    (
        lambda: pg.dropout(pg.ones((3,)), 0.5, noise_shape=(2,)),
        ValueError,
        r"dropout: shapes \(3,\) and \(2,\) do not broadcast",
    ),
    (
        lambda: pg.dropout(pg.ones((3,)), 0.5, noise_shape=(None, 3)),
        TypeError,
        "dropout: noise_shape must be integers",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call, error, message, backend):
    with pytest.raises(error, match=message):
        call()


def test_a_refused_call_draws_nothing():
    random.seed(1)
    first = random.uniform(3).tolist()
    random.seed(1)
    with pytest.raises(ValueError, match="minval"):
        random.uniform(3, minval=2)
    assert random.uniform(3).tolist() == first


def test_a_dtype_that_the_backend_does_not_support():
    with toy(dtypes=["bool", "int32", "float32"]), pg.use_backend("toy"):
        assert random.normal(3).dtype == np.float32
        with pytest.raises(TypeError, match="backend 'toy' has no float64"):
            random.normal(3, dtype="float64")
