"""Errors carry links to the page that explains them, below their message."""

import pickle
import traceback

import plugrad as pg
import pytest
from plugrad import plugin
from plugrad._src.tensor.explained import ERRORS_PAGE, explained, replacing


@pytest.fixture(autouse=True)
def accelerators():
    """Run once: nothing here has an accelerator in C."""


def test_the_link_is_a_note_below_the_message():
    error = plugin.explained(ValueError("far: no"), "far-is-wrong")
    assert str(error) == "far: no"
    assert traceback.format_exception_only(error) == [
        "ValueError: far: no\n",
        f"See {ERRORS_PAGE}#far-is-wrong\n",
    ]


def test_a_complete_address_is_not_changed():
    error = explained(RuntimeError("far: no"), "https://far.org/errors#no")
    assert error.__notes__ == ["See https://far.org/errors#no"]


def test_an_error_that_replaces_another_keeps_its_notes():
    old = explained(ValueError("output: no"), "a")
    old.add_note("b")
    new = replacing(old, TypeError("Add: no"))
    assert new.__notes__ == old.__notes__
    assert not hasattr(replacing(ValueError(), TypeError()), "__notes__")


def test_a_link_survives_pickling():
    error = pickle.loads(pickle.dumps(explained(ValueError("far: no"), "a")))
    assert error.__notes__ == [f"See {ERRORS_PAGE}#a"]


RENAMED = {  # errors that are raised again under another name
    "shapes-do-not-broadcast": lambda: pg.run_kernel("Add", [[1.0, 2.0], [1.0] * 3]),
    "unknown-backend": lambda: plugin.runtime("far"),
}


@pytest.mark.parametrize("section", RENAMED)
def test_a_renamed_error_keeps_its_link(section):
    with pytest.raises((ValueError, pg.BackendUnavailable)) as caught:
        RENAMED[section]()
    assert caught.value.__notes__ == [f"See {ERRORS_PAGE}#{section}"]
