"""A checkpoint is complete or absent, no matter when its process is killed."""

import json
import math
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest
from plugrad_train import _locks

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


def test_the_rest_is_converted_to_json(tmp_path):
    """Integer keys become text, and text is sorted differently."""
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree(), {"by step": {2: (1, 2), 10: math.inf}})
    rest = checkpoints.restore(tree()).rest
    assert rest == {"by step": {"2": [1, 2], "10": math.inf}}


def test_the_last_and_the_best_are_kept(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path, keep=2, best="accuracy", mode="max")
    for step, accuracy in enumerate([0.1, 0.9, 0.5, float("nan"), 0.3], 1):
        checkpoints.save(step, tree(step), metrics={"accuracy": accuracy})
    checkpoints.save(6, tree(6))  # without metrics, as in the middle of an epoch
    assert (checkpoints.steps(), checkpoints.best_step()) == ([2, 5, 6], 2)
    assert checkpoints.restore(tree(), checkpoints.best_step()).tree["w"][0, 0] == 2.0
    assert len([*tmp_path.iterdir()]) == 6
    with pytest.raises(ValueError, match=r"must contain 'accuracy', .*; got 'loss'"):
        checkpoints.save(7, tree(), metrics={"loss": 1.0})
    assert pt.Checkpoints(tmp_path).best_step() is None


def test_repr_of_checkpoints(tmp_path):
    folder = repr(str(tmp_path))
    assert repr(pt.Checkpoints(tmp_path)) == f"Checkpoints({folder}, keep=3)"
    best = pt.Checkpoints(tmp_path, 2, "loss")
    assert repr(best) == f"Checkpoints({folder}, keep=2, best='loss', mode='min')"


def test_a_step_can_be_overwritten(tmp_path):
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


def alter_number(path):
    path.write_text(path.read_text().replace('"epoch": 2', '"epoch": 3'))


def alter_format(path):
    body = json.loads(path.read_text())
    path.write_text(json.dumps(body | {"format": 2}))


