"""Composites by name, including those of installed distributions."""

import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_attribution import composites
from plugrad_attribution.registry import GROUP

MODULE = """
import plugrad_attribution as attr

class Plus(attr.Composite):
    def __init__(self, stabilizer=1e-6, **options):
        rule = attr.ZPlus(stabilizer)
        super().__init__(rule, rule, **options)

number = 3
nothing = lambda: None
"""


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Return a function that installs a distribution, given its entry points."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(distribution, points):
        module = distribution.replace("-", "_")
        (tmp_path / f"{module}.py").write_text(MODULE)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.0\n")
        lines = [f"{name} = {module}:{value}\n" for name, value in points.items()]
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{''.join(lines)}")
        return module

    return install


@pytest.mark.parametrize("name", composites.__all__)
def test_own_composites_have_the_names_of_their_classes(name):
    bounds = {"low": 0.0, "high": 1.0} if name == "EpsilonGammaBox" else {}
    found = attr.composite(name, **bounds, missing="gradient")
    assert type(found) is getattr(attr, name)
    assert found.missing == "gradient"
    assert name in attr.composite_names()


def test_an_installed_composite_is_found(publish, backend):
    module = publish("others-rules", {"others_rules.Plus": "Plus"})
    assert "others_rules.Plus" in attr.composite_names()
    assert attr.composite_names() == sorted(attr.composite_names())
    rules = attr.composite("others_rules.Plus", stabilizer=0.5)
    assert type(rules).__module__ == module
    w = pg.asarray([[1.0, -1.0], [2.0, 0.5]])
    found = attr.attribute(lambda x: x @ w, [[3.0, 1.0]], rules, target=0)
    expected = [3.0 * 5.0 / 5.5, 2.0 * 5.0 / 5.5]
    assert found.input.numpy()[0] == pytest.approx(expected, rel=1e-6)


def test_an_own_composite_cannot_be_replaced(publish):
    publish("replacing-rules", {"EpsilonPlus": "Plus"})
    assert type(attr.composite("EpsilonPlus")) is attr.EpsilonPlus
    assert attr.composite_names().count("EpsilonPlus") == 1


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("EpsilonPlu", "; did you mean 'EpsilonPlus'?"),
        ("epsilon_gamma_box", "; did you mean 'EpsilonGammaBox'?"),
        ("named_rules.plus", "; did you mean 'named_rules.Plus'?"),
        ("nothing_like_this", ""),
    ],
)
def test_an_unknown_name_is_an_error_with_a_suggestion(name, near, publish):
    publish("named-rules", {"named_rules.Plus": "Plus"})
    with pytest.raises(ValueError, match="unknown name") as caught:
        attr.composite(name)
    start = f"composite: unknown name {name!r}{near}; installed: AttnLRP, CPLRP, "
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(", named_rules.Plus")


def test_a_name_that_two_distributions_have_is_an_error(publish):
    publish("first-rules", {"shared.Plus": "Plus"})
    publish("second-rules", {"shared.Plus": "Plus"})
    message = "both first-rules 1.0 and second-rules 1.0 have published 'shared.Plus'"
    with pytest.raises(ValueError, match=message):
        attr.composite("shared.Plus")
    assert attr.composite_names().count("shared.Plus") == 1


def test_what_cannot_be_imported_is_an_error_that_names_the_distribution(publish):
    publish("broken-rules", {"broken_rules.Plus": "Missing"})
    message = "'broken_rules.Plus' of broken-rules 1.0 cannot be imported from"
    with pytest.raises(ImportError, match=message):
        attr.composite("broken_rules.Plus")
    assert "broken_rules.Plus" in attr.composite_names()


@pytest.mark.parametrize(("value", "got"), [("number", "3"), ("nothing", "None")])
def test_what_is_no_composite_is_an_error(value, got, publish):
    publish("strange-rules", {"strange_rules.Plus": value})
    message = f"must be a function that returns a Composite, got {got} from"
    with pytest.raises(TypeError, match=message):
        attr.composite("strange_rules.Plus")


def test_a_name_must_be_a_string():
    with pytest.raises(TypeError, match=r"name must be a string, got Epsilon\("):
        attr.composite(attr.Epsilon())


def test_options_that_do_not_fit_are_an_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'epsilom'"):
        attr.composite("Composite", epsilom=0.25)
