"""The log, the curves and the progress bar of ``fit``."""

import json
import math

import plugrad_train as pt
import pytest
from plugrad_train import logs

from tests.train.test_loop import X, examples, fit


def test_logs_curves_and_the_bar(tmp_path, capfd):
    pytest.importorskip("matplotlib", reason="curves need matplotlib: make demo")
    pytest.importorskip("tqdm", reason="the bar needs tqdm: make demo")
    log = tmp_path / "a" / "log.jsonl"
    curves = tmp_path / "b" / "curves.png"
    rates = pt.schedules.linear(0.5, 0.0, 12)
    fitted = fit(
        pt.sgd(rates), epochs=3, report_every=3, log=log, curves=curves, progress=True
    )
    records = pt.read_log(log)
    assert records == fitted.history
    assert [r["step"] for r in records] == [3, 4, 6, 8, 9, 12]
    assert [r["epoch"] for r in records] == [0, 0, 1, 1, 2, 2]
    assert records[0]["learning_rate"] == pytest.approx(0.5 * 10 / 12)
    assert curves.read_bytes().startswith(b"\x89PNG")
    assert "epoch 3/3, loss " in capfd.readouterr().err


def test_a_log_is_continued_and_nan_is_null(tmp_path):
    log = tmp_path / "log.jsonl"
    checkpoints = pt.Checkpoints(tmp_path / "c")
    fit(steps=4, checkpoints=checkpoints, log=log, report_every=1)
    with log.open("a") as file:
        file.write('{"step": 5, "epoch": 1, "loss": 1.0}\n{"step": 6, "ep')
    fit(steps=6, checkpoints=checkpoints, log=log, report_every=1, resume=True)
    assert [r["step"] for r in pt.read_log(log)] == [1, 2, 3, 4, 5, 6]
    broken = lambda params, batch: params["a"] * math.nan
    fit(loss=broken, steps=1, nonfinite="skip", report_every=1, log=log)
    (record,) = map(json.loads, log.read_text().splitlines())
    assert (record["loss"], record["skipped"]) == (None, 1.0)


def test_curves_of_a_resumed_training_begin_at_its_first_step(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="curves need matplotlib: make demo")
    drawn = []
    monkeypatch.setattr(
        logs, "draw_curves", lambda records, path: drawn.append(records)
    )
    options = {"report_every": 1, "curves": tmp_path / "curves.png"}
    checkpoints = pt.Checkpoints(tmp_path / "a")
    fit(steps=4, checkpoints=checkpoints, **options)
    fit(steps=6, checkpoints=checkpoints, resume=True, **options)
    assert [[r["step"] for r in records] for records in drawn] == [
        [1, 2, 3, 4],
        [1, 2, 3, 4, 5, 6],
    ]
    # If no curves were drawn before, the records come from the log.
    checkpoints = pt.Checkpoints(tmp_path / "b")
    log = tmp_path / "log.jsonl"
    fit(steps=3, checkpoints=checkpoints, report_every=1, log=log)
    fit(steps=5, checkpoints=checkpoints, resume=True, log=log, **options)
    assert [r["step"] for r in drawn[-1]] == [1, 2, 3, 4, 5]
    # Without curves and log, the earlier records are lost.
    checkpoints = pt.Checkpoints(tmp_path / "c")
    fit(steps=3, checkpoints=checkpoints)
    fit(steps=5, checkpoints=checkpoints, resume=True, **options)
    assert [r["step"] for r in drawn[-1]] == [4, 5]


class Bar:
    """A stand-in for ``tqdm`` that records how ``fit`` uses it."""

    instances = ()

    def __init__(self, **options):
        self.n = options["initial"]
        self.options = options
        self.texts = []
        Bar.instances = (*Bar.instances, self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended = True

    def set_postfix_str(self, text, refresh=True):
        assert not refresh  # it would print another line in a plain log
        self.texts.append(text)

    def update(self, steps):
        self.n += steps


LENGTHS = {  # options of fit: the total number of steps in the bar
    "steps": ({"steps": 6}, 6),
    "epochs": ({"epochs": 3}, 12),
    "both": ({"epochs": 3, "steps": 5}, 5),
    "fewer epochs": ({"epochs": 1, "steps": 99}, 4),
    "prefetched": (
        {"epochs": 2, "batches": pt.Prefetch(pt.Batches((X, X), 8))},
        8,
    ),
    "unknown": ({"epochs": 1, "batches": pt.IterableBatches(examples, 8)}, None),
    "prefetched, unknown": (
        {"epochs": 1, "batches": pt.Prefetch(pt.IterableBatches(examples, 8))},
        None,
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_the_total_of_the_bar(name, monkeypatch):
    auto = pytest.importorskip("tqdm.auto", reason="the bar needs tqdm: make demo")
    monkeypatch.setattr(auto, "tqdm", Bar)
    monkeypatch.setattr(Bar, "instances", ())
    options, total = LENGTHS[name]
    fitted = fit(progress=True, **options)
    (bar,) = Bar.instances
    assert (bar.options["total"], bar.n, bar.ended) == (total, fitted.step, True)
    assert bar.texts[-1].startswith("epoch ")


def test_the_bar_of_a_resumed_training_begins_at_the_saved_step(tmp_path, monkeypatch):
    auto = pytest.importorskip("tqdm.auto", reason="the bar needs tqdm: make demo")
    monkeypatch.setattr(auto, "tqdm", Bar)
    monkeypatch.setattr(Bar, "instances", ())
    checkpoints = pt.Checkpoints(tmp_path)
    fit(steps=3, checkpoints=checkpoints)
    fit(epochs=2, checkpoints=checkpoints, resume=True, progress=True)
    (bar,) = Bar.instances
    assert (bar.options["initial"], bar.options["total"], bar.n) == (3, 8, 8)
