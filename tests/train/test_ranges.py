"""Arguments of optimizers, transforms and schedules that are out of range."""

import inspect
import math
import re

import plugrad as pg
import plugrad_train as pt
import pytest

NOT_NEGATIVE = "finite and at least 0", [-0.1, -1, math.nan, math.inf, -math.inf]
POSITIVE = "finite and more than 0", [0, -2.0, math.nan, math.inf]
DECAY = "at least 0 and less than 1", [1, 1.0, 1.5, -1e-9, math.nan, math.inf]
SHARE = "at least 0 and at most 1", [1.01, -0.5, math.nan, math.inf]
STEPS = "finite and at least 1", [0, -3, math.nan, math.inf]

# The range of each argument, in every function with an argument of this name.
RANGES = {
    **dict.fromkeys(("learning_rate", "weight_decay", "eps", "value"), NOT_NEGATIVE),
    **dict.fromkeys(("initial_accumulator_value", "first", "last"), NOT_NEGATIVE),
    **dict.fromkeys(("peak", "boundary"), NOT_NEGATIVE),
    **dict.fromkeys(("b1", "b2", "decay"), DECAY),
    **dict.fromkeys(("momentum", "rising"), SHARE),
    **dict.fromkeys(("factor", "first_factor", "last_factor"), POSITIVE),
    "steps": STEPS,
}
CALLS = {  # function: its required arguments
    pt.sgd: {"learning_rate": 0.1},
    pt.adam: {"learning_rate": 0.1},
    pt.adamw: {"learning_rate": 0.1},
    pt.rmsprop: {"learning_rate": 0.1},
    pt.adagrad: {"learning_rate": 0.1},
    pt.lion: {"learning_rate": 0.1},
    pt.scale_by_adam: {},
    pt.scale_by_rms: {},
    pt.scale_by_rss: {},
    pt.scale_by_lion: {},
    pt.scale_by_learning_rate: {"learning_rate": 0.1},
    pt.add_decayed_weights: {"weight_decay": 0.1},
    pt.schedules.constant: {"value": 0.1},
    pt.schedules.linear: {"first": 0.1, "last": 0.0, "steps": 5},
    pt.schedules.exponential: {"value": 0.1, "steps": 5, "factor": 0.5},
    pt.schedules.cosine: {"value": 0.1, "steps": 5},
    pt.schedules.warmup: {"schedule": pt.schedules.constant(0.1), "steps": 5},
    pt.schedules.one_cycle: {"peak": 0.1, "steps": 5},
    pt.schedules.join: {
        "first": pt.schedules.constant(0.1),
        "then": pt.schedules.constant(0.2),
        "boundary": 5,
    },
}


def rows():
    """Return each call with each of its arguments out of range."""
    return [
        pytest.param(call, name, value, id=f"{call.__name__}-{name}-{value}")
        for call, given in CALLS.items()
        for name in inspect.signature(call).parameters
        if name in RANGES and not callable(given.get(name))
        for value in RANGES[name][1]
    ]


@pytest.mark.parametrize(("call", "name", "value"), rows())
def test_numbers_out_of_range_are_refused(call, name, value):
    message = f"{call.__name__}: {name} must be {RANGES[name][0]}, got {value}"
    with pytest.raises(ValueError, match=re.escape(message)):
        call(**{**CALLS[call], name: value})


def test_all_optimizers_are_tested():
    tested = {pt.sgd, pt.adam, pt.adamw, pt.rmsprop, pt.adagrad, pt.lion}
    result_type = inspect.signature(pt.adam).return_annotation
    found = {
        f
        for f in map(pt.__dict__.get, pt.__all__)
        if inspect.isfunction(f)
        and inspect.signature(f).return_annotation == result_type
        and "learning_rate" in inspect.signature(f).parameters
    }
    assert found == tested <= CALLS.keys()


@pytest.mark.parametrize("value", NOT_NEGATIVE[1])
def test_other_rates_are_refused(value):
    state = pt.sgd(0.1).init(pg.ones(2))
    message = f"must be finite and at least 0, got {value}"
    for name, call in {
        "set_learning_rate: learning_rate": lambda: pt.set_learning_rate(state, value),
        "step: value": lambda: pt.schedules.step(value, {5: 0.5}),
        "step: factors": lambda: pt.schedules.step(0.1, {5: value}),
        "step: boundary": lambda: pt.schedules.step(0.1, {value: 0.5}),
    }.items():
        with pytest.raises(ValueError, match=f"{name} {message}"):
            call()
    with pytest.raises(ValueError, match=r"trace: momentum must be .*, got 1\.5"):
        pt.trace(1.5)


def test_the_ends_of_the_ranges_are_allowed():
    pt.sgd(0, momentum=1.0)
    pt.adamw(0.0, b1=0, b2=0.0, eps=0, weight_decay=0)
    pt.adagrad(0.1, initial_accumulator_value=0.0, eps=0.0)
    pt.schedules.linear(0, 0.0, 1)
    params = pg.ones(2)
    state = pt.sgd(0.1).init(pg.ones(2))
    frozen = pt.set_learning_rate(state, 0)
    assert pt.sgd(0.1).update(params, frozen, params)[0].tolist() == [1.0, 1.0]
