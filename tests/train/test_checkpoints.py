"""Checkpoints: complete or not there, whatever kills the process."""

import hashlib
import json
import math
import os
import random
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from tests.train.trainee import train

ROOT = Path(__file__).parents[2]


def tree(value=1.0):
    layers = [(pg.asarray(1), pg.zeros(()))]
    return {"w": pg.full((2, 3), float(value)), "layers": layers}


def values(found):
    return [x.numpy().tobytes() for x in pg.tree.leaves(found)]


def test_what_was_saved_is_restored(backend, tmp_path):
    checkpoints = pt.Checkpoints(tmp_path / "new" / "folder")
    params = {"v": pg.Variable([1.0, 2.0]), "none": None, "key": pg.random.key(3)}
    path = checkpoints.save(7, params, {"epoch": 2, "names": ["a"]}, {"loss": 0.5})
    assert path == checkpoints.path(7)
    like = {"v": pg.zeros(2), "none": None, "key": pg.random.key(0)}
    found = checkpoints.restore(like)
    assert (found.step, found.rest, found.metrics) == (
        7,
        {"epoch": 2, "names": ["a"]},
        {"loss": 0.5},
    )
    assert found.tree["v"].tolist() == [1.0, 2.0]
    assert found.tree["v"].backend == backend
    assert found.tree["key"].tolist() == pg.random.key(3).tolist()


def test_the_rest_is_as_json_has_it(tmp_path):
    """Numbers as keys are sorted as text when they are read again."""
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree(), {"by step": {2: (1, 2), 10: math.inf}})
    rest = checkpoints.restore(tree()).rest
    assert rest == {"by step": {"2": [1, 2], "10": math.inf}}


def test_the_last_and_the_best_are_kept(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path, keep=2, best="accuracy", mode="max")
    for step, accuracy in enumerate([0.1, 0.9, 0.5, float("nan"), 0.3], 1):
        checkpoints.save(step, tree(step), metrics={"accuracy": accuracy})
    checkpoints.save(6, tree(6))  # in the middle of an epoch
    assert (checkpoints.steps(), checkpoints.best_step()) == ([2, 5, 6], 2)
    assert checkpoints.restore(tree(), checkpoints.best_step()).tree["w"][0, 0] == 2.0
    assert len([*tmp_path.iterdir()]) == 6
    with pytest.raises(ValueError, match="metric 'accuracy', and metrics has 'loss'"):
        checkpoints.save(7, tree(), metrics={"loss": 1.0})
    assert pt.Checkpoints(tmp_path).best_step() is None


def test_a_step_is_saved_again(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path)
    for value in (1.0, 2.0):
        checkpoints.save(3, tree(value))
    assert checkpoints.restore(tree()).tree["w"][0, 0] == 2.0
    assert len([*tmp_path.iterdir()]) == 2


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def other_number(path):
    path.write_text(path.read_text().replace('"epoch": 2', '"epoch": 3'))


def other_format(path):
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"format": 2}))


JSON, TENSORS = "*.json", "*.safetensors"
DAMAGES = {  # what is done to which file of the newest checkpoint: what is said
    "truncated JSON": (JSON, truncate, "is not complete"),
    "empty JSON": (JSON, lambda path: path.write_bytes(b""), "is not complete"),
    "a list": (JSON, lambda path: path.write_text("[]"), "is not complete"),
    "altered JSON": (JSON, other_number, "was altered"),
    "another format": (JSON, other_format, "was altered"),
    "truncated tensors": (TENSORS, truncate, "was truncated or altered"),
    "altered tensors": (TENSORS, flip, "was truncated or altered"),
    "no tensors": (TENSORS, Path.unlink, "is missing"),
}


@pytest.mark.parametrize("row", DAMAGES)
def test_a_damaged_checkpoint_is_refused_with_its_name(row, tmp_path):
    kind, damage, message = DAMAGES[row]
    checkpoints = pt.Checkpoints(tmp_path)
    for step in (1, 2):
        checkpoints.save(step, tree(step), {"epoch": 2})
    (path,) = tmp_path.glob(f"step-00000002{kind}")
    damage(path)
    with pytest.raises(pt.CheckpointError, match=message) as caught:
        checkpoints.restore(tree(), 2)
    assert "step-00000002" in str(caught.value)
    with pytest.warns(pt.CheckpointWarning, match="step-00000002"):
        found = checkpoints.restore(tree())
    assert (found.step, found.tree["w"][0, 0].item()) == (1, 1.0)
    (path,) = tmp_path.glob(f"step-00000001{kind}")
    damage(path)
    with pytest.raises(pt.CheckpointError, match=r"step-00000002.*step-00000001"):
        checkpoints.restore(tree())
    left = {file.name for file in tmp_path.glob("step-0000000[12]*")}
    checkpoints.save(3, tree(3))  # damaged ones do not prevent it
    assert checkpoints.restore(tree()).step == 3
    assert left == {file.name for file in tmp_path.glob("step-0000000[12]*")}


