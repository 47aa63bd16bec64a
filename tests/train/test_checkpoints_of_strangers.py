"""Checkpoints from strangers: invalid ones are skipped, and a budget limits reading."""

import hashlib
import json
import os
import re

import plugrad as pg
import plugrad_train as pt
import pytest


def tree(value=1.0):
    return {"w": pg.full((2, 3), float(value))}


def write_signed(checkpoints, number, /, **changes):
    """Change a JSON file together with its checksum, as a stranger can."""
    path = checkpoints.path(number)
    body = json.loads(path.read_bytes()) | changes
    del body["checksum"]
    body = {key: x for key, x in body.items() if x is not KeyError}
    text = json.dumps(body, sort_keys=True, indent=1).encode()
    body["checksum"] = hashlib.sha256(text).hexdigest()
    path.write_text(json.dumps(body))


def replace_json(make):
    """Return a function that replaces the JSON file of step 2."""

    def spoil(checkpoints):
        path = checkpoints.path(2)
        path.unlink()
        make(path)

    return spoil


def replace_tensors(make):
    def spoil(checkpoints):
        path = next(checkpoints.folder.glob("step-00000002.*.safetensors"))
        path.unlink()
        make(path)

    return spoil


INVALID = {
    "a pipe": (replace_json(os.mkfifo), "is a pipe, not a regular file"),
    "a folder": (replace_json(os.mkdir), "it is a folder"),
    "deep JSON": (
        replace_json(lambda p: p.write_text("[" * 10**5 + "]" * 10**5)),
        "100000 levels of JSON",
    ),
    "deep objects": (
        replace_json(lambda p: p.write_text('{"a":' * 10**5 + "1" + "}" * 10**5)),
        "100000 levels of JSON",
    ),
    "a list": (replace_json(lambda p: p.write_text("[]")), "it is not complete"),
    "tensors that are a pipe": (
        replace_tensors(os.mkfifo),
        "is a pipe, not a regular file",
    ),
    "tensors that are a folder": (replace_tensors(os.mkdir), "Is a directory"),
    **{
        f"{name} is {value!r}": (
            lambda checkpoints, name=name, value=value: write_signed(
                checkpoints, 2, **{name: value}
            ),
            f"its {name} is not what save writes for step 2",
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
    "the step is 3": (
        lambda checkpoints: write_signed(checkpoints, 2, step=3),
        "step 3 is not what save writes for step 2",
    ),
    "the format is missing": (
        lambda checkpoints: write_signed(checkpoints, 2, format=KeyError),
        "format None is unknown",
    ),
}


@pytest.mark.parametrize("row", INVALID)
def test_an_invalid_checkpoint_is_skipped(row, tmp_path):
    spoil, message = INVALID[row]
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
        pt.CheckpointError, match="bytes are needed, but the budget allows"
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


TENSORS = f"step-00000001.{16 * 'a'}.safetensors"
DRAFT = "1.0123abcd.tmp"


def filled(path):
    """Make a folder that is not empty."""
    (path / "mine").mkdir(parents=True)
    (path / "mine/notes.txt").write_text("hours of work")


def looped(path):
    path.symlink_to(path.name)


def linked(path):
    """Make a link to a folder next to the checkpoints."""
    filled(path.parent.parent / "elsewhere")
    path.symlink_to("../elsewhere", target_is_directory=True)


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("make", [filled, os.mkdir, os.mkfifo, looped, linked])
@pytest.mark.parametrize(
    "name",
    [
        "step-00000001.json",
        "step-000000001.json",
        "step-99999999.json",
        TENSORS,
        DRAFT,
        "step-00000001",
        "checkpoint-1",
    ],
)
def test_folders_pipes_and_links_stay(name, make, keep, tmp_path):
    """Such entries are not removed, cause no error and do not count as checkpoints."""
    folder = tmp_path / "checkpoints"
    checkpoints = pt.Checkpoints(folder, keep=keep, best="loss")
    entry = folder / name
    make(entry)
    before = os.lstat(entry)
    for step in range(2, 6):
        checkpoints.save(step, tree(step), metrics={"loss": -step})
        assert os.lstat(entry).st_ino == before.st_ino
    if make in (filled, linked):
        assert (entry / "mine/notes.txt").read_text() == "hours of work"
    saved = {int(path.name[5:13]) for path in folder.glob("step-*.safetensors")}
    assert saved - {1} == {*range(6 - keep, 6)}


def test_a_folder_named_like_a_draft_stays_if_it_contains_folders(tmp_path):
    filled(tmp_path / f"{DRAFT}.4567abcd.tmp")
    pt.Checkpoints(tmp_path).save(1, tree())
    assert (tmp_path / f"{DRAFT}.4567abcd.tmp/mine/notes.txt").exists()


def test_a_folder_in_place_of_tensors_stays_when_the_checkpoint_goes(tmp_path):
    checkpoints = pt.Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, tree())
    path = next(tmp_path.glob("step-00000001.*.safetensors"))
    path.unlink()
    filled(path)
    checkpoints.save(2, tree())
    checkpoints.save(3, tree())
    assert checkpoints.steps() == [3]
    assert (path / "mine/notes.txt").exists()
