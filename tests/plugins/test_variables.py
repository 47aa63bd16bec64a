"""The variables of the environment that choose plugins."""

from tests.plugins.sources import GOOD, PHASES


def test_a_blocked_plugin_is_never_imported(site, python):
    site("plugrad-bad", "print('imported')")
    out = python(PHASES, PLUGRAD_PLUGINS="cpu")
    assert out.split("\n")[0] == "plugrad-bad blocked not named in PLUGRAD_PLUGINS"


def test_a_misspelt_variable_is_one_warning(python):
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


def test_wrong_variables_are_told_once_and_lose_nothing(python):
    out = python(
        """
        import warnings, plugrad as pg
        try:
            pg.backends()
        except UserWarning as warning:  # they are errors here
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


def test_names_in_variables_are_compared_as_indexes_do(site, python):
    site(
        "plugrad-my_toy",
        GOOD.replace('"toy"', '"my_toy"'),
        "[plugrad.v1]\nmy_toy = plugrad_my_toy\n",
    )
    ask = "import plugrad as pg; print(pg.backends())"
    told = {"PLUGRAD_MY_TOY_DEVICE": "1"}
    assert python(ask, **told) == "['cpu', 'my_toy']"
    for name in ("my_toy", "my-toy", "Plugrad_My.Toy"):
        assert python(ask, PLUGRAD_BLOCK=name, **told) == "['cpu']"
