"""``coverage``: the kernels of a model, and which of them have rules."""

import json

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad import plugin

RANDOM = np.random.default_rng(7)
W = RANDOM.normal(size=(4, 4)).astype(np.float32)
X = RANDOM.normal(size=(2, 4)).astype(np.float32)
RULES = attr.AttnLRP()


def model(x):
    with pg.name_scope("stem"):
        h = pg.relu(x @ W + 1.0)
    with pg.name_scope("odd"):
        h = pg.sign(h) + pg.sign(h - 1.0)
    return pg.softmax(h)


def test_all_kinds_are_listed(backend):
    found = attr.coverage(model, X, RULES, target=1)
    assert found.counts() == {"missing": 2, "constant": 1, "ruled": 2, "linear": 5}
    assert found.missing == {"Sign": 2}
    assert found.rows[0] == attr.Covered("missing", "Sign", "odd", 2)
    ruled = {(row.kernel, row.scope) for row in found.rows if row.rule == "ruled"}
    assert ruled == {("attribution.dense", "stem"), ("Add", "odd")}


def test_missing_rules_do_not_raise(backend):
    with pytest.raises(attr.MissingRule):
        attr.attribute(model, X, RULES, target=1)
    as_gradient = attr.AttnLRP(missing="gradient")
    assert attr.coverage(model, X, RULES) == attr.coverage(model, X, as_gradient)
    assert RULES.missing == "error"
    with pytest.raises(attr.MissingRule):
        attr.attribute(model, X, RULES, target=1)


def test_kernels_without_a_gradient_are_missing(backend):
    boxes = np.asarray([[0, 0, 1, 1], [0, 0, 2, 2], [3, 3, 4, 4]], np.float32)
    select = pg.image.non_max_suppression_with_score

    def f(x):
        scores = pg.sigmoid(x[0])
        return select(boxes, scores, 2, soft_nms_sigma=0.5)[1][None]

    x = np.asarray([[0.1, 0.2, 0.3]], np.float32)
    found = attr.coverage(f, x, RULES)
    assert found.missing == {"NonMaxSuppressionV5": 1}
    assert ("ruled", "Sigmoid", "", 1) in found.rows
    with pytest.raises(pg.GradientNotFound):
        attr.attribute(f, x, RULES)


def test_rules_of_the_user_count(backend):
    for sign in ("Sign", pg.sign, plugin.contracts()["Sign"]):
        rules = attr.AttnLRP(more={sign: {"x": lambda dy: dy}})
        assert not attr.coverage(model, X, rules).missing
    with pg.override_gradient("Sign", x=lambda dy: dy):  # an outer scope
        assert attr.coverage(model, X, RULES).missing == {"Sign": 2}
    stopped = attr.AttnLRP(more={"Softmax": {"logits": None}})
    found = attr.coverage(model, X, stopped)
    assert found.counts() == {"missing": 2, "constant": 0, "ruled": 3, "linear": 4}


def test_first_layers_and_activations_are_ruled(backend):
    f = lambda x: pg.silu(x @ W + 1.0) @ W
    found = attr.coverage(f, X, attr.EpsilonPlusFlat())
    names = {row.kernel for row in found.rows if row.rule == "ruled"}
    assert names == {"attribution.first_dense", "plugrad.silu", "BatchMatMul"}
    assert "plugrad_attribution.Input" not in {row.kernel for row in found.rows}


def test_coverage_is_a_table(backend):
    found = attr.coverage(model, X, RULES)
    lines = str(found).splitlines()
    assert lines[0] == "runs: 2 missing, 1 constant, 2 ruled, 4 linear"
    assert lines[2].split() == ["rule", "kernel", "scope", "runs"]
    assert lines[3].split() == ["missing", "Sign", "odd", "2"]
    assert found._repr_html_().count("<tr>") == len(found.rows) + 1
    data = json.loads(json.dumps(found.to_dict()))
    assert data["missing"] == 2
    assert data["rows"][0]["kernel"] == "Sign"

    def long(x):
        for number in range(40):
            with pg.name_scope(f"part.{number}"):
                x = pg.relu(x)
        return x

    found = attr.coverage(long, X, RULES)
    assert str(found).splitlines()[-1] == f"{len(found.rows) - 30} more rows"
    assert f"{len(found.rows) - 30} more rows" in found._repr_html_()


def test_nothing_is_covered_without_a_way_to_the_input(backend):
    found = attr.coverage(lambda x: pg.ones((2, 3)) * W[0, 0], X, RULES)
    assert found.rows == ()
    assert "0 missing" in str(found)


BAD = {
    "no function": (
        lambda: attr.coverage(3, X, RULES),
        TypeError,
        "coverage: expected",
    ),
    "no composite": (
        lambda: attr.coverage(model, X, attr.Epsilon()),
        TypeError,
        "coverage: rules must be a composite",
    ),
    "integers": (lambda: attr.coverage(model, [[1]], RULES), TypeError, "got int32"),
    "target": (lambda: attr.coverage(model, X, RULES, 9), ValueError, "out of range"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function()