JSON, TENSORS = "*.json", "*.safetensors"
DAMAGES = {  # the file of the newest checkpoint, how it is damaged, the message
    "truncated JSON": (JSON, truncate, "is not complete"),
    "empty JSON": (JSON, lambda path: path.write_bytes(b""), "is not complete"),
    "a list": (JSON, lambda path: path.write_text("[]"), "is not complete"),
    "altered JSON": (JSON, alter_number, "was altered"),
    "another format": (JSON, alter_format, "was altered"),
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
    checkpoints.save(3, tree(3))  # damaged checkpoints do not prevent it
    assert checkpoints.restore(tree()).step == 3
    assert left == {file.name for file in tmp_path.glob("step-0000000[12]*")}


OTHER_MODELS = {  # difference: another model's tree, the message
    "shape": (lambda t: t | {"w": pg.zeros((3, 3))}, "['w'] is float32 (2, 3), here"),
    "dtype": (
        lambda t: t | {"w": pg.zeros((2, 3), dtype=pg.int32)},
        "here int32 (2, 3)",
    ),
    "missing": (lambda t: {"w": t["w"]}, "['layers'][0][0] is not in the model"),
    "more": (lambda t: t | {"x": pg.zeros(1)}, "['x'] is not in the checkpoint"),
    "many": (lambda t: [pg.zeros(1)] * 9, "and 7 more"),
}


@pytest.mark.parametrize("row", OTHER_MODELS)
def test_a_checkpoint_of_another_model_is_refused(row, tmp_path):
    other, message = OTHER_MODELS[row]
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(pt.CheckpointError, match="step-00000001") as caught:
        checkpoints.restore(other(tree()))
    assert message in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


STEPS = {  # type: the step as it is passed, and as it is read
    "float": (1.0, 1),
    "float of NumPy": (np.float32(2.0), 2),
    "integer of NumPy": (np.int64(3), 3),
    "unsigned integer of NumPy": (np.uint8(4), 4),
    "tensor": (lambda: pg.asarray(5), 5),
    "zero": (0, 0),
    "nine digits": (123456789, 123456789),
    "the largest": (10**18, 10**18),
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_saved_step_is_found(kind, tmp_path):
    given, step = STEPS[kind]
    given = given() if callable(given) else given
    checkpoints = pt.Checkpoints(tmp_path, best="loss")
    path = checkpoints.save(given, tree(7), metrics={"loss": 1.0})
    assert (path, path.exists()) == (checkpoints.path(step), True)
    assert checkpoints.path(given) == path
    assert (checkpoints.steps(), checkpoints.best_step()) == ([step], step)
    for found in (checkpoints.restore(tree()), checkpoints.restore(tree(), given)):
        assert (found.step, type(found.step)) == (step, int)
        assert found.tree["w"][0, 0] == 7.0


INVALID_STEPS = {
    "half": (0.5, TypeError),
    "bool": (True, TypeError),
    "bool of NumPy": (np.True_, TypeError),
    "text": ("1", TypeError),
    "none": (None, TypeError),
    "complex": (1j, TypeError),
    "list": ([1], TypeError),
    "infinity": (math.inf, TypeError),
    "NaN": (math.nan, ValueError),
    "negative": (-1, ValueError),
    "negative of NumPy": (np.int64(-1), ValueError),
    "huge": (10**18 + 1, ValueError),
    "huger": (10**400, ValueError),
    "huge float": (1e300, ValueError),
}


@pytest.mark.parametrize("kind", INVALID_STEPS)
def test_an_invalid_step_is_refused_before_anything_is_written(kind, tmp_path):
    step, error = INVALID_STEPS[kind]
    checkpoints = pt.Checkpoints(tmp_path)
    with pytest.raises(error, match=r"^save: step must be .*, got"):
        checkpoints.save(step, tree())
    assert not [*tmp_path.iterdir()]


def test_the_rest_may_contain_numpy_scalars(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path)
    rest = {"epoch": np.int64(3), "rate": np.float32(0.5), "ends": np.bool_(True)}
    checkpoints.save(1, tree(), rest)
    found = checkpoints.restore(tree()).rest
    assert found == {"epoch": 3, "rate": 0.5, "ends": True}
    assert {name: type(x) for name, x in found.items()} == {
        "epoch": int,
        "rate": float,
        "ends": bool,
    }


CIRCLE = []
CIRCLE.append(CIRCLE)

WRONG = {
    "leaf": (TypeError, lambda c: c.save(1, {"w": 3.0}), "contains only tensors"),
    "rest": (TypeError, lambda c: c.save(1, tree(), {"x": object()}), "JSON"),
    "array in rest": (
        TypeError,
        lambda c: c.save(1, tree(), {"x": np.ones(2)}),
        r"save: rest cannot be written as JSON: array\(\[1., 1.\]\) is a ndarray",
    ),
    "key in rest": (TypeError, lambda c: c.save(1, tree(), {(1, 2): 3}), "JSON"),
    "rest in itself": (TypeError, lambda c: c.save(1, tree(), {"x": CIRCLE}), "JSON"),
    "best": (TypeError, lambda c: pt.Checkpoints(c.folder, best=["x"]), "best must"),
    "restored step": (TypeError, lambda c: c.restore(tree(), True), "restore: step"),
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
def test_invalid_arguments_are_refused(row, tmp_path):
    error, call, message = WRONG[row]
    with pytest.raises(error, match=message):
        call(pt.Checkpoints(tmp_path))
    assert not [*tmp_path.iterdir()]


def test_a_failed_save_changes_no_other_checkpoint(tmp_path, monkeypatch):
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree(1))

    def fail(source, target):
        raise OSError("no space left")

    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoints.save(2, tree(2))
    assert sorted(path.name for path in tmp_path.iterdir()) == before


# --- several processes -----------------------------------------------------------


def write_leftovers(folder):
    """Write files like those that killed processes leave behind; return all names."""
    (folder / "7.0123abcd.tmp").write_text("half a file")
    draft = folder / "7.0123abcd.tmp.4567abcd.tmp"
    draft.mkdir()
    (draft / ".tmpXYZ").write_text("half a file of safetensors")
    (folder / f"step-00000007.{16 * 'a'}.safetensors").write_text("no JSON file")
    (folder / "my.tmp").write_text("a file of the user's")
    return {path.name for path in folder.iterdir()}


def names(folder):
    return {path.name for path in folder.iterdir()}


LOCK_HOLDER = """
import sys
from pathlib import Path
from plugrad_train._locks import writing
with writing(Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no locks of folders")
def test_files_of_a_live_writer_stay_and_those_of_a_killed_one_do_not(tmp_path):
    left = write_leftovers(tmp_path)
    checkpoints = pt.Checkpoints(tmp_path, keep=1)
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", LOCK_HOLDER, str(tmp_path)], stdin=pipe, stdout=pipe
    ) as writer:
        assert writer.stdout.readline() == b"ready\n"
        for step in (1, 2):
            checkpoints.save(step, tree(step))
        assert left <= names(tmp_path)
        assert checkpoints.steps() == [2]  # nothing waits for the other writer
        assert len(names(tmp_path) - left) == 2
        writer.kill()
        writer.wait()
    checkpoints.save(3, tree(3))
    assert names(tmp_path) & left == {"my.tmp"}
    assert len(names(tmp_path)) == 3


def test_without_locks_old_files_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_locks, "fcntl", None)
    left = write_leftovers(tmp_path)
    checkpoints = pt.Checkpoints(tmp_path)
    checkpoints.save(1, tree())
    assert left <= names(tmp_path)
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    checkpoints.save(1, tree(2))
    assert names(tmp_path) & left == {"my.tmp"}
    assert checkpoints.restore(tree()).tree["w"][0, 0] == 2.0


READER = """
import sys, time, warnings
import plugrad as pg, plugrad_train as pt
warnings.simplefilter("error")
folder, seconds = sys.argv[1], float(sys.argv[2])
checkpoints, start, count = pt.Checkpoints(folder, best="loss"), time.monotonic(), 0
print("ready", flush=True)
while time.monotonic() < start + seconds:
    found = checkpoints.restore({"w": pg.zeros((64, 64))})
    assert found.tree["w"][0, 0].item() == found.step % 1000, found.step
    checkpoints.best_step()
    count += 1
print(count)
"""

WRITER = """
import sys, time, warnings
import plugrad as pg, plugrad_train as pt
warnings.simplefilter("error")
folder, seconds, offset = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
checkpoints, start, step = pt.Checkpoints(folder, 2, "loss"), time.monotonic(), offset
print("ready", flush=True)
while time.monotonic() < start + seconds:
    step += 3
    tree = {"w": pg.full((64, 64), float(step % 1000))}
    checkpoints.save(step, tree, {}, {"loss": 1 / step})
print(step)
"""


def test_processes_save_and_restore_in_one_folder(tmp_path, request):
    seconds = "20" if request.config.getoption("all") else "2"
    pt.Checkpoints(tmp_path, 2, "loss").save(
        1, {"w": pg.full((64, 64), 1.0)}, {}, {"loss": 1.0}
    )
    commands = [(WRITER, str(n)) for n in range(3)] + [(READER, "")] * 2
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), seconds, *offset.split()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for code, offset in commands
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        assert int(out.split()[1]) > 0
    checkpoints = pt.Checkpoints(tmp_path, 2, "loss")
    newest = checkpoints.steps()[-1]
    checkpoints.save(newest + 1, {"w": pg.zeros((64, 64))}, {}, {"loss": 0.0})
    assert len(names(tmp_path)) == 2 * len(checkpoints.steps()) <= 6


# --- a process that is killed ----------------------------------------------------


def kill_a_training(folder, seconds):
    """Start a training, and kill it ``seconds`` after its first new checkpoint."""
    command = [sys.executable, "-m", "tests.train.trainee", str(folder), "1000000"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    with process, process.stdout:
        assert process.stdout.readline() == b"ready\n"
        before = newest(folder)
        start = time.monotonic()
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
    """The training saves after each step, so most kills interrupt a write."""
    rng = random.Random(request.config.getoption("soak_seed"))
    step, drafts = 0, 0
    with pg.use_backend("cpu"):
        for _ in range(100 if request.config.getoption("all") else 4):
            kill_a_training(tmp_path, rng.uniform(0, 0.1))
            drafts += any(path.name.endswith(".tmp") for path in tmp_path.iterdir())
            with warnings.catch_warnings():  # CheckpointWarning is an error here
                warnings.simplefilter("error")
                assert newest(tmp_path) > step
                step = newest(tmp_path)
                resumed = train(tmp_path, step + 1)
            assert not [*tmp_path.glob("*tmp*")]
            uninterrupted = train(None, step + 1)
            assert values((resumed.params, resumed.state)) == values(
                (uninterrupted.params, uninterrupted.state)
            )
            step += 1
    print(f"{drafts} of the kills left an incomplete file")


def test_the_tensors_are_in_safetensors_files(tmp_path):
    path = pt.Checkpoints(tmp_path).save(1, tree())
    body = json.loads(path.read_text())
    found = pg.load(tmp_path / body["file"])
    assert sorted(found) == ["['layers'][0][0]", "['layers'][0][1]", "['w']"]
    np.testing.assert_array_equal(found["['w']"].numpy(), np.ones((2, 3)))