OTHERS = {  # another model: what differs
    "shape": (lambda t: t | {"w": pg.zeros((3, 3))}, "['w'] is float32 (2, 3), here"),
    "dtype": (
        lambda t: t | {"w": pg.zeros((2, 3), dtype=pg.int32)},
        "here int32 (2, 3)",
    ),
    "missing": (lambda t: {"w": t["w"]}, "['layers'][0][0] is not in the model"),
    "more": (lambda t: t | {"x": pg.zeros(1)}, "['x'] is not in the checkpoint"),
    "many": (lambda t: [pg.zeros(1)] * 9, "and 7 more"),
}


@pytest.mark.parametrize("row", OTHERS)
def test_a_checkpoint_of_another_model_is_refused(row, tmp_path):
    other, message = OTHERS[row]
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(pt.CheckpointError, match="step-00000001") as caught:
        checkpoints.restore(other(tree()))
    assert message in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


WRONG = {
    "leaf": (TypeError, lambda c: c.save(1, {"w": 3.0}), "has tensors, and what else"),
    "rest": (TypeError, lambda c: c.save(1, tree(), {"x": object()}), "JSON"),
    "none": (FileNotFoundError, lambda c: c.restore(tree()), "has no checkpoint"),
    "step": (
        FileNotFoundError,
        lambda c: c.restore(tree(), 3),
        "no checkpoint of step",
    ),
    "keep": (ValueError, lambda c: pt.Checkpoints(c.folder, keep=0), "keep"),
    "mode": (ValueError, lambda c: pt.Checkpoints(c.folder, mode="most"), "mode"),
}


@pytest.mark.parametrize("row", WRONG)
def test_what_does_not_fit_is_refused(row, tmp_path):
    error, call, message = WRONG[row]
    with pytest.raises(error, match=message):
        call(pt.Checkpoints(tmp_path))
    assert not [*tmp_path.iterdir()]


def write_signed(checkpoints, number, /, **changes):
    """Change a JSON file, and its checksum with it, as a stranger can."""
    path = checkpoints.path(number)
    body = json.loads(path.read_bytes()) | changes
    del body["checksum"]
    body = {key: x for key, x in body.items() if x is not KeyError}
    text = json.dumps(body, sort_keys=True, indent=1).encode()
    body["checksum"] = hashlib.sha256(text).hexdigest()
    path.write_text(json.dumps(body))


def replaced(make):
    """Return what puts something else in the place of the JSON file of step 2."""

    def spoil(checkpoints):
        path = checkpoints.path(2)
        path.unlink()
        make(path)

    return spoil


def replaced_tensors(make):
    def spoil(checkpoints):
        path = next(checkpoints.folder.glob("step-00000002.*.safetensors"))
        path.unlink()
        make(path)

    return spoil


OF_STRANGERS = {
    "a pipe": (replaced(os.mkfifo), "is a pipe, not a regular file"),
    "a folder": (replaced(os.mkdir), "it is a folder"),
    "deep JSON": (
        replaced(lambda p: p.write_text("[" * 10**5 + "]" * 10**5)),
        "100000 levels of JSON",
    ),
    "deep objects": (
        replaced(lambda p: p.write_text('{"a":' * 10**5 + "1" + "}" * 10**5)),
        "100000 levels of JSON",
    ),
    "a list": (replaced(lambda p: p.write_text("[]")), "it is not complete"),
    "tensors that are a pipe": (
        replaced_tensors(os.mkfifo),
        "is a pipe, not a regular file",
    ),
    "tensors that are a folder": (replaced_tensors(os.mkdir), "Is a directory"),
    **{
        f"{name} is {value!r}": (
            lambda checkpoints, name=name, value=value: write_signed(
                checkpoints, 2, **{name: value}
            ),
            f"its {name} is none that save writes for step 2",
        )
        for name, value in [
            ("file", "../step-00000002.0123456789abcdef.safetensors"),
            ("file", "/etc/passwd"),
            ("file", 3),
            ("file", KeyError),
            ("sha256", None),
            ("step", "2"),
            ("rest", []),
            ("metrics", {"loss": "small"}),
            ("metrics", 1),
        ]
    },
    "the step is another": (
        lambda checkpoints: write_signed(checkpoints, 2, step=3),
        "step 3 is none that save writes for step 2",
    ),
    "the format is missing": (
        lambda checkpoints: write_signed(checkpoints, 2, format=KeyError),
        "format None is unknown",
    ),
}


