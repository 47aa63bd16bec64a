"""Transforms, schedules, and optimizers that wrap another optimizer."""

import math

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

S = pt.schedules


def tensors(tree):
    return pg.tree.map(lambda x: pg.asarray(x, dtype=pg.float32), tree)


def updated(transform, updates, params=None):
    """Return the updates of the first step, as NumPy arrays."""
    params = updates if params is None else params
    found, _ = transform.update(
        tensors(updates), transform.init(tensors(params)), tensors(params)
    )
    return pg.tree.map(lambda x: x.numpy(), found)


G = {"w": np.asarray([3.0, -4.0]), "b": 12.0}
P = {"w": np.asarray([1.0, 2.0]), "b": 10.0}
ROWS = {  # a transform, and its result for the gradients G and the parameters P
    "scale": (pt.scale(2.0), {"w": [6.0, -8.0], "b": 24.0}),
    "clip_by_value": (pt.clip_by_value(3.5), {"w": [3.0, -3.5], "b": 3.5}),
    "norm": (pt.clip_by_global_norm(1.3), {"w": [0.3, -0.4], "b": 1.2}),
    "norm_small": (pt.clip_by_global_norm(13.1), G),
    "decay": (pt.add_decayed_weights(0.5), {"w": [3.5, -3.0], "b": 17.0}),
    "decay_mask": (
        pt.add_decayed_weights(0.5, {"b": False, "w": True}),
        {"w": [3.5, -3.0], "b": 12.0},
    ),
    "decay_function": (
        pt.add_decayed_weights(
            0.5, lambda params: pg.tree.map(lambda p: p.ndim > 0, params)
        ),
        {"w": [3.5, -3.0], "b": 12.0},
    ),
    "schedule": (
        pt.scale_by_schedule(lambda step: 3.0 - step),
        {"w": [9.0, -12.0], "b": 36.0},
    ),
    "chain": (
        pt.chain(pt.clip_by_value(3.5), pt.scale(2.0)),
        {"w": [6.0, -7.0], "b": 7.0},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_results_of_transforms(row, backend):
    transform, expected = ROWS[row]
    found = updated(transform, G, P)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6)


SCHEDULES = {  # a schedule: its values at some steps
    "constant": (S.constant(0.3), {0: 0.3, 1000: 0.3}),
    "step": (S.step(1.0, {3: 0.5, 6: 0.1}), {2: 1.0, 3: 0.5, 5: 0.5, 6: 0.05}),
    "linear": (S.linear(1.0, 0.2, 4), {0: 1.0, 1: 0.8, 4: 0.2, 9: 0.2}),
    "exponential": (S.exponential(2.0, 10, 0.5), {0: 2.0, 5: 2**0.5, 20: 0.5}),
    "cosine": (
        S.cosine(1.0, 8, 0.1),
        {0: 1.0, 2: 0.1 + 0.45 * (1 + math.cos(math.pi / 4)), 8: 0.1, 10: 0.1},
    ),
    "join": (S.join(S.constant(1.0), S.linear(4.0, 0.0, 4), 2), {1: 1.0, 2: 4.0, 3: 3}),
    "warmup": (S.warmup(S.linear(1.0, 0.0, 10), 5), {0: 0, 1: 0.2, 5: 1.0, 10: 0.5}),
    "one_cycle": (S.one_cycle(1.0, 10, 0.3), {0: 0.04, 3: 1.0, 10: 0.04 / 1e4}),
}


@pytest.mark.parametrize("row", SCHEDULES)
def test_a_schedule_is_a_function_of_the_step(row, backend):
    schedule, values = SCHEDULES[row]
    replayed = pg.jit(schedule, strict=True)
    for step, value in values.items():
        at = pg.asarray(step, dtype=pg.int32)
        for found in (schedule(step), schedule(at), replayed(at)):
            assert found.dtype == pg.float32
            np.testing.assert_allclose(found.item(), value, rtol=1e-6, atol=1e-7)


def test_another_learning_rate_does_not_record_the_step_again(backend):
    optimizer = pt.chain(pt.clip_by_global_norm(10.0), pt.adam(0.1))
    step = pg.jit(optimizer.update, strict=True)
    params = pg.ones(3)
    state = optimizer.init(params)
    for rate in (0.1, 0.2, 0.4):
        before = params
        state = pt.set_learning_rate(state, rate)
        params, state = step(pg.ones(3), state, params)
        np.testing.assert_allclose((before - params).numpy(), rate, rtol=1e-5)
        assert pt.learning_rate(state).item() == pytest.approx(rate)
    assert step.explain(pg.ones(3), state, params).retraces == []


@pytest.mark.parametrize("dtype", [pg.float16, pg.float32, pg.float64], ids=str)
def test_parameters_keep_their_dtype(dtype):
    optimizer = pt.chain(pt.clip_by_global_norm(1.0), pt.adamw(0.5))
    with pg.use_backend("cpu"):
        params = {"w": pg.ones(3, dtype=dtype), "n": pg.asarray([1, 2])}
        grads = {"w": pg.ones(3, dtype=dtype), "n": None}
        state = optimizer.init(params)
        after, state = optimizer.update(grads, state, params)
    assert after["w"].dtype == dtype
    assert after["n"].tolist() == [1, 2]
    np.testing.assert_allclose(after["w"].numpy(), 0.5, rtol=2e-3)


class Row(dict):
    """A subclass of dict, because gradients may be in containers other than dicts."""


MISFITS = {  # gradients that do not fit {"w": (2,), "b": ()}: the message
    "structure": ({"w": np.ones(2)}, "structure from the parameters: expected"),
    "nested": ({"w": np.ones(2), "b": {"x": 1.0}}, "the gradient at ['b'] has {'x'"),
    "shape": ({"w": np.ones((1, 2)), "b": 1.0}, "at ['w'] has shape (1, 2)"),
    "none": ({"w": None, "b": 1.0}, "at ['w'] has None"),
}


@pytest.mark.parametrize("row", MISFITS)
@pytest.mark.parametrize("wrapper", ["sgd", "accumulate", "skip_nonfinite"])
def test_gradients_of_another_structure_are_refused(row, wrapper):
    grads, message = MISFITS[row]
    wrappers = {"sgd": lambda x: x, "accumulate": lambda x: pt.accumulate(x, 2)}
    optimizer = wrappers.get(wrapper, pt.skip_nonfinite)(pt.sgd(0.1))
    params = tensors(P)
    given = pg.tree.map(
        lambda x: pg.asarray(x), grads, is_leaf=lambda x: type(x) is list
    )
    given = {n: None if grads[n] is None else x for n, x in given.items()}
    with pytest.raises(ValueError, match="update: ") as caught:
        optimizer.update(given, optimizer.init(params), params)
    assert message in str(caught.value)


def test_gradients_in_other_containers_fit(backend):
    optimizer = pt.sgd(1.0)
    params = tensors({"w": np.asarray([1.0]), "b": (2.0, 3.0)})
    grads = Row(b=[pg.asarray(1.0), pg.asarray(1.0)], w=pg.asarray([1.0]))
    after, _ = optimizer.update(grads, optimizer.init(params), params)
    assert list(after) == ["w", "b"]
    assert type(after["b"]) is tuple
    assert [x.tolist() for x in pg.tree.leaves(after)] == [1.0, 2.0, [0.0]]


PARAMETERS = {
    "array": (np.ones(2), "['w'] is a ndarray; pass tensors"),
    "number": (1.0, "['w'] is a float; pass tensors"),
    "variable": (
        pg.Variable(1.0),
        "a Variable; pass tensors, such as v.value, or keep",
    ),
    "complex": (pg.asarray(1j), "['w'] is complex; train its real"),
}


@pytest.mark.parametrize("row", PARAMETERS)
def test_parameters_that_are_not_real_tensors_are_refused(row):
    value, message = PARAMETERS[row]
    params = {"w": value, "text": "left alone", "n": 3}
    grads = {"w": pg.asarray(1.0), "text": None, "n": None}
    optimizer = pt.adam(0.1)
    for call in (optimizer.init, lambda params: optimizer.update(grads, (), params)):
        with pytest.raises(TypeError, match="optimizers: the parameter") as caught:
            call(params)
        assert message in str(caught.value)


WRONG = {
    "nothing": ((), "chain: got nothing"),
    "number": ((pt.scale(1.0), 3), "chain: got 3"),
    "order": ((pt.sgd(0.1), pt.scale(1.0)), "chain: got an optimizer; pass transforms"),
    "two": (
        (pt.scale(1.0), pt.accumulate(pt.sgd(0.1), 2)),
        "that wraps another optimizer",
    ),
}


@pytest.mark.parametrize("row", WRONG)
def test_a_chain_accepts_only_transforms(row):
    parts, message = WRONG[row]
    with pytest.raises(TypeError, match=message):
        pt.chain(*parts)


OUT_OF_RANGE = {
    "rate": lambda: pt.sgd(-0.1),
    "b1": lambda: pt.adam(0.1, b1=1.5),
    "momentum": lambda: pt.sgd(0.1, momentum=-1.0),
    "accumulate": lambda: pt.accumulate(pt.sgd(0.1), 0),
    "cosine": lambda: S.cosine(1.0, 0),
    "one_cycle": lambda: S.one_cycle(1.0, 1),
    "mask": lambda: updated(pt.add_decayed_weights(0.1, {"w": True}), G, P),
    "no rate": lambda: pt.learning_rate(()),
    "no counter": lambda: pt.check_finite(()),
    "nan": lambda: pt.sgd(math.nan),
}


@pytest.mark.parametrize("row", OUT_OF_RANGE)
def test_values_out_of_range_are_refused(row):
    with pytest.raises(ValueError, match=": "):
        OUT_OF_RANGE[row]()


# --- optimizers that wrap another one ---------------------------------------------


def run(optimizer, gradients, params):
    """Return the parameters and states of steps under jit."""
    step = pg.jit(optimizer.update, strict=True)
    state = optimizer.init(params)
    found = []
    for g in gradients:
        params, state = step(pg.asarray(g), state, params)
        found.append((params.tolist(), state))
    assert step.explain(pg.asarray(g), state, params).retraces == []
    return found


def test_accumulated_gradients_are_those_of_a_large_batch(backend):
    small = [[1.0, 2.0], [3.0, -2.0], [0.5, 0.25], [1.5, 0.75]]
    large = [[2.0, 0.0], [1.0, 0.5]]
    found = run(pt.accumulate(pt.adam(0.1), 2), small, pg.ones(2))
    expected = run(pt.adam(0.1), large, pg.ones(2))
    assert [p for p, _ in found[1::2]] == [p for p, _ in expected]
    assert found[0][0] == [1.0, 1.0]
    assert found[2][0] == found[1][0]


def test_the_average_of_parameters(backend):
    found = run(pt.average_params(pt.sgd(1.0), 0.5), [1.0, 1.0], pg.asarray(4.0))
    assert [(p, s.average.item()) for p, s in found] == [(3.0, 3.5), (2.0, 2.75)]


def test_steps_with_nan_are_skipped_and_counted(backend):
    optimizer = pt.skip_nonfinite(pt.adam(0.1))
    found = run(optimizer, [1.0, math.nan, math.inf, 1.0], pg.asarray(4.0))
    plain = run(pt.adam(0.1), [1.0, 1.0], pg.asarray(4.0))
    assert [p for p, _ in found] == [plain[0][0]] * 3 + [plain[1][0]]
    assert [(s.skipped.item(), s.in_a_row.item()) for _, s in found] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (2, 0),
    ]
    pt.check_finite(found[3][1])
    pt.check_finite((found[2][1], ()), limit=2)
    with pytest.raises(pt.NonFiniteError, match="2 steps in a row"):
        pt.check_finite({"outer": found[2][1]}, limit=1)


