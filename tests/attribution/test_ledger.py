"""The ledger books amounts by place and reason; they add up to the value."""

import json
import math
from pathlib import Path

import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest
from plugrad_conformance.check import require_dtypes

from tests.attribution.reference import HIGH, LOW, TARGET, examples, weights
from tests.attribution.test_rules import network
from tests.docs.blocks import blocks

RANDOM = np.random.default_rng(11)
PLAIN = attr.Composite(attr.Epsilon(0.0), attr.Epsilon(0.0), stabilizer=0.0)
CLOSES = {"float64": 1e-6, "float32": 1e-4}  # relative to the value


def dtype_of(backend):
    return "float32" if backend == "opencl" else "float64"


def normal(*shape):
    return RANDOM.normal(size=shape) / 2


def ledger_of(f, x, rules=PLAIN, target=None, **options):
    return attr.attribute(f, x, rules, target, ledger=True, **options).ledger


def assert_closes(ledger, dtype):
    """Check that nothing is unexplained, and that the remainder is only rounding."""
    limit = CLOSES[dtype] * abs(ledger.value)
    assert not ledger.unexplained, str(ledger)
    assert abs(ledger.rounding) < limit, str(ledger)
    parts = ledger.totals()
    assert math.isclose(parts.pop("value"), sum(parts.values()), abs_tol=1e-12)


# --- networks --------------------------------------------------------------------

COMPOSITES = {
    "gradient": PLAIN,
    "epsilon": attr.Composite(attr.Epsilon(0.25), attr.Epsilon(0.25)),
    "plus": attr.EpsilonPlus(),
    "box": attr.EpsilonGammaBox(LOW, HIGH),
    "flat": attr.EpsilonPlusFlat(),
    "alpha-beta": attr.EpsilonAlpha2Beta1(),
}


@pytest.mark.parametrize("name", COMPOSITES)
@pytest.mark.parametrize("dtype", CLOSES)
def test_a_network_with_biases_closes(name, dtype, backend):
    if dtype == "float64" and dtype_of(backend) != dtype:
        pytest.skip(f"{backend} has no float64")
    f, x = network(dtype), examples().astype(dtype)
    plain = attr.attribute(f, x, COMPOSITES[name], TARGET)
    found = attr.attribute(f, x, COMPOSITES[name], TARGET, ledger=True)
    assert_closes(found.ledger, dtype)
    np.testing.assert_array_equal(found.input.numpy(), plain.input.numpy())
    assert found.ledger.constants
    assert not found.ledger.softmax
    totals = [x.numpy().sum(dtype=np.float64) for x in (found.value, found.input)]
    assert totals == [found.ledger.value, found.ledger.input]


def test_constants_are_the_relevance_of_biases(backend):
    dtype = dtype_of(backend)
    w = {name: value.astype(dtype) for name, value in weights().items()}
    x = examples().astype(dtype)

    def f(x, b1, b3):
        h = pg.relu(pg.conv2d(x, w["w1"], pad="same") + b1)
        h = pg.reshape(pg.avg_pool(h, 4, strides=4), (-1, 16))
        return pg.relu(h @ w["w3"] + b3) @ w["w4"]

    biases = w["b1"], w["b3"]
    total = lambda *biases: pg.sum(f(x, *biases))
    expected = [
        float(np.sum(b * db.numpy()))
        for b, db in zip(biases, pg.grads(total)(*biases), strict=True)
    ]
    ledger = ledger_of(lambda x: f(x, *biases), x)
    booked = {row.kernel: row.amount for row in ledger.rows}
    found = [booked["attribution.conv2d_bias"], booked["attribution.dense"]]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert {row.kind for row in ledger.rows} == {"constants"}


@pytest.mark.parametrize("rules", [attr.EpsilonPlus(), attr.AttnLRP()])
def test_a_residual_network_closes(rules, backend):
    dtype = dtype_of(backend)
    w1, w2, w3, b1, b2 = [
        normal(*shape).astype(dtype)
        for shape in ((3, 3, 2, 4), (3, 3, 4, 4), (4, 3), (4,), (4,))
    ]

    def f(x):
        h = pg.relu(pg.conv2d(x, w1, pad="same") + b1)
        with pg.name_scope("block"):
            h = pg.relu(pg.conv2d(h, w2, pad="same") + b2 + h)
        return pg.mean(h, axis=(1, 2)) @ w3 + 0.5

    ledger = ledger_of(f, normal(2, 5, 5, 2).astype(dtype), rules, 0)
    assert_closes(ledger, dtype)
    assert ("attribution.conv2d_bias", "block") in {
        (r.kernel, r.scope) for r in ledger.rows
    }


