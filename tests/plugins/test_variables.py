"""Environment variables that choose plugins."""

import pytest

from tests.plugins.sources import GOOD, PHASES


def test_a_blocked_plugin_is_never_imported(site, python):
    site("plugrad-bad", "print('imported')")
    out = python(PHASES, PLUGRAD_PLUGINS="cpu")
    lines = out.splitlines()
    assert "plugrad-bad blocked not named in PLUGRAD_PLUGINS" in lines
    assert "imported" not in lines


def test_a_misspelt_variable_warns_once(python):
    out = python(
        """
        import warnings, plugrad as pg
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pg.backends()
        print(*[w.message for w in caught])
        """,
        PLUGRAD_BACKENT="cpu",
        PLUGRAD_CPU_THREADS="2",
    )
    assert (
        out == "PLUGRAD_BACKENT is not used by plugrad; did you mean 'PLUGRAD_BACKEND'?"
    )


def test_a_wrong_variable_warns_once_and_loses_no_backend(python):
    out = python(
        """
        import warnings, plugrad as pg
        try:
            pg.backends()
        except UserWarning as warning:  # warnings are errors here
            print(warning)
        print(pg.backends())
        """,
        PLUGRAD_BLOCK="cup",
        PLUGRAD_CPU_THREADS="2",
    )
    warning, backends = out.splitlines()
    assert warning == (
        "PLUGRAD_BLOCK names 'cup', and no such plugin is installed; "
        "did you mean 'cpu'?"
    )
    assert backends == "['cpu']"


def test_names_in_variables_are_compared_like_names_on_an_index(site, python):
    site(
        "plugrad-my_toy",
        GOOD.replace('"toy"', '"my_toy"'),
        "[plugrad.v1]\nmy_toy = plugrad_my_toy\n",
    )
    ask = "import plugrad as pg; print(pg.backends())"
    device = {"PLUGRAD_MY_TOY_DEVICE": "1"}
    assert python(ask, **device) == "['cpu', 'my_toy']"
    for name in ("my_toy", "my-toy", "Plugrad_My.Toy"):
        assert python(ask, PLUGRAD_BLOCK=name, **device) == "['cpu']"


CHOSEN = {  # the value of PLUGRAD_BACKEND: what a program prints
    "cup": "PLUGRAD_BACKEND: unknown backend 'cup'; did you mean 'cpu'?",
    "toy": "toy",
}


@pytest.mark.parametrize("name", CHOSEN)
def test_an_unknown_backend_is_blamed_on_the_variable(name, site, python):
    site("plugrad-toy", GOOD)
    out = python(
        """
        import plugrad as pg
        try:
            print(pg.asarray(1.0).backend)
        except pg.BackendUnavailable as error:
            print(error)
        """,
        PLUGRAD_BACKEND=name,
    )
    assert out.startswith(CHOSEN[name])


def test_an_error_names_the_backends_that_may_have_the_kernel(site, python):
    site("plugrad-toy", GOOD)
    site(
        "plugrad-two",
        GOOD.replace('"toy"', '"two"').split("@hookimpl\ndef plugrad_k")[0],
    )
    out = python("""
        import plugrad as pg
        for opened in ("toy", "cpu"):
            pg.set_backend(opened)
            try:
                with pg.use_backend("toy"):
                    pg.exp(pg.asarray(0.0))
            except pg.KernelNotFound as error:
                print(str(error).split("; ")[1:-1])
        for name in ("cpu", "two"):
            pg.remove_backend(name)
        try:
            pg.exp(pg.asarray(0.0, dtype="float32"))
        except pg.KernelNotFound as error:
            print(str(error).split("; ")[1:-1])
    """)
    assert out.splitlines() == [
        "['perhaps on cpu, two (not opened yet)']",
        "['implemented on cpu', 'perhaps on two (not opened yet)']",
        "['no other backend implements it']",
    ]


def test_a_warning_points_at_the_users_line(site, python):
    site("plugrad-bad", "import nonsense_")
    site("plugrad-toy", GOOD)
    out = python(
        """
        import warnings, plugrad as pg
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pg.ones((2,))  # line 5: a plugin is skipped
            with pg.use_backend("toy"):
                x = pg.asarray(0.0)
                pg.exp(x)  # line 8: a kernel is missing
        for w in caught:
            print(w.filename, w.lineno, str(w.message).split(";")[0])
        """,
        PLUGRAD_FALLBACK="warn",
    )
    assert out.splitlines() == [
        "<string> 5 skipped plugin plugrad-bad 1.0: ModuleNotFoundError: No module "
        "named 'nonsense_'",
        "<string> 8 Exp is missing on 'toy' and runs on 'cpu'",
    ]


def test_the_list_of_backends_says_why_none_is_active(python):
    out = python(
        """
        from plugrad._src.tools import cli
        print(cli.main(["backends"]))
        """,
        PLUGRAD_BACKEND="cup",
    )
    assert "\nnone is active: PLUGRAD_BACKEND: unknown backend 'cup'; did" in out
    assert out.endswith("\n1")
