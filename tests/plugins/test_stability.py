"""docs/stability.md: the surface for plugin authors, and how changes are announced."""

import re
import warnings
from pathlib import Path

import plugrad as pg
import pytest
from plugrad._src.registry.deprecation import deprecated, warn_deprecated

from tests.plugins import api

PAGE = (api.ROOT / "docs" / "stability.md").read_text()


def test_changed_items_are_in_the_changelog():
    """If this fails, name the items at the top of CHANGELOG.md, like `Runtime.x`."""
    assert not api.unnamed(api.released(), api.surface(), api.unreleased())


def test_the_recorded_surface_is_that_of_the_last_release():
    """For a release, edit the changelog, then run ``python -m tests.plugins.api``."""
    versions = re.findall(
        r"^## \[(\d[^]]*)\]", (api.ROOT / "CHANGELOG.md").read_text(), re.M
    )
    first = api.RELEASED.read_text().splitlines()[0]
    assert f"surface of {versions[0] if versions else '0.1.0'}," in first


CHANGES = {  # what happens to an item: before, after
    "added": ({}, {"Runtime.self_test": "Callable"}),
    "removed": ({"Runtime.self_test": "Callable"}, {}),
    "changed": ({"Runtime.self_test": "Callable"}, {"Runtime.self_test": "str"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_the_changelog_does_not_name_is_found(change):
    before, now = CHANGES[change]
    assert api.unnamed(before, now, "- `Runtime.close` is called") == [
        "Runtime.self_test"
    ]
    assert api.unnamed(before, now, "- `Runtime.self_test`, for doctor") == []
    assert api.unnamed(now, now, "") == []


def test_a_new_module_covers_its_items():
    before = {"geometry.axes": "()"}
    now = {"importing.ValueInfo.name": "str"}
    now |= {"geometry.axes": "()"}
    assert not api.unnamed(before, now, "- `plugrad.importing`, for importers")
    assert api.unnamed(before, now, "- nothing") == ["importing.ValueInfo.name"]
    more = now | {"importing.in_order": "()"}
    assert api.unnamed(now, more, "- `plugrad.importing`") == ["importing.in_order"]


def minor(version):
    return tuple(map(int, version.split(".")[:2]))


def test_only_a_new_minor_version_breaks_plugins():
    """From 1.0 on, only a new entry-point group breaks plugins."""
    released = re.search(r"surface of ([\d.]+)", api.RELEASED.read_text())[1]
    broken = api.breaking(api.released(), api.surface())
    assert not broken or minor(pg.__version__) > minor(released)


EDITS = {  # an edit: form before, form after, and whether it may break a plugin
    "removed": ("class", None, True),
    "the same": ("(x)", "(x)", False),
    "an option": ("(x)", "(x, *, y=1)", False),
    "a position with a default": ("(x, y=1)", "(x, y=1, z=2)", False),
    "a position in front": ("(x, y=1)", "(z=2, x=0, y=1)", True),
    "a parameter that is needed": ("(x)", "(x, y)", True),
    "an option that is needed": ("(x)", "(x, *, y)", True),
    "a removed parameter": ("(x, *, y=1)", "(x)", True),
    "another default": ("(x=1)", "(x=2)", True),
    "by keyword only": ("(x, y=1)", "(x, *, y=1)", True),
    "a field": ("a, b", "a, b, c", False),
    "another field": ("a, b", "a, c", True),
    "a protocol": ("protocol", "class", True),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_that_may_break_a_plugin(edit):
    before, now, breaks = EDITS[edit]
    after = {} if now is None else {"f": now}
    assert api.breaking({"f": before}, after) == (["f"] if breaks else [])


def test_the_page_has_a_row_for_each_deprecation():
    calls = r"(?:@deprecated|warn_deprecated)\(\s*[^)]*?since=\"([\d.]+)\""
    sources = [
        *api.ROOT.glob("core/src/**/*.py"),
        *api.ROOT.glob("plugins/*/src/**/*.py"),
    ]
    found = [version for p in sources for version in re.findall(calls, p.read_text())]
    log = PAGE.split("## Deprecation")[1]
    rows = re.findall(r"^\| `[^|]*` \| ([\d.]+) \|", log, re.M)
    assert sorted(rows) == sorted(found)


def test_the_surface_includes_what_authors_use():
    items = api.surface()
    for item in ("Runtime.host", "Arrays.upload", "Kernel", "plugrad_backends", "run"):
        assert item in items
    for item in ("windows", "Windows.padding", "Resizing.nearest", "Rotation.table"):
        assert f"geometry.{item}" in items
    for item in ("ModelError", "ValueInfo.fits", "ValueInfo.shape", "in_order"):
        assert f"importing.{item}" in items
    assert not [item for item in items if re.search(r"\b_(?!_call__)", item)]
    assert "fused: 'bool' = False" in items["Kernel"]
    assert " at 0x" not in str(items)


def test_the_page_names_all_items():
    named = set(re.findall(r"`([A-Za-z0-9_.]+)`", PAGE.split("## What is not")[0]))
    items = {re.sub(r"^(geometry|importing)\.", "", name) for name in api.surface()}
    exported = {name for name in items if "." not in name}
    missing = exported - named - {"Spec", "Tensor", "TensorLike"}
    assert not missing


def nested(levels):
    if levels:
        nested(levels - 1)
    else:
        warn_deprecated("old", since="0.2", until="0.4", use="new")


def test_a_deprecation_points_at_the_callers_line():
    with pytest.warns(pg.PlugradDeprecationWarning) as caught:
        warn_deprecated("Runtime(old=)", since="0.2", until="0.4", use="new=")
    (warning,) = caught
    assert str(warning.message) == (
        "Runtime(old=) has been deprecated since plugrad 0.2 and will be removed in "
        "0.4; use new="
    )
    assert Path(warning.filename) == Path(__file__)
    line = Path(__file__).read_text().splitlines()[warning.lineno - 1]
    assert 'warn_deprecated("Runtime(old=)"' in line


def test_a_deprecation_looks_through_plugrads_own_frames():
    inner = {"__name__": "plugrad._anything", "warn": warn_deprecated}
    exec("def f(): warn('f()', since='0.2', until='0.4', use='g()')", inner)
    with pytest.warns(pg.PlugradDeprecationWarning, match=r"use g\(\)") as caught:
        inner["f"]()
    assert Path(caught[0].filename) == Path(__file__)


def test_a_deprecated_function_warns_and_works():
    @deprecated(since="0.2", until="0.4", use="new()")
    def old(x, *, y=1):
        """Return a sum."""
        return x + y

    with pytest.warns(
        pg.PlugradDeprecationWarning, match=r"old\(\) has been deprecated"
    ):
        assert old(1, y=2) == 3
    assert old.__doc__ == "Return a sum."


def test_authors_see_deprecations_and_their_users_do_not():
    assert issubclass(pg.PlugradDeprecationWarning, DeprecationWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pg.PlugradDeprecationWarning)
        with pytest.raises(pg.PlugradDeprecationWarning):
            nested(3)
