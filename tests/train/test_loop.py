"""``fit``: what it reports, when it ends, and that it resumes to the same bits."""

import math
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from tests.train.trainee import train

ROOT = Path(__file__).parents[2]
X = np.linspace(-1, 1, 32, dtype=np.float32)


def loss(params, batch):
    x, y = batch
    return pg.mean(pg.square(params["a"] * x + params["b"] - y))


def fit(optimizer=None, loss=loss, batches=None, **options):
    """Fit a line of slope 3 and offset 1."""
    params = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    batches = batches or pt.Batches((X, 3 * X + 1), 8, shuffle=0)
    return pt.fit(loss, params, optimizer or pt.sgd(0.5), batches, **options)


def examples():
    return zip(X, 3 * X + 1, strict=True)


def bits(fitted):
    leaves = pg.tree.leaves((fitted.params, fitted.state))
    return fitted.step, [x.numpy().tobytes() for x in leaves]


def test_a_line_is_fitted(backend):
    fitted = fit(epochs=20)
    assert (fitted.step, fitted.ended) == (80, "epochs")
    assert fitted.params["a"].item() == pytest.approx(3.0, abs=0.01)
    assert fitted.params["b"].item() == pytest.approx(1.0, abs=0.01)
    assert fitted.history[-1]["loss"] < 1e-4
    assert fitted.params["a"].backend == backend


@pytest.mark.parametrize(
    "options", [{}, {"jit": False}, {"nonfinite": "apply"}], ids=str
)
def test_ways_to_run_fit_do_not_change_the_bits(options):
    with pg.use_backend("cpu"):
        found = fit(steps=7, **options).params
        expected = fit(steps=7).params
    assert [x.item() for x in found.values()] == [x.item() for x in expected.values()]


def test_tensors_that_others_hold_are_not_donated():
    """``fit`` donates tensors to its step, but not those of callers and callbacks."""
    passed, validated = [], []
    params = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    rate = pg.asarray(0.5)
    optimizer = pt.average_params(pt.sgd(rate), 0.5)
    for _ in range(2):
        fitted = pt.fit(
            loss,
            params,
            optimizer,
            pt.Batches((X, 3 * X + 1), 8),
            epochs=2,
            validate=lambda params: validated.append(params) or {},
            callbacks=[lambda now: passed.append((now.params, now.state)) or None],
            report_every=2,
        )
    assert [p.item() for p in params.values()] == [0.0, 0.0]
    assert rate.item() == 0.5
    values = [[x.item() for x in pg.tree.leaves(tree)] for tree in passed]
    assert len(values) == 8
    assert values[:4] == values[4:]
    assert len({*map(str, values)}) == 4
    assert [p["a"].item() for p in validated[:2]] == [v[0] for v in values[1:4:2]]
    assert fitted.params["a"].item() == values[-1][0]


@pytest.mark.parametrize("donate", [False, True])
def test_a_step_donates_its_arguments_on_request(donate):
    step = pt.train_step(loss, pt.sgd(0.5), donate=donate)
    given = params = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    state = step.optimizer.init(params)
    batch = (pg.asarray(X), pg.asarray(3 * X))
    for _ in range(3):
        params, state, _ = step.run(params, state, batch)
    assert params["a"].item() > 0
    if not donate:
        assert given["a"].item() == 0
    else:
        message = r"donated to jit as argument params\['a'\] of train_step"
        with pytest.raises(ValueError, match=message):
            given["a"].item()


ENDS = {  # options of fit, the last step, why it ends
    "steps": ({"steps": 6}, 6, "steps"),
    "epochs": ({"epochs": 2}, 8, "epochs"),
    "both": ({"epochs": 2, "steps": 7}, 7, "steps"),
    "none": ({"steps": 0}, 0, "steps"),
    "callback": ({"epochs": 9, "callbacks": [lambda now: "enough"]}, 4, "enough"),
}


