"""docs/names.md maps all ops of TensorFlow.js, and lists what only plugrad has."""

import json
import re
from pathlib import Path

import plugrad as pg

from tests.surface import ops

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "names.md").read_text()
TFJS = json.loads((ROOT / "tests" / "data" / "tfjs_ops.json").read_text())
THEIRS, REST = TEXT.split("## Only in plugrad")
OURS = REST.partition("## Names of other libraries")[0]


def rows(text):
    """Return the rows of a table as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def targets(text):
    return set(re.findall(r"`pg\.([A-Za-z_][\w.]*)", text))


def exists(name):
    value = pg
    for word in name.split("."):
        value = getattr(value, word, None)
    return value is not None


def test_every_op_of_tensorflow_js_has_a_row():
    full = [f"{space}.{n}" if space else n for space, ns in TFJS.items() for n in ns]
    assert len(full) == 258
    found = [row[0] for row in rows(THEIRS)]
    assert sorted(found) == sorted(f"`tf.{name}`" for name in full)


def test_every_row_says_where_it_went():
    for theirs, ours, remark in rows(THEIRS):
        if ours == "none":
            assert remark, f"{theirs}: say what to do instead"
        else:
            assert targets(ours), f"{theirs} went to {ours}"


def test_every_name_exists():
    assert not sorted(name for name in targets(TEXT) if not exists(name))


def test_every_op_of_ours_is_in_a_table():
    only = [row[0].removeprefix("`pg.").removesuffix("`") for row in rows(OURS)]
    assert only == sorted(only)
    assert sorted(set(ops()) - targets(THEIRS)) == only
