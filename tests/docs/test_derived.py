"""The files that ``make docs`` writes are up to date."""

import pytest

from tests.docs.derived import FILES, ROOT, Signatures, plugrad_only_rows


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_file_is_up_to_date(path):
    assert path.read_text() == FILES[path](), f"{path.relative_to(ROOT)}: run make docs"


def some_op(x: "int", y: "str | None", /, z: "int" = 0, *, k: "bool" = True) -> "bool":
    """Return ``a|b``, or more."""


METHODS = {  # the name of a method: its signature
    "some_op": "(self, y: str | None, /, z: int = 0, *, k: bool = True) -> bool",
    "__add__": "(self, y: str | None, /) -> bool",
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_signature_of_the_op_without_its_first_parameter(name):
    line = Signatures().method(name, some_op)
    assert line == f"    def {name}{METHODS[name]}: ...\n"


def test_a_row_has_the_first_line_of_the_docstring(monkeypatch):
    monkeypatch.setattr("tests.docs.derived.ops", lambda: {"some_op": some_op})
    assert [*plugrad_only_rows("`pg.relu`")] == [
        "| `pg.some_op` | `a\\|b`, or more. |\n"
    ]
    assert not [*plugrad_only_rows("`pg.some_op`")]
