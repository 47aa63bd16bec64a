"""``attribute``: targets, ``at=``, models in unusual forms, bad input."""

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

RANDOM = np.random.default_rng(3)
W1 = RANDOM.normal(size=(4, 5)).astype(np.float32)
B1 = RANDOM.normal(size=(5,)).astype(np.float32)
W2 = RANDOM.normal(size=(5, 3)).astype(np.float32)
X = RANDOM.normal(size=(3, 4)).astype(np.float32)
RULES = attr.Composite()


def model(x):
    return pg.relu(pg.asarray(x) @ W1 + B1) @ W2


def relevance(f, x=X, rules=RULES, target=1, **options):
    return attr.attribute(f, x, rules, target, **options).input.numpy()


def gradient_times_input(f, x=X):
    gradient = pg.grad(lambda x: pg.sum(f(x)[:, 1]))(pg.asarray(x))
    return x * gradient.numpy()


# --- targets ---------------------------------------------------------------------


def test_without_epsilon_it_is_input_times_gradient(backend):
    rules = attr.Composite(attr.Epsilon(0.0), attr.Epsilon(0.0))
    found = relevance(model, rules=rules)
    np.testing.assert_allclose(found, gradient_times_input(model), rtol=1e-4, atol=1e-5)


def test_targets(backend):
    rows = [relevance(model, target=number) for number in range(3)]
    each = relevance(model, target=[2, 0, 1])
    np.testing.assert_array_equal(each, [rows[2][0], rows[0][1], rows[1][2]])
    best = attr.attribute(model, X, RULES, lambda y: y[:, 1])
    np.testing.assert_array_equal(best.input.numpy(), rows[1])
    np.testing.assert_array_equal(best.value.numpy(), model(X).numpy()[:, 1])
    np.testing.assert_allclose(relevance(model, target=None), sum(rows), rtol=1e-3)


def test_chunks_change_nothing(backend):
    whole = relevance(model, target=[2, 0, 1])
    for chunk in (1, 2, 3, 9):
        found = relevance(model, target=[2, 0, 1], chunk=chunk)
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)
    assert relevance(model, X[:0], chunk=2).shape == (0, 4)


# --- models ----------------------------------------------------------------------


def test_layers_are_found_however_they_are_written(backend):
    rules = attr.Composite(dense=attr.ZPlus())
    plain = relevance(model, rules=rules)
    fused = lambda x: pg.fused.matmul(x, W1, B1, activation="relu") @ W2
    turned = lambda x: pg.relu(B1 + pg.matmul(x, W1.T.copy(), transpose_b=True)) @ W2
    left = lambda x: pg.relu((W1.T.copy() @ x.T).T + B1) @ W2
    longer = lambda x: pg.relu(x[:, None] @ W1 + B1)[:, 0] @ W2
    for f in (fused, turned, longer):
        np.testing.assert_allclose(
            relevance(f, rules=rules), plain, rtol=1e-3, atol=1e-5
        )
    without = lambda x: pg.relu(pg.asarray(x) @ W1) @ W2
    on_the_left = lambda x: pg.relu((W1.T.copy() @ x.T).T) @ W2
    assert left(pg.asarray(X)).shape == (3, 3)
    np.testing.assert_allclose(
        relevance(on_the_left, rules=rules),
        relevance(without, rules=rules),
        rtol=1e-3,
        atol=1e-5,
    )


def test_a_second_branch_is_not_a_bias(backend):
    square = RANDOM.normal(size=(4, 4)).astype(np.float32)
    f = lambda x: x @ square + x
    rules = attr.Composite(dense=attr.Epsilon(0.0), stabilizer=0.0)
    found = relevance(f, rules=rules)
    np.testing.assert_allclose(found, gradient_times_input(f), rtol=1e-3, atol=1e-5)


def test_a_branch_of_one_example_is_not_a_bias(backend):
    square = RANDOM.normal(size=(4, 4)).astype(np.float32)
    filters = RANDOM.normal(size=(2, 2, 1, 1)).astype(np.float32)
    dense = lambda x: x @ square + pg.tanh(x)

    def conv(x):
        image = pg.reshape(x, (-1, 2, 2, 1))
        h = pg.conv2d(image, filters) + pg.mean(image, axis=(1, 2), keepdims=True)
        return pg.reshape(h, (-1, 1)) * np.ones((1, 2), np.float32)

    for f in (dense, conv):
        for rule in (attr.ZPlus(), attr.AlphaBeta(), attr.Gamma()):
            rules = attr.Composite(rule, rule, stabilizer=0.0)
            found = relevance(f, rules=rules, chunk=1)
            np.testing.assert_allclose(
                found, relevance(f, rules=rules), rtol=1e-3, atol=1e-4
            )