@pytest.mark.parametrize("row", OF_STRANGERS)
def test_a_checkpoint_of_a_stranger_is_passed_over(row, tmp_path):
    spoil, message = OF_STRANGERS[row]
    checkpoints = pt.Checkpoints(tmp_path, best="loss")
    for step in (1, 2):
        checkpoints.save(step, tree(step), metrics={"loss": 1.0})
    spoil(checkpoints)
    with pytest.warns(pt.CheckpointWarning, match=re.escape(message)):
        assert checkpoints.restore(tree()).step == 1
    with pytest.raises(pt.CheckpointError, match=re.escape(message)):
        checkpoints.restore(tree(), step=2)
    if "tensors" not in row:
        assert checkpoints.best_step() == 1


def test_a_budget_limits_what_is_restored(tmp_path):
    pt.Checkpoints(tmp_path).save(1, tree(), {"long": [0] * 1000})
    with pytest.raises(
        pt.CheckpointError, match="bytes are needed, and the budget has"
    ):
        pt.Checkpoints(tmp_path, budget=pg.Budget(bytes=1000)).restore(tree())
    deep = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(pg.BudgetError, match="save: 503 levels of JSON, 4 of which"):
        pt.Checkpoints(tmp_path).save(2, tree(), {"deep": deep})
    checkpoints = pt.Checkpoints(tmp_path, budget=pg.Budget(depth=200))
    checkpoints.save(2, tree(), {"deep": deep})
    assert checkpoints.restore(tree()).rest == {"deep": deep}


def test_a_save_that_fails_leaves_the_others(tmp_path, monkeypatch):
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree(1))

    def fail(source, target):
        raise OSError("no space left")

    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoints.save(2, tree(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- a process that is killed ----------------------------------------------------


def killed(folder, seconds):
    """Start a training, and kill it some time after its first step."""
    command = [sys.executable, "-m", "tests.train.trainee", str(folder), "1000000"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    with process, process.stdout:
        assert process.stdout.readline() == b"ready\n"
        before, start = newest(folder), time.monotonic()
        while newest(folder) == before and process.poll() is None:
            assert time.monotonic() < start + 60, "the training does not begin"
            time.sleep(0.001)
        time.sleep(seconds)
        assert process.poll() is None, "the training has failed"
        process.kill()


def newest(folder):
    steps = pt.Checkpoints(folder).steps()
    return steps[-1] if steps else 0


def test_a_killed_training_resumes_to_the_same_bits(tmp_path, request):
    """It saves after each step, so that it is killed while it writes, mostly."""
    rng = random.Random(request.config.getoption("soak_seed"))
    step, drafts = 0, 0
    with pg.use_backend("cpu"):
        for _ in range(100 if request.config.getoption("all") else 4):
            killed(tmp_path, rng.uniform(0, 0.1))
            drafts += any(path.name.endswith(".tmp") for path in tmp_path.iterdir())
            with warnings.catch_warnings():  # CheckpointWarning is an error here
                warnings.simplefilter("error")
                assert newest(tmp_path) > step
                step = newest(tmp_path)
                resumed = train(tmp_path, step + 1)
            whole = train(None, step + 1)
            assert values((resumed.params, resumed.state)) == values(
                (whole.params, whole.state)
            )
            step += 1
    print(f"{drafts} of the kills left a file that was not complete")


def test_the_files_are_those_of_safetensors(tmp_path):
    path = pt.Checkpoints(tmp_path).save(1, tree())
    body = json.loads(path.read_text())
    found = pg.load(tmp_path / body["file"])
    assert sorted(found) == ["['layers'][0][0]", "['layers'][0][1]", "['w']"]
    np.testing.assert_array_equal(found["['w']"].numpy(), np.ones((2, 3)))