@pytest.mark.parametrize("row", ENDS)
def test_fit_ends_with_a_report(row):
    options, steps, reason = ENDS[row]
    fitted = fit(**options)
    assert (fitted.step, fitted.ended) == (steps, reason)
    assert [record["step"] for record in fitted.history[-1:]] == [steps] * (steps > 0)


def test_the_result_is_shown_without_its_records():
    fitted = fit(epochs=2, report_every=1)
    shown = r"Fitted\(step=8, ended='epochs', loss=[\d.e-]+, learning_rate=0.5, "
    shown += r"seconds=[\d.e-]+, params=2 numbers in 2 tensors\)"
    assert re.fullmatch(shown, repr(fitted))
    assert repr(fit(steps=0)) == (
        "Fitted(step=0, ended='steps', params=2 numbers in 2 tensors)"
    )


def cells(html):
    """Return the texts of the cells of each row."""
    rows = re.findall("<tr>(.*?)</tr>", html)
    return [re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_a_notebook_shows_the_metrics_of_the_result():
    callback = [lambda now: "<enough>" if now.step == 8 else None]
    fitted = fit(
        epochs=9,
        report_every=2,
        callbacks=callback,
        validate=lambda params: {"a<b": params["a"]},
    )
    html = fitted._repr_html_()
    titles, *rows = cells(html)
    names = [name.replace("&lt;", "<") for name in titles]
    assert "a<b" in names
    assert names == [*dict.fromkeys(name for r in fitted.history for name in r)]
    shown = [dict(zip(names, row, strict=True)) for row in rows]
    assert [row["step"] for row in shown] == ["2", "4", "6", "8"]
    for row, record in zip(shown, fitted.history, strict=True):
        assert row["loss"] == f"{record['loss']:.4g}"
        assert row["a<b"] == (f"{record['a<b']:.4g}" if "a<b" in record else "")
    assert "step\xa08,\xa0ended:\xa0&lt;enough&gt;" in html
    assert "2 numbers in 2 tensors" in html


def test_a_notebook_shows_at_most_ten_records():
    rows = cells(fit(steps=40, report_every=1)._repr_html_())
    assert [row[0] for row in rows[1:]] == [*"12345", "…", *map(str, range(36, 41))]
    assert "<table" not in fit(steps=0)._repr_html_()


def test_early_stopping_counts_epochs_without_a_better_metric():
    numbers = iter([0.5, 0.6, 0.7, 0.7, 0.65, 0.9])
    stop = pt.EarlyStopping("accuracy", patience=2, mode="max")
    fitted = fit(
        epochs=9, validate=lambda params: {"accuracy": next(numbers)}, callbacks=[stop]
    )
    assert fitted.ended == "no better accuracy for 2 epochs"
    found = [r["accuracy"] for r in fitted.history if r["step"] % 4 == 0]
    assert found == [0.5, 0.6, 0.7, 0.7, 0.65]
    with pytest.raises(ValueError, match="no metric 'other'; use one of 'loss'"):
        fit(epochs=1, callbacks=[pt.EarlyStopping("other")])


def test_100_steps_are_recorded_once(backend):
    noisy = lambda params, batch, key: (
        loss(params, batch) * pg.random.uniform((), seed=key)
    )
    optimizer = pt.skip_nonfinite(pt.adam(pt.schedules.cosine(0.1, 100)))
    step = pt.train_step(noisy, optimizer)
    params = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    state = step.optimizer.init(params)
    batch = pg.asarray(X), pg.asarray(3 * X + 1)
    for number in range(100):
        key = pg.random.fold_in(pg.random.key(0), number)
        params, state, _ = step.run(params, state, batch, key)
    explanation = step.run.explain(params, state, batch, key)
    assert explanation.graph is not None, explanation.reason
    assert explanation.retraces == []


# --- gradients that are not finite -----------------------------------------------


def poisoned(params, batch):
    """Return a loss whose gradient is NaN for one of the batches of an epoch."""
    x, _ = batch
    return loss(params, batch) + 0.0 * params["a"] / pg.min(pg.abs(x - X[3]))


def test_gradients_with_nan_stop_or_are_skipped_or_applied(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path)
    with pytest.raises(
        pt.NonFiniteError, match="of the steps up to 4, 1 had NaN or infinity"
    ):
        fit(loss=poisoned, epochs=1, checkpoints=checkpoints)
    like = {"a": pg.asarray(0.0), "b": pg.asarray(0.0)}
    state = pt.skip_nonfinite(pt.sgd(0.5)).init(like)
    saved = checkpoints.restore({"params": like, "optimizer": state, "key": None})
    with pytest.raises(pt.NonFiniteError):  # also if no report is due at the end
        fit(loss=lambda params, batch: params["a"] * math.nan, steps=1)
    skipped = fit(loss=poisoned, epochs=1, nonfinite="skip")
    assert skipped.history[-1]["skipped"] == 1.0
    assert all(math.isfinite(x.item()) for x in skipped.params.values())
    assert [x.item() for x in saved.tree["params"].values()] == [
        x.item() for x in skipped.params.values()
    ]
    applied = fit(loss=poisoned, epochs=1, nonfinite="apply")
    assert math.isnan(applied.params["a"].item())


def nonfinite_loss(bad):
    """Return a loss that is ``bad`` for one of four batches; its gradient is finite."""

    def f(params, batch):
        x, _ = batch
        wrong = pg.where(pg.any(x == X[3]), bad, 0.0)
        return loss(params, batch) + wrong

    return f


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("jit", [True, False])
def test_a_nonfinite_loss_counts_like_a_nonfinite_gradient(bad, jit, tmp_path):
    options = {"loss": nonfinite_loss(bad), "jit": jit}
    checkpoints = pt.Checkpoints(tmp_path)
    with pytest.raises(pt.NonFiniteError, match=r"up to 4, 1 had .*or the loss"):
        fit(epochs=1, checkpoints=checkpoints, **options)
    assert checkpoints.steps() == [4]
    skipped = fit(epochs=2, nonfinite="skip", **options)
    assert skipped.history[-1]["skipped"] == 2.0
    applied = fit(epochs=2, nonfinite="apply", **options)
    assert "skipped" not in applied.history[-1]
    expected = fit(epochs=2)
    assert bits(applied)[1] == [
        x.numpy().tobytes() for x in pg.tree.leaves((expected.params, applied.state))
    ]
    assert skipped.params["a"].item() != expected.params["a"].item()


def test_a_nonfinite_loss_is_skipped_in_mixed_precision():
    with pg.use_backend("cpu"):
        expected = fit(epochs=1, precision=pg.float16)
        skipped = fit(epochs=1, loss=nonfinite_loss(math.nan), precision=pg.float16)
        assert all(math.isfinite(x.item()) for x in skipped.params.values())
        # Skipping a step halves the scale.
        assert skipped.state.scale.item() == expected.state.scale.item() / 2
        never = lambda params, batch: loss(params, batch) * 0.0 + math.nan
        with pytest.raises(pt.NonFiniteError):
            fit(steps=100, loss=never, precision=pg.float16)


@pytest.mark.parametrize("precision", [pg.float16, pg.bfloat16], ids=str)
def test_mixed_precision_trains(precision):
    with pg.use_backend("cpu"):
        fitted = fit(
            pt.adam(0.1),
            epochs=30,
            precision=precision,
            loss=lambda params, batch: pg.astype(loss(params, batch), pg.float32),
        )
    assert {x.dtype for x in fitted.params.values()} == {np.dtype("float32")}
    assert fitted.params["a"].item() == pytest.approx(3.0, abs=0.05)
    assert fitted.state.scale.item() >= 2.0**10
    assert fitted.history[-1]["loss_scale"] == fitted.state.scale.item()


def test_mixed_precision_stops_if_no_scale_helps():
    broken = lambda params, batch: params["a"] * math.nan
    with pg.use_backend("cpu"):
        with pytest.raises(pt.NonFiniteError, match="steps in a row"):
            fit(epochs=9, precision=pg.float16, loss=broken)
        fitted = fit(epochs=9, precision=pg.float16, loss=broken, nonfinite="skip")
    assert [x.item() for x in fitted.params.values()] == [0.0, 0.0]


# --- resuming --------------------------------------------------------------------


class Failure(Exception):
    """Raised in the middle of a training."""


@pytest.mark.parametrize("at", [2, 4, 5, 8])
@pytest.mark.parametrize("kind", ["arrays", "prefetched", "iterable"])
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(at, kind, tmp_path):
    sources = {
        "arrays": lambda: pt.Batches((X, 3 * X + 1), 8, shuffle=2),
        "prefetched": lambda: pt.Prefetch(pt.Batches((X, 3 * X + 1), 8, shuffle=2)),
        "iterable": lambda: pt.IterableBatches(
            lambda: zip(X, 3 * X + 1, strict=True), 8, shuffle=2
        ),
    }
    rises = iter(range(100))
    options = {
        "epochs": 3,
        "validate": lambda params: {"worse": next(rises)},
        "optimizer": pt.adam(0.1),
        "report_every": 1,
    }

    def fail(now):
        if now.step == at:
            raise Failure

    stop = lambda: pt.EarlyStopping("worse", patience=2)
    expected = fit(batches=sources[kind](), callbacks=[stop()], **options)
    checkpoints = pt.Checkpoints(tmp_path)
    saved = options | {"checkpoints": checkpoints, "save_every": 1}
    with pytest.raises(Failure):
        fit(batches=sources[kind](), callbacks=[stop(), fail], **saved)
    resumed = fit(batches=sources[kind](), callbacks=[stop()], resume=True, **saved)
    assert bits(resumed) == bits(expected)
    assert resumed.ended == expected.ended


def test_another_model_and_other_callbacks_are_refused(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path)
    fit(epochs=1, checkpoints=checkpoints)
    names = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(
        FileExistsError, match="a checkpoint of step 4; pass resume=True"
    ):
        fit(epochs=1, checkpoints=checkpoints)
    with pytest.raises(pt.CheckpointError, match="belongs to another model"):
        fit(pt.adam(0.1), epochs=2, checkpoints=checkpoints, resume=True)
    stop = pt.EarlyStopping("loss")
    with pytest.raises(ValueError, match="the states of 0 callbacks, got 1"):
        fit(epochs=2, checkpoints=checkpoints, resume=True, callbacks=[stop])
    assert {path.name for path in tmp_path.iterdir()} == names


def test_ctrl_c_ends_after_the_step_with_a_checkpoint(tmp_path):
    program = f"""if True:
        from tests.train.trainee import train
        print(train({str(tmp_path)!r}, 10**6, save_every=5).ended)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    checkpoints = pt.Checkpoints(tmp_path)
    start = time.monotonic()
    while len(checkpoints.steps()) < 2:
        assert time.monotonic() < start + 60
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out.split()) == (0, ["interrupted"]), err
    step = checkpoints.steps()[-1]
    path = tmp_path / f"step-{step:08}.json"
    assert err == (
        f"interrupted after step {step}; saved as {path}. To resume, call fit with the "
        "same arguments and resume=True\n"
    )
    with pg.use_backend("cpu"):
        assert bits(train(tmp_path, step + 3)) == bits(train(None, step + 3))


def test_the_first_ctrl_c_waits_and_the_second_one_raises():
    def press(now):
        signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    fitted = fit(epochs=9, report_every=3, callbacks=[press])
    assert (fitted.step, fitted.ended) == (3, "interrupted")
    with pytest.raises(KeyboardInterrupt):
        fit(epochs=9, report_every=3, callbacks=[press, press])
    assert signal.getsignal(signal.SIGINT) is handler


def test_fit_runs_in_another_thread():
    ended = []
    thread = threading.Thread(target=lambda: ended.append(fit(epochs=1).ended))
    thread.start()
    thread.join()
    assert ended == ["epochs"]
