"""Budgets: errors name the limit and its value, and only the model's files are read."""

import os
import threading

import numpy as np
import plugrad as pg
import pytest


def open_nested_blocks(budget, levels):
    with budget.nested():
        return levels > 1 and open_nested_blocks(budget, levels - 1)


LIMITS = {
    "bytes": (
        pg.Budget(bytes=10),
        lambda b: b.allocate(11),
        "11 bytes are needed, but the budget allows 10",
    ),
    "bytes by default": (
        None,
        lambda b: b.allocate(2**28 + 1),
        "268435457 bytes are needed, but the budget allows 268435456",
    ),
    "nodes": (pg.Budget(nodes=3), lambda b: b.count(4), "4 nodes or more, .* allows 3"),
    "nodes one by one": (
        pg.Budget(nodes=3),
        lambda b: [b.count() for _ in range(4)],
        "4 nodes or more, with functions expanded, but the budget allows 3",
    ),
    "seconds": (
        pg.Budget(seconds=0.01),
        lambda b: [b.tick() for _ in range(10**7)],
        r"0\.0\d* seconds of processor time, but the budget allows 0\.01",
    ),
    "depth": (
        pg.Budget(depth=1),
        lambda b: open_nested_blocks(b, 2),
        "2 nested levels of functions, branches or models, but the budget allows 1",
    ),
    "depth of JSON": (
        pg.Budget(depth=2),
        lambda b: b.json(b"[" * 9 + b"]" * 9),
        "9 levels of JSON, 4 of which count as one, but the budget allows 2",
    ),
    "stack of JSON": (
        pg.Budget(depth=10**6),
        lambda b: b.json(b"[" * 10**5 + b"]" * 10**5),
        "100000 levels of JSON",
    ),
    "size of JSON": (None, lambda b: b.json(b" " * 2**26), "bytes are needed"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_is_named_with_its_value(name):
    given, spend, message = LIMITS[name]
    with pytest.raises(pg.BudgetError, match=message) as caught:
        spend(pg.Budget.started(given, "read"))
    assert str(caught.value) == f"read: {caught.value.problem}"
    known = ("bytes", "nodes", "seconds", "depth")
    limit = next(
        word for word in known if f"plugrad.Budget({word}=" in str(caught.value)
    )
    assert limit in {name.split()[0], "bytes" if "size" in name else "depth"}


def test_each_load_starts_from_zero():
    budget = pg.Budget(bytes=10, nodes=10)
    for _ in range(3):
        started = pg.Budget.started(budget, "read")
        started.allocate(10)
        started.count(10)
        assert not started.affords(1)
    assert pg.Budget.started(budget, "read").affords(10)


def test_only_open_blocks_count_as_depth():
    budget = pg.Budget.started(pg.Budget(depth=1), "read")
    for _ in range(5):
        with budget.nested():
            pass


@pytest.mark.parametrize(
    "limits",
    [{"bytes": -1}, {"nodes": 1.5}, {"depth": None}, {"seconds": "1"}, {"nodes": True}],
)
def test_limits_are_numbers(limits):
    with pytest.raises(
        TypeError, match=f"Budget: {next(iter(limits))} must be a non-neg"
    ):
        pg.Budget(**limits)
    with pytest.raises(TypeError, match=r"load: budget must be a plugrad\.Budget"):
        pg.load("x", budget=3)


# --- files -----------------------------------------------------------------------


def test_a_file_with_several_names_counts_once(tmp_path):
    (tmp_path / "d").write_bytes(bytes(1000))
    os.link(tmp_path / "d", tmp_path / "e")
    (tmp_path / "f").symlink_to("d")
    budget = pg.Budget.started(None, "read")
    for name in ("d", "./d", "././d", "e", "f"):
        assert len(budget.read(name, tmp_path)) == 1000
    with pytest.raises(pg.BudgetError, match=f"allows {2**28 + 8 * 1000};"):
        budget.allocate(2**40)


def run(f, seconds=5):
    """Run a function in a thread; return its error, and fail if it does not end."""
    found = []

    def call():
        try:
            found.append(f())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert found, "the function does not end"
    return found[0]


def test_a_pipe_is_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    os.mkfifo(path)
    error = run(lambda: pg.load(path))
    assert type(error) is ValueError
    assert str(error) == f"load: the file {str(path)!r} is a pipe, not a regular file"
    error = run(lambda: pg.load("/dev/zero"))
    assert "is a device or a socket, not a regular file" in str(error)
    with pytest.raises(IsADirectoryError):
        pg.load(tmp_path)


def test_a_hard_link_to_another_folder_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    os.link(tmp_path / "secret", folder / "w")
    budget = pg.Budget.started(None, "read")
    with pytest.raises(ValueError, match="'w' has hard links outside of the model's"):
        budget.read("w", folder)
    os.unlink(tmp_path / "secret")
    assert budget.read("w", folder) == b"secret"


@pytest.mark.parametrize("name", ["", "../x", "/etc/passwd", "a/../../x", "loop", "\0"])
def test_files_outside_of_the_folder_are_refused(name, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ValueError, match=r"outside of the model's|cannot be found"):
        pg.Budget.started(None, "read").read(name, tmp_path)


def test_tensors_of_a_file_are_charged(tmp_path):
    path = tmp_path / "weights.safetensors"
    pg.save(path, {f"w{i}": np.zeros(100, "float32") for i in range(10)})
    assert len(pg.load(path, budget=pg.Budget(bytes=4000, nodes=10))) == 10
    with pytest.raises(
        pg.BudgetError, match=r"load: 4000 bytes are needed, .* allows 3999"
    ):
        pg.load(path, budget=pg.Budget(bytes=3999))
    with pytest.raises(pg.BudgetError, match=r"load: 10 nodes or more, .* allows 9"):
        pg.load(path, budget=pg.Budget(nodes=9))
