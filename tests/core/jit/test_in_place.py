"""Functions that assign items of their arguments, and updates in place in replays."""

import copy
import gc
import random
import weakref

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin

from .helpers import bits, floats, look, reason


def put(cache, at, row):
    cache[:, at] = row
    return cache


def put_twice(cache, at, row):
    cache[:, at] = row
    old = pg.sum(cache)
    cache[0] = row[0]
    return {"cache": cache, "old": old, "now": pg.sum(cache)}


def put_and_use(cache, at, row):
    before = cache * 1.0
    cache[:, at] = row
    return before, cache[0]


def put_nothing_back(cache, at, row):
    cache[:, at] = row


def put_another(cache, at, row):
    cache[...] = row[:, None]
    return at + 1


def put_update(cache, at, row):
    row[0] = cache[0, at] + 1.0
    cache[0, at] = row[1]
    return row, cache


FUNCTIONS = [put, put_twice, put_and_use, put_nothing_back, put_another, put_update]


@pytest.mark.parametrize(
    "options", [{}, {"donate": "cache"}, {"donate": ("row",)}], ids=str
)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_and_arguments_equal_those_of_eager_mode(f, options, wrap):
    jitted = wrap(f) if not options else pg.jit(f, **options)
    for n in range(5):
        given = [
            (floats(2, 3, 4, scale=n), pg.asarray(n % 3), floats(2, 4)) for _ in "ab"
        ]
        wanted = f(*given[0])
        found = jitted(*given[1])
        assert look(found) == look(wanted)
        donated = options.get("donate", ())
        for name, x, y in zip(("cache", "at", "row"), *given, strict=True):
            if name not in donated:
                assert look(y) == look(x)
    assert reason(jitted, floats(2, 3, 4), pg.asarray(0), floats(2, 4)) == ""


def test_the_argument_itself_is_returned():
    jitted = pg.jit(put)
    for n in range(5):
        cache = floats(2, 3, 4)
        assert jitted(cache, pg.asarray(n % 3), floats(2, 4)) is cache


def test_a_replay_writes_into_the_array(in_place):
    for options in {}, {"donate": "cache"}:
        jitted = pg.jit(put, **options)
        cache = floats(2, 3, 4)
        del in_place[:]
        for n in range(6):
            before = id(cache._data)
            cache = jitted(cache, pg.asarray(n % 3), floats(2, 4))
            if n >= 2:
                assert in_place.pop() == before == id(cache._data)


@pytest.mark.parametrize("calls", [1, 2, 3])
def test_no_argument_is_kept_alive(calls):
    """Recordings and replays keep neither the tensor nor its array alive."""
    total = pg.Variable(0.0)

    def f(cache, at, row):
        total.assign(total + pg.sum(row))
        return put(cache, at, row)

    jitted = pg.jit(f)
    for n in range(calls):
        cache = floats(2, 3, 4)
        known = [weakref.ref(cache), weakref.ref(cache._data)]
        jitted(cache, pg.asarray(n % 3), floats(2, 4))
        known.append(weakref.ref(cache._data))
        del cache
        gc.collect()
        assert [x() for x in known] == [None] * 3
    wanted = calls * pg.sum(floats(2, 4)).item()
    assert total.item() == pytest.approx(wanted)


def test_values_that_the_function_makes_are_written_to(in_place):
    @pg.jit
    def f(x, at):
        y = pg.zeros((4, 3)) + x
        z = y * 2.0
        for i in range(3):
            z[at + i] = pg.exp(x)
        return z, y

    for _ in range(4):
        del in_place[:]
        found = f(floats(3), pg.asarray(0))
        assert bits(found) == bits(f.__wrapped__(floats(3), pg.asarray(0)))
    assert len(in_place) >= 3


# name: what else refers to the memory of an array
REFERENCES = {
    "another handle": copy.copy,
    "an alias": pg.stop_gradient,
    "a view": lambda x: pg.permute_dims(x, (1, 0, 2)),
    "a part": lambda x: x[:1],
    "a reshape": lambda x: pg.reshape(x, (-1,)),
    "an array of NumPy": lambda x: pg.asarray(x.numpy(), copy=False),
    "DLPack": lambda x: pg.asarray(np.from_dlpack(x), copy=False),
    "a Variable": lambda x: pg.Variable(x).value,
}


@pytest.mark.parametrize("name", REFERENCES)
@pytest.mark.parametrize("donate", [(), "cache"])
def test_what_refers_to_the_memory_keeps_its_values(name, donate):
    jitted = pg.jit(put, donate=donate)
    for n in range(5):
        cache = floats(2, 3, 4)
        other = REFERENCES[name](cache)
        before = look(other)
        found = jitted(cache, pg.asarray(n % 3), floats(2, 4))
        assert look(found) == look(
            put(floats(2, 3, 4), pg.asarray(n % 3), floats(2, 4))
        )
        assert look(other) == before