def test_softmax_is_booked_apart(backend):
    dtype = dtype_of(backend)
    w = normal(4, 3).astype(dtype)
    x = normal(1, 4).astype(dtype)
    ledger = ledger_of(lambda x: pg.softmax(x @ w), x, target=1)
    logits = x @ w
    gradient = pg.grad(lambda z: pg.softmax(z)[0, 1])(logits).numpy()
    expected = ledger.value - float(np.sum(logits * gradient))
    np.testing.assert_allclose(ledger.softmax, expected, rtol=1e-4)
    assert_closes(ledger, dtype)
    assert not ledger.constants
    log = ledger_of(lambda x: pg.log_softmax(x @ w), x, target=1)
    assert [row.kernel for row in log.rows] == ["LogSoftmax"]
    assert_closes(log, dtype)


def block(dtype, heads=2, width=8):
    """Return a transformer block with biases."""
    w = [normal(width, width).astype(dtype) for _ in range(4)]
    w_in, w_out = normal(width, 16).astype(dtype), normal(16, width).astype(dtype)
    one = [1 + normal(width).astype(dtype) for _ in range(2)]
    bias = [normal(n).astype(dtype) for n in (width, width, 16, width)]

    def split(x):
        parts = pg.reshape(x, (*x.shape[:2], heads, width // heads))
        return pg.permute_dims(parts, (0, 2, 1, 3))

    def attend(x):
        q, k, v = [split(x @ w[i] + bias[0]) for i in range(3)]
        h = pg.scaled_dot_product_attention(q, k, v)
        return pg.reshape(pg.permute_dims(h, (0, 2, 1, 3)), x.shape) @ w[3]

    def f(x):
        with pg.name_scope("attention"):
            x = x + attend(pg.layer_norm(x, scale=one[0], offset=bias[1]))
        with pg.name_scope("mlp"):
            h = pg.layer_norm(x, scale=one[1], offset=bias[3])
            x = x + pg.gelu(h @ w_in + bias[2]) @ w_out
        return pg.mean(x, axis=1)

    return f


@pytest.mark.parametrize("dtype", CLOSES)
def test_a_transformer_block_closes(dtype, backend):
    if dtype == "float64" and dtype_of(backend) != dtype:
        pytest.skip(f"{backend} has no float64")
    x = normal(2, 5, 8).astype(dtype)
    ledger = ledger_of(block(dtype), x, attr.AttnLRP(), 3)
    assert_closes(ledger, dtype)
    assert ledger.softmax
    assert {row.scope for row in ledger.rows} == {"attention", "mlp"}
    booked = {(row.kernel, row.scope): row.kind for row in ledger.rows}
    assert booked["LayerNorm", "mlp"] == "constants"
    assert booked["Softmax", "attention"] == "softmax"


# --- what is booked where --------------------------------------------------------


def test_a_missing_rule_is_unexplained(backend):
    x = normal(1, 4).astype(dtype_of(backend))

    def f(x):
        with pg.name_scope("odd"):
            return pg.linalg.inv(pg.reshape(x, (-1, 2, 2)))[:, 0]

    rules = attr.Composite(missing="gradient")
    found = attr.attribute(f, x, rules, ledger=True)
    (row,) = found.ledger.rows
    assert row[1:] == ("unexplained", "Inverse", "odd", 1)
    # An inverse is homogeneous of degree -1: relevance changes its sign.
    np.testing.assert_allclose(row.amount, 2 * found.ledger.value, rtol=1e-3)
    assert found.ledger.unexplained == row.amount
    with pytest.raises(attr.MissingRule, match="Inverse in scope 'odd'"):
        ledger_of(f, x)


def test_what_is_no_kernel_is_unexplained(backend):
    cube = pg.custom_grad(lambda x: (x * x * x, lambda dy: 3.0 * dy * x * x))
    ledger = ledger_of(cube, normal(2, 4).astype(dtype_of(backend)))
    (row,) = ledger.rows
    assert row[1:] == ("unexplained", "(none)", "", 0)
    np.testing.assert_allclose(row.amount, -2 * ledger.value, rtol=1e-4)


def test_softmax_and_logsumexp_may_be_written_out(backend):
    dtype = dtype_of(backend)
    x = normal(2, 4).astype(dtype)

    def written(x):
        powers = pg.exp(x)
        return powers / pg.sum(powers, axis=-1, keepdims=True)

    for f in (written, lambda x: pg.logsumexp(x, axis=1, keepdims=True)):
        ledger = ledger_of(f, x, target=0)
        assert_closes(ledger, dtype)
        assert [row.kind for row in ledger.rows] == ["softmax"]


def test_relevance_that_a_rule_stops_is_booked(backend):
    dtype = dtype_of(backend)
    x, w = normal(2, 4).astype(dtype), normal(4, 3).astype(dtype)
    rules = attr.Composite(more={"Softmax": {"logits": None}})
    ledger = ledger_of(lambda x: pg.softmax(x @ w), x, rules, 1)
    assert_closes(ledger, dtype)
    assert not ledger.input
    np.testing.assert_allclose(ledger.softmax, ledger.value, rtol=1e-6)


# A function, and what its constants contribute to the sum of its result when the input
# is all ones.
CONSTANTS = {
    "Add": (lambda x: x + 2.0, 12.0),
    "Sub": (lambda x: x - 2.0, -12.0),
    "Concat": (lambda x: pg.concat([x, 2.0 * pg.ones_like(x)], axis=1), 12.0),
    "Pack": (lambda x: pg.sum(pg.stack([x, 3.0 * pg.ones_like(x)]), axis=0), 18.0),
    "PadV2": (lambda x: pg.pad(x, ((0, 0), (1, 1)), constant_values=2.0), 8.0),
    "Select": (lambda x: pg.where([True, False, True], x, 4.0), 8.0),
    "Maximum": (lambda x: pg.maximum(x, 3.0), 18.0),
}


@pytest.mark.parametrize("kernel", CONSTANTS)
def test_constants_are_booked_under_their_kernel(kernel, backend):
    f, expected = CONSTANTS[kernel]
    ledger = ledger_of(f, np.ones((2, 3), "float32"))
    assert {row.kernel for row in ledger.rows} == {kernel}
    assert {row.kind for row in ledger.rows} == {"constants"}
    assert ledger.constants == expected


def test_runs_of_a_scope_are_one_row(backend):
    def f(x):
        with pg.name_scope("twice"):
            return x + 1.0 + 2.0

    (row,) = ledger_of(f, np.ones((2, 3), "float32")).rows
    assert row == attr.Row(18.0, "constants", "Add", "twice", 2)


def test_patterns_are_watched_where_they_have_rules(backend):
    dtype = dtype_of(backend)
    f, x = network(dtype), examples().astype(dtype)

    def named(x):
        with pg.name_scope("all"):
            return f(x)

    one = attr.Composite(where={"all": attr.Flat()})
    ledger = ledger_of(named, x, one, 1)
    assert_closes(ledger, dtype)
    first = attr.attribute(named, x, one, 1).input
    np.testing.assert_allclose(ledger.input, first.numpy().sum(), rtol=1e-4)
    nowhere = ledger_of(named, x, attr.Composite(where={"no": attr.Flat()}), 1)
    assert nowhere == ledger_of(named, x, attr.Composite(), 1)


def test_complex_values_are_booked(backend):
    dtype = dtype_of(backend)
    require_dtypes(backend, dtype, f"complex{128 if dtype == 'float64' else 64}")
    ledger = ledger_of(lambda x: pg.abs(pg.fft.fft(x)), normal(2, 8).astype(dtype))
    assert_closes(ledger, dtype)
    assert not ledger.rows


def test_results_whose_number_varies(backend):
    x = normal(2, 6).astype("float32")
    f = lambda x: pg.stack(pg.unstack(sum(pg.split(x, 2, axis=1)), axis=1), axis=1)
    assert not ledger_of(f, x, target=1).unexplained


def test_an_empty_batch_has_a_ledger(backend):
    ledger = ledger_of(lambda x: x + 1.0, np.ones((0, 3), "float32"))
    assert ledger.totals() == dict.fromkeys(ledger.totals(), 0.0)
    assert "value" in str(ledger)


# --- with chunks, jit and vmap ---------------------------------------------------


def test_chunks_are_one_ledger(backend):
    dtype = dtype_of(backend)
    f, x = network(dtype), np.concatenate([examples()] * 2).astype(dtype)
    whole = ledger_of(f, x, attr.EpsilonPlus(), 1)
    parts = ledger_of(f, x, attr.EpsilonPlus(), 1, chunk=3)
    assert_closes(parts, dtype)
    for one, other in zip(whole.rows, parts.rows, strict=True):
        assert one[1:4] == other[1:4]
        np.testing.assert_allclose(one.amount, other.amount, rtol=1e-3, atol=1e-6)


def test_jit_runs_it_eagerly(backend):
    f = lambda x: ledger_of(lambda x: x + 1.0, x).totals()
    jitted, x = pg.jit(f), pg.asarray(np.ones((2, 3), "float32"))
    for _ in range(3):
        assert jitted(x) == f(x)
    assert "are read by Python" in jitted.explain(x).reason


def test_vmap_refuses_it(backend):
    f = lambda x: attr.attribute(lambda x: x + 1.0, x[None], PLAIN, ledger=True).input
    with pytest.raises(ValueError, match="vmap"):
        pg.vmap(f)(pg.ones((2, 3)))


def test_outer_gradients_do_not_book(backend):
    f = lambda x: pg.square(x) + 1.0  # exact on every backend
    ledgers = []

    def score(x):
        found = attr.attribute(f, x, PLAIN, ledger=True)
        ledgers.append(found.ledger)
        return pg.sum(found.input)

    gradient = pg.grad(score)(pg.ones((2, 3)))
    assert gradient.shape == (2, 3)
    assert ledgers[0].constants == 6.0
    assert_closes(ledgers[0], "float32")


# --- tables ----------------------------------------------------------------------


def many_scopes(x):
    for number in range(15):
        with pg.name_scope(f"{'long' * 20}.{number}"):
            x = x + (number + 1.0)
    return x


def test_a_ledger_is_a_table(backend):
    ledger = ledger_of(many_scopes, np.ones((1, 2), "float32"))
    assert [row.amount for row in ledger.rows] == [2.0 * n for n in range(15, 0, -1)]
    lines = str(ledger).splitlines()
    assert lines[0].split() == ["value", "242", "100", "%"]
    assert lines[7].split()[:3] == ["amount", "of", "the"]
    assert lines[8].split()[:5] == ["30", "12.4", "%", "constants", "Add"]
    assert lines[-1] == "3 smaller rows: 12"
    assert max(map(len, lines)) < 110
    html = ledger._repr_html_()
    assert html.count("<tr>") == 13
    assert "<p>3 smaller rows: 12</p>" in html
    assert "…" in html
    assert repr(ledger).startswith("Ledger(value=242, input=2, constants=240,")


def test_a_ledger_is_data(backend):
    ledger = ledger_of(many_scopes, np.ones((1, 2), "float32"))
    found = json.loads(json.dumps(ledger.to_dict()))
    assert found["value"] == 242.0
    assert found["rows"][0]["kernel"] == "Add"
    assert found.keys() == {*ledger.totals(), "rows"}


def test_the_page_shows_the_table_of_its_program():
    page = (Path(__file__).parents[2] / "docs" / "attribution.md").read_text()
    (program,) = [code for code in blocks("python", page) if "found.ledger" in code]
    names = {}
    exec(program, names)
    (shown,) = blocks("text", page)
    lines = zip(
        shown.splitlines(), str(names["found"].ledger).splitlines(), strict=True
    )
    for line, expected in lines:
        assert line == expected or line.startswith("rounding")


def test_without_ledger_there_is_none():
    assert attr.attribute(lambda x: x, [[1.0]], PLAIN).ledger is None


# --- models of plugrad-onnx ------------------------------------------------------


def onnx_model(dtype):
    """Return a model whose nodes have names."""
    onnx = pytest.importorskip("onnx", reason="onnx has no wheel for this Python")
    plugrad_onnx = pytest.importorskip(
        "plugrad_onnx", reason="plugrad-onnx is not installed"
    )
    make = onnx.helper
    kind = make.np_dtype_to_tensor_dtype(np.dtype(dtype))
    weights = {"w": normal(4, 2, 3, 3), "b": normal(4), "v": normal(4, 3)}
    graph = make.make_graph(
        [
            make.make_node("Conv", ["x", "w", "b"], ["c"], name="/stem/Conv"),
            make.make_node("Relu", ["c"], ["r"], name="/stem/Relu"),
            make.make_node("GlobalAveragePool", ["r"], ["p"], name="/head/Pool"),
            make.make_node("Flatten", ["p"], ["f"], name="/head/Flatten"),
            make.make_node("MatMul", ["f", "v"], ["m"], name="/head/MatMul"),
            make.make_node("Softmax", ["m"], ["y"], name="/head/Softmax"),
        ],
        "named",
        [make.make_tensor_value_info("x", kind, ["n", 2, 5, 5])],
        [make.make_tensor_value_info("y", kind, ["n", 3])],
        [
            onnx.numpy_helper.from_array(value.astype(dtype), name)
            for name, value in weights.items()
        ],
    )
    opset = [make.make_opsetid("", 20)]
    return plugrad_onnx.load(make.make_model(graph, opset_imports=opset))


def test_nodes_of_an_onnx_model_are_scopes(backend):
    dtype = dtype_of(backend)
    f, x = onnx_model(dtype), normal(2, 2, 5, 5).astype(dtype)
    with pg.use_backend(backend):
        found = attr.attribute(
            f, x, PLAIN, 1, ledger=True, at=["/stem", "/head/MatMul"]
        )
    assert_closes(found.ledger, dtype)
    booked = {row.scope: row.kind for row in found.ledger.rows}
    assert booked == {"/stem/Conv": "constants", "/head/Softmax": "softmax"}
    assert found.at["/head/MatMul"].shape == (2, 3)
    total = found.at["/stem"].numpy().sum()
    np.testing.assert_allclose(total, found.at["/head/MatMul"].numpy().sum(), rtol=1e-4)
