"""Excuses for skipping a test, and the file with the number of skipped tests."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import plugrad as pg
import pytest
from plugrad_conformance import skips
from plugrad_conformance.excuses import excuse, mentions_dtype
from plugrad_conformance.scorecard import Scorecard
from plugrad_conformance.toy import toy

DTYPES = "bool int32 float32"


@dataclass
class Row:
    op: object
    values: tuple


# --- excuses ---------------------------------------------------------------------

IMPLIED = [
    ("float64", "float64"),
    ("d", "float64"),
    (np.float64, "float64"),
    (np.dtype("float64"), "float64"),
    (np.zeros(2), "float64"),
    (np.float64(1), "float64"),
    ({"dtype": "float64"}, "float64"),
    ([("a", 1), [np.zeros(2)]], "float64"),
    (Row(len, (np.zeros(2),)), "float64"),
    (1j, "complex64"),
    ([1, 2j], "complex64"),
    (2**40, "int64"),
    ("text", "string"),
    (b"text", "string"),
    (np.array(["a"]), "string"),
    (pg.asarray(1), "int32"),
]


@pytest.mark.parametrize(("value", "dtype"), IMPLIED, ids=str)
def test_values_that_imply_a_dtype(value, dtype):
    assert mentions_dtype(value, dtype)
    assert not mentions_dtype(value, "float16")


@pytest.mark.parametrize("value", [None, 1, True, 1.5, "float", [], {}, len, (), "f"])
def test_values_that_imply_no_dtype(value):
    assert not any(mentions_dtype(value, d) for d in ("float64", "int64", "complex64"))


def raised(text, **variables):
    """Return the TypeError of an expression that stands for the code of a test."""
    with pytest.raises(TypeError) as caught:
        eval(text, {"pg": pg, "np": np, **variables})
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "pg.exp(np.ones(2))",
        "pg.zeros((2,), dtype='float64')",
        "pg.add(np.ones(2, 'float32'), np.ones(2))",
        "pg.ones((2,)) * np.ones(2)",
        "pg.exp(1j)",
    ],
)
def test_a_dtype_in_the_code_of_a_test_is_an_excuse(text):
    with toy(dtypes=DTYPES.split()), pg.use_backend("toy"):
        assert excuse(raised(text), "toy", {}).startswith("toy has no ")
        assert excuse(raised(text), "cpu", {}) == ""


def test_a_dtype_that_only_the_op_uses_is_no_excuse():
    text = "def careless(pg, x): return pg.exp(pg.astype(x, 'float64'))"
    exec(compile(text, "the file of an op", "exec"), scope := {})
    with toy(dtypes=DTYPES.split()), pg.use_backend("toy"):
        error = raised("careless(pg, pg.ones((2,)))", careless=scope["careless"])
        assert "has no float64" in str(error)
        assert excuse(error, "toy", {"op": "exp"}) == ""
        assert excuse(error, "toy", {"dtype": "float64"}) == "toy has no float64"


# --- how many are skipped --------------------------------------------------------

PINNED = skips.Pinned(["bool", "float32"], {"no fork": 2, "too large": 1})


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        ({"no fork": 2, "too large": 1}, []),
        ({"no fork": 3, "too large": 1}, ["mine: 3 tests are skipped, not 2: no fork"]),
        ({"no fork": 2}, ["mine: 0 tests are skipped, not 1: too large"]),
        (
            {"no fork": 2, "too large": 1, "new": 7},
            ["mine: 7 tests are skipped, not 0: new"],
        ),
    ],
)
def test_each_change_is_reported(found, lines):
    assert skips.changes("mine", ["float32", "bool"], Counter(found), PINNED) == lines
    assert skips.changes("mine", ["float32"], Counter(found), PINNED) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[mine]\ndtypes = 'bool'", r"\[mine\] must have dtypes = text, skipped = c"),
        ("[mine]\ndtypes = 'bool'\nskipped = {a = 'b'}", "must have"),
        ("[mine]\ndtypes = 'bool'\nskipped = {}\nmore = 1", "must have"),
        ("[mine", "skips.toml: "),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, text, complaint):
    path = tmp_path / "skips.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        skips.read(path)


def result(backend, outcome, why="", **fields):
    about = {"test": "t", "backend": backend, "level": "everything", "kernel": ""}
    return {"outcome": outcome, "why": why, "plugrad": about, **fields}


def test_a_backend_is_counted_if_all_its_tests_have_run():
    with pg.use_backend("cpu"):
        dtypes = sorted(pg.plugin.runtime("cpu").dtypes)
    card = Scorecard(None, {"cpu": skips.Pinned(dtypes, {"no fork": 1})})
    card.results = {
        "a": result("cpu", "passed"),
        "b": result("cpu", "skipped", "too large"),
        "c": result("cpu", "skipped", "cpu has no x", **{skips.FOLLOWS: True}),
    }
    assert card.changes() == [
        "cpu: 0 tests are skipped, not 1: no fork",
        "cpu: 1 tests are skipped, not 0: too large",
    ]
    card.thinned = {"wasm"}
    assert card.changes()
    card.thinned = {"cpu"}
    assert not card.changes()
    card.thinned = set()
    card.partial = True
    assert not card.changes()


def test_a_skip_follows_from_parameters():
    assert skips.follows("mine has no float64", {"dtype": "float64"})
    assert not skips.follows("mine has no float64", {"dtype": "float32"})
    assert not skips.follows("mine has no entry point", {"dtype": "float32"})


def test_a_part_of_the_tests_is_not_counted(kit):
    kit.install()
    (kit.folder / "skips.toml").write_text(
        '[faulty]\ndtypes = "bool complex64 float32 float64 int32"\n'
        'skipped = {"some reason" = 3}\n'
    )
    (kit.folder / "pytest.ini").write_text("[pytest]\nplugrad_skips = skips.toml\n")
    done = kit.run("backend.test_life")
    assert done.returncode == 0, done.stdout
    (kit.folder / "skips.toml").write_text("[faulty]\n")
    done = kit.run("backend.test_life")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "plugrad_skips: " in done.stderr