def test_a_numpy_array_that_was_passed_keeps_its_values():
    """The array belongs to the user: a call does not copy it, and never changes it."""
    jitted = pg.jit(put)
    for n in range(5):
        values = np.ones((2, 3, 4), np.float32)
        found = jitted(values, pg.asarray(n % 3), floats(2, 4))
        assert look(found) == look(
            put(pg.ones((2, 3, 4)), pg.asarray(n % 3), floats(2, 4))
        )
        assert (values == 1).all()


def test_a_tensor_that_is_passed_twice_cannot_be_assigned():
    jitted = pg.jit(lambda x, y: put(x, pg.asarray(0), pg.sum(y, axis=1)))
    x = floats(2, 3, 4)
    with pytest.raises(ValueError, match="tensor that is passed twice"):
        jitted(x, x)
    for _ in range(4):
        x = floats(2, 3, 4)
        wanted = look(put(floats(2, 3, 4), pg.asarray(0), pg.sum(x, axis=1)))
        assert look(jitted(x, copy.copy(x))) == wanted


def test_a_tensor_that_is_also_captured():
    cache = floats(2, 3, 4)
    other = floats(2, 4)

    def f(x, at):
        x[:, at] = other
        return pg.sum(cache, axis=(1, 2))

    jitted = pg.jit(f)
    for n in range(6):
        assert look(jitted(cache, pg.asarray(n % 3))) == look(
            pg.sum(cache, axis=(1, 2))
        )
    x = floats(2, 3, 4)
    assert look(jitted(x, pg.asarray(0))) == look(pg.sum(cache, axis=(1, 2)))


def test_an_index_out_of_range_changes_nothing():
    jitted = pg.jit(put)
    for n in range(3):
        jitted(floats(2, 3, 4), pg.asarray(n), floats(2, 4))
    cache = floats(2, 3, 4)
    with pytest.raises(IndexError, match="out of range"):
        jitted(cache, pg.asarray(3), floats(2, 4))
    assert look(cache) == look(floats(2, 3, 4))


def test_observers_see_the_kernels():
    jitted = pg.jit(put)
    for n in range(5):
        cache = floats(2, 3, 4)
        with pg.profile() as found:
            jitted(cache, pg.asarray(n % 3), floats(2, 4))
        assert look(cache) == look(
            put(floats(2, 3, 4), pg.asarray(n % 3), floats(2, 4))
        )
        assert "TensorScatterUpdate" in str(found)


def test_a_kernel_that_declines_runs_its_decomposition(in_place):
    def decline(tensor, indices, updates):
        return NotImplemented

    plugin.in_place(decline)(decline)
    jitted = pg.jit(put)
    with_kernel = [
        jitted(floats(2, 3, 4), pg.asarray(1), floats(2, 4)) for _ in range(4)
    ]
    pg.register_kernel("TensorScatterUpdate", "cpu", decline)
    try:
        for _ in range(4):
            found = jitted(floats(2, 3, 4), pg.asarray(1), floats(2, 4))
            assert look(found) == look(with_kernel[-1])
    finally:
        pg.unregister_kernel("TensorScatterUpdate", "cpu")


def test_the_users_kernel_is_never_replaced(in_place):
    calls = []
    kernel = pg.get_kernel("TensorScatterUpdate", "cpu")

    def mine(tensor, indices, updates):
        calls.append(tensor.shape)
        return kernel(tensor, indices, updates)

    pg.register_kernel("TensorScatterUpdate", "cpu", mine)
    try:
        x = floats(2, 3, 4)
        x[0] = 1.0
        assert calls == [(2, 3, 4)]
        assert in_place == []
    finally:
        pg.unregister_kernel("TensorScatterUpdate", "cpu")


MAKE = [
    lambda x, r: copy.copy(x),
    lambda x, r: pg.reshape(x, (3, 2)),
    lambda x, r: x.T.T,
    lambda x, r: x * 1.0,
    lambda x, r: x + x,
    lambda x, r: pg.stop_gradient(x),
    lambda x, r: x,
]


def program(seed):
    """Return a function of two tensors that aliases values and assigns items."""

    def run(x, y, at):
        r = random.Random(seed)
        known = [x, y]
        for _ in range(12):
            target = r.choice(known)
            if r.random() < 0.4:
                made = r.choice(MAKE)(target, r)
                known.append(pg.reshape(made, (2, 3)) if made.shape != (2, 3) else made)
            else:
                value = pg.sum(r.choice(known), axis=r.choice([0, 1, None]))
                key = r.choice(
                    [0, (slice(None), at), ..., (at - 1, at), slice(1, None)]
                )
                target[key] = value if not value.shape else pg.max(value)
        return known

    return run


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_with_aliases(seed, wrap):
    f = program(seed)
    jitted = wrap(f)
    for n in range(4):
        given = [[floats(2, 3, scale=n), floats(2, 3), pg.asarray(1)] for _ in "ab"]
        wanted = f(*given[0])
        assert bits(jitted(*given[1])) == bits(wanted)
        assert bits(given[1]) == bits(given[0])
