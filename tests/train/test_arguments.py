"""Invalid arguments are refused before the training begins."""

import re

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from tests.train.test_loop import examples, fit, loss

X = np.linspace(-1, 1, 32, dtype=np.float32)
CALLBACK = lambda now: None
DATA = (X, 3 * X + 1)
WRONG_KINDS = {  # what is passed: the call, part of the message
    "optimizer that was not called": (
        lambda: fit(pt.sgd, epochs=1),
        r"fit: optimizer .* the function sgd, which returns one; call it, .* pt.sgd\(",
    ),
    "class as optimizer": (lambda: fit(dict, epochs=1), "got the function dict"),
    "transform": (lambda: fit(pt.scale(0.1), epochs=1), "Transform; .*pt.of_transform"),
    "number as optimizer": (lambda: fit(0.1, epochs=1), r"a float; pass .* pt.sgd\("),
    "list of batches": (
        lambda: fit(batches=[DATA, DATA], epochs=1),
        r"fit: batches must .*, got a list; pass pt.Batches\(data, size\)",
    ),
    "arrays as batches": (lambda: fit(batches=DATA, epochs=1), "got a tuple; pass"),
    "array as batches": (
        lambda: pt.fit(loss, pg.asarray(0.0), pt.sgd(0.1), X, epochs=1),
        "got a ndarray; pass",
    ),
    "generator as batches": (
        lambda: fit(batches=(x for x in [DATA]), epochs=1),
        "got a generator; pass",
    ),
    "function as batches": (
        lambda: fit(batches=examples, epochs=1),
        "the function exa",
    ),
    "list to prefetch": (
        lambda: pt.Prefetch([1, 2]),
        "Prefetch: batches must .* a list",
    ),
    "loss of one parameter": (
        lambda: fit(loss=lambda params: params["a"], epochs=1),
        r"fit: it calls loss\(params, batch\), but the function takes \(params\)",
    ),
    "loss with a key": (
        lambda: fit(loss=lambda params, batch, key: params["a"], epochs=1),
        r"missing a required argument: 'key'; with key=, it gets a key as well",
    ),
    "loss without a key": (
        lambda: fit(key=pg.random.key(0), epochs=1),
        r"calls loss\(params, batch, key\), but the function takes \(params, batch\)",
    ),
    "loss that is a value": (
        lambda: fit(loss=0.5, epochs=1),
        "a function loss.*got 0.5",
    ),
    "number as key": (
        lambda: fit(loss=lambda p, b, k: p["a"], key=0, epochs=1),
        r"write pg.random.key\(0\)",
    ),
    "another tensor as key": (
        lambda: fit(loss=lambda p, b, k: p["a"], key=pg.zeros(3), epochs=1),
        "key",
    ),
    "one callback": (
        lambda: fit(callbacks=CALLBACK, epochs=1),
        "callbacks must be a list of functions, got the function",
    ),
    "callback that was not called": (
        lambda: fit(callbacks=[pt.EarlyStopping], epochs=1),
        r"got the class EarlyStopping; call it: EarlyStopping\(",
    ),
    "callback that is none": (
        lambda: fit(callbacks=[3], epochs=1),
        "got an int; fit calls it",
    ),
    "folder as checkpoints": (
        lambda: fit(checkpoints="folder", epochs=1),
        r"checkpoints must be pt.Checkpoints\(folder\), got 'folder'",
    ),
    "class as checkpoints": (lambda: fit(checkpoints=pt.Checkpoints, epochs=1), "must"),
    "metrics as validate": (
        lambda: fit(validate={"x": 1.0}, epochs=1),
        "fit: validate",
    ),
    "validate of two": (lambda: fit(validate=lambda a, b: {}, epochs=1), r"\(a, b\)"),
    "flag as log": (lambda: fit(log=True, epochs=1), "log must be the path .* True"),
    "flag as curves": (lambda: fit(curves=True, epochs=1), "curves must be the path"),
    "integers as precision": (
        lambda: fit(precision=pg.int32, epochs=1),
        "real floating",
    ),
    "no dtype as precision": (lambda: fit(precision="x", epochs=1), "not supported"),
    "no parameters": (
        lambda: pt.fit(loss, {}, pt.sgd(0.1), pt.Batches(DATA, 8), epochs=1),
        "params must have floating tensors, got no leaf",
    ),
    "integers as parameters": (
        lambda: pt.fit(loss, pg.asarray(1), pt.sgd(0.1), pt.Batches(DATA, 8), epochs=1),
        "params must have floating tensors, got a Tensor",
    ),
    "arrays as parameters": (
        lambda: pt.fit(loss, {"a": X}, pt.sgd(0.1), pt.Batches(DATA, 8), epochs=1),
        r"parameter at \['a'\] is a ndarray; pass tensors",
    ),
    "step": (lambda: pt.train_step(loss, pt.adam), "train_step: .* the function adam"),
    "step of a value": (
        lambda: pt.train_step(0.5, pt.sgd(0.1)),
        "train_step: loss must",
    ),
    "accumulate": (lambda: pt.accumulate(pt.sgd, 2), "accumulate: .* call it"),
    "average": (lambda: pt.average_params(pt.sgd), "average_params: .* call it"),
    "skip": (lambda: pt.skip_nonfinite(pt.sgd), "skip_nonfinite: .* call it"),
    "scale": (lambda: pt.scale_loss(pt.sgd), "scale_loss: .* call it"),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_arguments_of_a_wrong_kind_are_refused_before_the_training(name):
    call, message = WRONG_KINDS[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


WRONG = {
    "length": (lambda: fit(), "neither epochs nor steps"),
    "resume": (lambda: fit(epochs=1, resume=True), "needs checkpoints; pass"),
    "nonfinite": (lambda: fit(epochs=1, nonfinite="x"), "'stop', 'skip', 'apply'"),
    "empty": (
        lambda: fit(epochs=1, batches=pt.IterableBatches(lambda: [], 2)),
        "no batch in an epoch",
    ),
}


@pytest.mark.parametrize("row", WRONG)
def test_calls_that_cannot_work_are_refused(row):
    call, message = WRONG[row]
    with pytest.raises(ValueError, match=message):
        call()


REFUSED = {  # option: arguments of fit, the message
    "epochs": ({"epochs": -1}, "fit: epochs must be from 0 to inf, got -1"),
    "steps": ({"steps": 1.5}, "fit: steps must be an integer, got 1.5"),
    "report": (
        {"epochs": 1, "report_every": 0},
        "fit: report_every must be from 1 to inf, got 0",
    ),
    "save": (
        {"epochs": 1, "save_every": "2"},
        "fit: save_every must be a number, got '2'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_make_no_sense_are_refused(name):
    options, message = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=message):
        fit(**options)


def test_numbers_of_steps_may_be_integral_floats():
    fitted = fit(epochs=np.float32(2.0), steps=7.0, report_every=2.0, save_every=3.0)
    assert (fitted.step, fitted.ended) == (7, "steps")
    assert [r["step"] for r in fitted.history] == [2, 4, 6, 7]


OTHER_STATES = {  # states of another optimizer, or of other parameters
    "another optimizer": lambda params: pt.sgd(0.1, momentum=0.9).init(params),
    "other parameters": lambda params: pt.adam(0.1).init({"a": params["a"]}),
    "none": lambda params: None,
}


@pytest.mark.parametrize("name", OTHER_STATES)
def test_the_state_of_another_optimizer_is_refused(name):
    params = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    state = OTHER_STATES[name](params)
    with pytest.raises(
        ValueError, match="does not fit this optimizer and these parameters"
    ):
        pt.adam(0.1).update(params, state, params)


NUMBERS = {  # what is wrong: the call, the message
    "size": (lambda: pt.Batches(X, 2.5), "Batches: size must be an integer, got 2.5"),
    "flag": (lambda: pt.Batches(X, True), "Batches: size must be a number, got True"),
    "rows": (lambda: pt.Batches(np.float32(1), 1), "Batches: an array has no row axis"),
    "shuffle": (
        lambda: pt.Batches(X, 2, shuffle=True),
        "Batches: shuffle= is a seed, such as 0, .* got True",
    ),
    "shuffle of iterables": (
        lambda: pt.IterableBatches(lambda: iter(X), 2, shuffle=0.5),
        "IterableBatches: shuffle= is a seed, .* got 0.5",
    ),
    "seed": (lambda: pt.Batches(X, 2, shuffle=-1), "shuffle= must be a seed from 0"),
    "parameters": (
        lambda: pt.adam({"w": pg.ones(2)}, 1e-3),
        r"adam: learning_rate must be a number, got a dict; .*init\(params\)",
    ),
    "one parameter": (lambda: pt.sgd(pg.ones(1)), "got a Tensor; .* init"),
    "rate": (lambda: pt.adam("x"), "learning_rate must be a number, got 'x'"),
    "cosine": (
        lambda: pt.schedules.cosine(float("nan"), 5),
        "cosine: value must be finite and at least 0, got nan",
    ),
    "constant": (
        lambda: pt.schedules.constant("a"),
        "constant: value must be a number, got 'a'",
    ),
    "warmup": (
        lambda: pt.schedules.warmup(0.1, 5),
        "warmup: schedule must be a function of the step, got 0.1",
    ),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_arguments_that_make_no_sense_are_refused(name):
    call, message = NUMBERS[name]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


PYTORCH_METHODS = {  # a method of PyTorch's optimizers: what the message says
    "step": "params, state = optimizer.update(grads, state, params) makes a step",
    "zero_grad": "leave it out: gradients are returned",
    "param_groups": "pt.learning_rate(state)",
    "state_dict": "init(params) returned the state",
}


@pytest.mark.parametrize("name", PYTORCH_METHODS)
def test_a_method_of_other_optimizers_is_answered(name):
    message = f"'Optimizer' object has no attribute '{name}'; {PYTORCH_METHODS[name]}"
    with pytest.raises(AttributeError, match=re.escape(message)):
        getattr(pt.sgd(0.1), name)
    with pytest.raises(AttributeError, match=r"has no attribute 'zzz'$"):
        _ = pt.sgd(0.1).zzz


def test_the_step_of_a_checkpoint_is_not_negative(tmp_path):
    with pytest.raises(ValueError, match="save: step must be from 0 to inf, got -1"):
        pt.Checkpoints(tmp_path).save(-1, pg.ones(2))
    assert [*tmp_path.iterdir()] == []
