"""``attribute(..., at=...)``: relevance of the results of scopes."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

RANDOM = np.random.default_rng(4)
W = RANDOM.normal(size=(4, 4)).astype(np.float32)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
PLAIN = attr.Composite(attr.Epsilon(0.0), attr.Epsilon(0.0), stabilizer=0.0)


def model(x):
    with pg.name_scope("stem"):
        h = pg.tanh(x @ W)
    for number in range(2):
        with pg.name_scope(f"block.{number}"):
            with pg.name_scope("inner"):
                h = pg.relu(h @ W)
            h = h + 1.0
    with pg.name_scope("head"):
        return h @ W


def at(names, f=model, x=X, rules=PLAIN, **options):
    return attr.attribute(f, x, rules, 1, at=names, **options).at


def test_it_is_the_relevance_of_a_model_that_begins_there(backend):
    found = at(["stem", "block.0", "block.1/inner"])

    def rest(h, begin):
        for number in range(2):
            if begin <= number:
                h = pg.relu(h @ W) + 1.0
        return h @ W

    h = pg.tanh(pg.asarray(X) @ W)
    for name, begin in (("stem", 0), ("block.0", 1)):
        expected = attr.attribute(lambda h, b=begin: rest(h, b), h, PLAIN, 1).input
        np.testing.assert_allclose(
            found[name].numpy(), expected.numpy(), rtol=1e-4, atol=1e-5
        )
        h = pg.relu(h @ W) + 1.0
    assert [*found] == ["stem", "block.0", "block.1/inner"]
    assert found["block.1/inner"].shape == (3, 4)


def test_the_result_of_a_scope_is_that_of_its_last_run(backend):
    found = at(["block.1", "block.1/inner"])
    inner = at("block.1/inner")["block.1/inner"]
    np.testing.assert_array_equal(inner.numpy(), found["block.1/inner"].numpy())
    assert not np.array_equal(found["block.1"].numpy(), inner.numpy())
    outer = at("net", pg.name_scope("net")(model))["net"]
    np.testing.assert_allclose(outer.numpy()[:, 1], model(pg.asarray(X)).numpy()[:, 1])
    assert not outer.numpy()[:, [0, 2, 3]].any()


def test_the_result_may_be_that_of_a_pattern(backend):
    def f(x):
        with pg.name_scope("layer"):
            h = x @ W + 2.0 * np.ones(4, np.float32)
        return pg.relu(h)

    found = at("layer", f)["layer"].numpy()
    np.testing.assert_allclose(found[:, 1], f(pg.asarray(X)).numpy()[:, 1], rtol=1e-5)


def test_a_name_may_be_a_pattern(backend):
    found = at(["*/inner", "block.?"])
    last = at(["block.1/inner", "block.1"])
    for one, other in zip(found.values(), last.values(), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_relevance_of_the_input_does_not_change(backend):
    rules = attr.EpsilonPlusFlat()
    plain = attr.attribute(model, X, rules, 1)
    with_scopes = attr.attribute(model, X, rules, 1, at="stem")
    np.testing.assert_array_equal(plain.input.numpy(), with_scopes.input.numpy())
    assert plain.at == {}


def test_jit_replays_it(backend):
    def f(x):
        found = attr.attribute(model, x, PLAIN, 1, at=["stem", "head"])
        return found.input, found.at["stem"], found.at["head"]

    jitted = pg.jit(f)
    for seed in range(4):
        x = pg.random.normal((3, 4), seed=seed)
        for one, other in zip(jitted(x), f(x), strict=True):
            assert one.tolist() == other.tolist()
    assert not jitted.explain(x).reason


def test_vmap_and_chunks(backend):
    whole = at("stem")["stem"].numpy()
    one = lambda x: at("stem", x=x[None])["stem"][0]
    np.testing.assert_allclose(
        pg.vmap(one)(pg.asarray(X)).numpy(), whole, rtol=1e-4, atol=1e-5
    )
    parts = at("stem", chunk=2)["stem"].numpy()
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)


def halves(x):
    with pg.name_scope("halves"):
        left, right = pg.split(pg.tanh(x), 2, axis=1)
    return left + right


def turned(x):
    with pg.name_scope("turned"):
        h = pg.permute_dims(x, (1, 0))
    return pg.permute_dims(h, (1, 0))


BAD = {
    "unknown": (
        lambda: at(["stem", "block"]),
        ValueError,
        "at='block': no run in this scope receives relevance; these scopes do: stem, "
        "block.0/inner, block.0, block.1/inner, block.1, head",
    ),
    "no scopes": (lambda: at("a", pg.relu), ValueError, "name parts with pg.name_sc"),
    "without relevance": (
        lambda: at("aside", lambda x: model(x) + pg.name_scope("aside")(pg.ones)(4)),
        ValueError,
        "at='aside': no run",
    ),
    "empty": (lambda: at(["stem", ""]), ValueError, "contains an empty name"),
    "number": (lambda: at(3), TypeError, "name of a scope or a list of names, got 3"),
    "numbers": (lambda: at([3]), TypeError, "list of names, got .3."),
    "several results": (
        lambda: at("halves", halves),
        ValueError,
        "at='halves': the scope ends with SplitV, which has several results",
    ),
    "chunks along another axis": (
        lambda: at("turned", turned, chunk=2),
        ValueError,
        r"scope 'turned' has shape \(4, 2\) for 2 examples",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function()


def test_an_error_lists_few_scopes():
    def f(x):
        for number in range(30):
            with pg.name_scope(f"part.{number}"):
                x = pg.relu(x)
        return x

    with pytest.raises(ValueError, match=r"part\.18, part\.19 and 10 more$"):
        at("nowhere", f)