@pytest.mark.parametrize("mask", [(3,), (1, 3)])
def test_the_mask_of_attention_is_not_a_bias(mask, backend):
    w = RANDOM.normal(size=(4, 4)).astype(np.float32)
    scores = lambda x: (x @ w) @ pg.permute_dims(pg.tanh(x), (1, 0))
    masked = lambda x: scores(x) + np.zeros(mask, np.float32)
    batched = lambda x: (scores(x)[None, None] + np.zeros(mask, np.float32))[0, 0]
    for dense in (attr.Epsilon(), attr.ZPlus()):
        rules = attr.AttnLRP(dense=dense)
        expected = relevance(scores, rules=rules)
        for f in (masked, batched):
            found = relevance(f, rules=rules)
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_layers_with_transposed_inputs_are_found(backend):
    rules = attr.Composite(dense=attr.ZPlus(), first=attr.Flat())
    w = RANDOM.normal(size=(3, 4)).astype(np.float32)
    b = np.asarray([0.5, -0.5, 1.0, 0.0], np.float32)
    plain = lambda x: pg.relu(pg.matrix_transpose(x) @ w + b)[:3] @ W1
    turned = lambda x: pg.relu(pg.matmul(x, w, transpose_a=True) + b)[:3] @ W1
    for one in (rules, attr.Composite(dense=attr.ZPlus())):
        found = relevance(turned, rules=one)
        assert found.shape == X.shape
    np.testing.assert_allclose(found, relevance(plain, rules=one), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x,
        lambda x: pg.permute_dims(x, (0, 2, 3, 1)),
        lambda x: pg.pad(x, ((0, 0), (2, 2), (1, 1), (0, 0))),
        lambda x: pg.pad(
            pg.permute_dims(x, (0, 2, 3, 1)), ((0, 0), (1, 1), (1, 1), (0, 0))
        ),
    ],
    ids=["image", "channels first", "padded", "both"],
)
def test_the_first_layer_is_found_behind_moves(move, backend):
    x = RANDOM.uniform(size=(1, 4, 4, 4)).astype(np.float32)
    w = RANDOM.normal(size=(3, 3, 4, 2)).astype(np.float32)
    b = np.asarray([0.5, -0.5], np.float32)
    f = lambda x: pg.conv2d(move(x), w) + b
    found = relevance(f, x, attr.Composite(first=attr.Flat()), target=None)
    moved = move(pg.asarray(x))
    ones = lambda x: pg.sum(
        pg.conv2d(x, np.ones_like(w)) * (pg.conv2d(moved, w) + b) / 36.0
    )
    expected = pg.grad(lambda x: ones(move(x)))(pg.asarray(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def scaled(x):
    return model((x - 0.5) * 2.0)


def test_a_first_layer_that_is_not_found_is_an_error(backend):
    flat = {"first": attr.Flat()}
    with pytest.raises(attr.MissingRule, match=r"no layer reads x itself, .*Flat"):
        relevance(scaled, rules=attr.Composite(**flat))
    with pytest.raises(attr.MissingRule, match="no layer reads x itself"):
        relevance(scaled, rules=attr.Composite(**flat), ledger=True)
    found = relevance(scaled, rules=attr.Composite(**flat, missing="gradient"))
    np.testing.assert_array_equal(found, relevance(scaled))
    in_scope = pg.name_scope("all")(scaled)
    by_scope = relevance(in_scope, rules=attr.Composite(where={"all": attr.Flat()}))
    assert not np.allclose(by_scope, found)


def test_the_first_layer_may_have_a_branch_beside_it(backend):
    branched = lambda x: pg.relu(x @ (W1 @ W2)) + x[:, :3]
    found = relevance(branched, rules=attr.Composite(first=attr.Flat()))
    assert not np.allclose(found, relevance(branched))


def test_a_model_that_ignores_its_input_needs_no_first_layer(backend):
    rules = attr.Composite(first=attr.Flat())
    constant = lambda x: 0.0 * x[:, :3].shape[0] + pg.ones((3, 3))
    assert not relevance(constant, rules=rules).any()


def test_where_selects_layers(backend):
    def named(x):
        with pg.name_scope("stem"):
            h = pg.relu(x @ pg.asarray(W1) + B1)
        with pg.name_scope("head"):
            return h @ pg.asarray(W2)

    both = attr.Composite(dense=attr.ZPlus(), where={"head": attr.Epsilon(0.25)})
    swapped = attr.Composite(
        dense=attr.Epsilon(0.25), where={"stem": attr.ZPlus(), "nowhere": attr.Flat()}
    )
    found = relevance(named, rules=both)
    np.testing.assert_array_equal(found, relevance(named, rules=swapped))
    assert not np.allclose(found, relevance(named, rules=attr.Composite()))
    flat = attr.Composite(where={"stem": attr.Flat()})
    first = attr.Composite(first=attr.Flat())
    np.testing.assert_allclose(
        relevance(named, rules=flat), relevance(named, rules=first), rtol=1e-4
    )


def test_a_rule_may_be_a_function(backend):
    rule = lambda c, layer: layer.backward(c, layer.w)
    found = relevance(model, rules=attr.Composite(rule, rule))
    np.testing.assert_allclose(found, gradient_times_input(model), rtol=1e-4, atol=1e-5)


def test_activations_pass_their_relevance_on(backend):
    for op in (pg.gelu, pg.silu, pg.tanh, pg.hard_swish, pg.sigmoid, pg.elu):
        found = relevance(lambda x, op=op: op(x), target=None)
        np.testing.assert_allclose(
            found, op(pg.asarray(X)).numpy(), rtol=1e-4, atol=1e-6
        )


ZERO_AT_ZERO = [
    "asin",
    "asinh",
    "atan",
    "atanh",
    "erf",
    "erfinv",
    "expm1",
    "gelu",
    "hard_swish",
    "log1p",
    "mish",
    "silu",
    "sin",
    "sinh",
    "softsign",
    "tan",
    "tanh",
]


@pytest.mark.parametrize("name", ZERO_AT_ZERO)
def test_the_identity_rule_is_the_derivative_at_zero(name, backend):
    op = getattr(pg, name)
    found = relevance(lambda x: op(x - 2.0), np.full((1, 1), 2.0, "f"), target=None)
    slope = pg.grad(op)(pg.asarray(0.0)).item()
    np.testing.assert_allclose(found, 2.0 * slope, rtol=1e-6)


def test_hard_sigmoids_of_any_slope_pass_their_relevance_on(backend):
    for alpha, beta in ((1 / 6, 0.5), (0.2, 0.5), (0.25, 0.4)):
        f = lambda x, a=alpha, b=beta: pg.hard_sigmoid(x, alpha=a, beta=b)
        found = relevance(f, target=None)
        np.testing.assert_allclose(found, f(pg.asarray(X)).numpy(), rtol=1e-4)


HOMOGENEOUS = {  # functions of degree 1: their gradient conserves relevance
    "ComplexAbs": lambda x: pg.abs(pg.fft.rfft(x)),
    "Conv3DBackpropInputV2": lambda x: pg.conv3d_transpose(
        pg.reshape(x, (-1, 1, 2, 2, 1)),
        np.ones((2, 2, 2, 1, 1), np.float32),
        (3, 2, 3, 3, 1),
    ),
    "Hypot": lambda x: pg.hypot(x, x[:, ::-1] * 2.0),
    "SquaredDifference": lambda x: pg.squared_difference(x, x[:, ::-1]),
    "TensorScatterExtremum": lambda x: pg.tensor_scatter_update(
        x[:, 0], [[0], [1]], x[:2, 1], reduction="max"
    ),
    "Unique": lambda x: pg.unique_values(x),
}


@pytest.mark.parametrize("kernel", HOMOGENEOUS)
def test_relevance_is_kept_without_a_rule(kernel, backend):
    f = HOMOGENEOUS[kernel]
    total = lambda x: pg.sum(f(x)) * pg.ones((3,)) / 3.0
    found = attr.attribute(total, X, RULES, lambda y: y)
    np.testing.assert_allclose(
        pg.sum(found.input).item(), pg.sum(found.value).item(), rtol=1e-4
    )


def test_two_factors_get_half_each(backend):
    found = relevance(lambda x: x * pg.tanh(x), target=None)
    y = X * np.tanh(X)
    np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-6)


# --- bad input -------------------------------------------------------------------


def test_a_missing_rule_is_named(backend):
    def f(x):
        with pg.name_scope("odd"):
            return pg.linalg.inv(pg.reshape(x, (-1, 2, 2)))[:, 0]

    with pytest.raises(attr.MissingRule, match=r"kernel Inverse in scope 'odd'"):
        relevance(f)
    found = relevance(f, rules=attr.Composite(missing="gradient"))
    np.testing.assert_allclose(found, gradient_times_input(f), rtol=1e-3, atol=1e-4)
    more = {"Inverse": {"x": lambda dy: pg.zeros_like(dy)}}
    assert not relevance(f, rules=attr.Composite(more=more)).any()


BAD = {
    "no function": (lambda: relevance(3), TypeError, "expected a function, got 3"),
    "no composite": (
        lambda: relevance(model, rules=attr.Epsilon()),
        TypeError,
        "rules must be a composite",
    ),
    "integers": (
        lambda: relevance(model, [[1, 2, 3, 4]]),
        TypeError,
        "x must be floats, got int32",
    ),
    "target too large": (
        lambda: relevance(model, target=3),
        ValueError,
        "target=3 is out of range for 3 outputs",
    ),
    "negative target": (lambda: relevance(model, target=-1), ValueError, "target=-1"),
    "too few targets": (
        lambda: relevance(model, target=[1, 2]),
        ValueError,
        "one index for each of 3 examples",
    ),
    "fractions": (lambda: relevance(model, target=0.5), ValueError, "got 0.5"),
    "target of another shape": (
        lambda: relevance(model, target=lambda y: pg.sum(y)),
        ValueError,
        "one value for each of 3 examples",
    ),
    "result of another rank": (
        lambda: relevance(lambda x: x[:, None] @ W1, target=1),
        ValueError,
        "the model returns shape",
    ),
    "chunk": (lambda: relevance(model, chunk=0), ValueError, "chunk must be"),
    "missing": (
        lambda: attr.Composite(missing="ignore"),
        ValueError,
        "missing must be one of error, gradient",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    function, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function()