def test_the_scale_of_the_loss_follows_the_gradients(backend):
    optimizer = pt.scale_loss(pt.sgd(1.0), initial=8.0, period=2)
    found = run(optimizer, [math.inf, 4.0, 4.0, 8.0], pg.asarray(4.0))
    assert [s.scale.item() for _, s in found] == [4.0, 4.0, 8.0, 8.0]
    assert [p for p, _ in found] == [4.0, 3.0, 2.0, 1.0]
    with pytest.raises(pt.NonFiniteError, match="1 step in a row"):
        pt.check_finite(found[0][1])


def test_small_gradients_survive_half_precision():
    """1e-5 * 1e-3 is zero in float16, unless the loss is scaled."""
    loss = lambda w, x: pg.sum(w * x) * 1e-3
    with pg.use_backend("cpu"):
        w = pg.ones(4)
        x = pg.full(4, 1e-5)
        half = pt.cast_floating((w, x), pg.float16)
        assert pg.grad(loss)(*half).tolist() == [0.0] * 4
        state = pt.scale_loss(pt.sgd(1.0), initial=2.0**14).init(w)
        _, grads = pt.half_precision(loss)(w, state, x)
        assert grads.dtype == pg.float32
        np.testing.assert_allclose((grads / state.scale).numpy(), 1e-8, rtol=1e-2)
