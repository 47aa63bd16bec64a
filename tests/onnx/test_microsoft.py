"""Ops of the domain ``com.microsoft`` give the same results as ONNX Runtime."""

import numpy as np
import plugrad as pg
import pytest
from onnx.parser import parse_model
from plugrad_onnx import load

RNG = np.random.default_rng(8)
HEAD = """<ir_version: 9, opset_import: ["": 21, "com.microsoft": 1]>
net (INPUTS) => (OUTPUTS) { NODE }
"""
TOKENS, WIDTH, HEADS = 5, 32, 2
SIZE = WIDTH // HEADS


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


X = normal(2, TOKENS, WIDTH)
SKIP, BIAS, SCALE, OFFSET = normal(2, TOKENS, WIDTH), *normal(3, WIDTH)
ANGLES = RNG.uniform(-3, 3, (20, SIZE // 2)).astype(np.float32)
COSINES, SINES = np.cos(ANGLES), np.sin(ANGLES)
FIRST = np.asarray([3], np.int64)
EACH = np.arange(2 * TOKENS, dtype=np.int64).reshape(2, TOKENS)
IN_HEADS = normal(2, HEADS, TOKENS, SIZE)
HALF = (COSINES[:, : SIZE // 4], SINES[:, : SIZE // 4])

# The op with its attributes, the number of results that are compared, and the inputs.
ROWS = {
    "Gelu": ("com.microsoft.Gelu", 1, [X]),
    "BiasGelu": ("com.microsoft.BiasGelu", 1, [X, BIAS]),
    "FastGelu": ("com.microsoft.FastGelu", 1, [X]),
    "FastGelu with a bias": ("com.microsoft.FastGelu", 1, [X, BIAS]),
    "QuickGelu": ("com.microsoft.QuickGelu", 1, [X]),
    "QuickGelu, alpha": ("com.microsoft.QuickGelu <alpha = 0.5>", 1, [X]),
    "FusedMatMul": (
        "com.microsoft.FusedMatMul <alpha = 0.25, transB = 1>",
        1,
        [X, normal(2, 3, WIDTH)],
    ),
    "FusedMatMul, transA": (
        "com.microsoft.FusedMatMul <transA = 1>",
        1,
        [X, normal(2, TOKENS, 3)],
    ),
    "FusedMatMul, batches": (
        "com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = 1>",
        1,
        [normal(3, 2, 4), normal(4, 2, 5)],
    ),
    "FusedMatMul, batches and rows": (
        "com.microsoft.FusedMatMul <transBatchA = 1, transA = 1, transB = 1>",
        1,
        [normal(4, 2, 3), normal(2, 5, 4)],
    ),
    "SimplifiedLayerNormalization": (
        "SimplifiedLayerNormalization <epsilon = 0.01>",
        2,
        [X, SCALE],
    ),
    "SkipLayerNormalization": (
        "com.microsoft.SkipLayerNormalization <epsilon = 0.01>",
        1,
        [X, SKIP, SCALE, OFFSET, BIAS],
    ),
    "SkipLayerNormalization without offset": (
        "com.microsoft.SkipLayerNormalization",
        1,
        [X, SKIP, SCALE],
    ),
    "SkipSimplifiedLayerNormalization": (
        "com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.01>",
        1,
        [X, SKIP, SCALE, BIAS],
    ),
    "RotaryEmbedding": (
        f"com.microsoft.RotaryEmbedding <num_heads = {HEADS}>",
        1,
        [X, FIRST, COSINES, SINES],
    ),
    "RotaryEmbedding, a position for each token": (
        "com.microsoft.RotaryEmbedding",
        1,
        [X, EACH, COSINES, SINES],
    ),
    "RotaryEmbedding, interleaved": (
        "com.microsoft.RotaryEmbedding <interleaved = 1>",
        1,
        [IN_HEADS, EACH, COSINES, SINES],
    ),
    "RotaryEmbedding, a part": (
        f"com.microsoft.RotaryEmbedding <num_heads = {HEADS}, "
        f"rotary_embedding_dim = {SIZE // 2}>",
        1,
        [X, FIRST, *HALF],
    ),
}


def model(node, results, inputs):
    """Return a model of one node, whose inputs are named x0, x1, ..."""
    kinds = {"float32": "float", "int64": "int64"}
    described = []
    for number, x in enumerate(inputs):
        shape = ", ".join(map(str, x.shape))
        described.append(f"{kinds[x.dtype.name]}[{shape}] x{number}")
    outputs = [f"y{number}" for number in range(results)]
    op, _, attributes = node.partition(" ")
    names = ", ".join(f"x{number}" for number in range(len(inputs)))
    text = HEAD.replace("INPUTS", ", ".join(described))
    text = text.replace("OUTPUTS", ", ".join(f"float {name}" for name in outputs))
    call = f"{', '.join(outputs)} = {op} {attributes} ({names})"
    return parse_model(text.replace("NODE", call))


def expected(proto, inputs):
    ort = pytest.importorskip("onnxruntime", reason="no wheel for this Python")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options)
    given = {f"x{i}": x for i, x in enumerate(inputs) if x is not None}
    return session.run(None, given)


@pytest.mark.parametrize("name", ROWS)
def test_results_are_those_of_onnx_runtime(name, backend):
    node, results, inputs = ROWS[name]
    proto = model(node, results, inputs)
    wanted = expected(proto, inputs)
    for optimize in (False, True):
        found = load(proto, optimize=optimize)(*inputs)
        found = found if isinstance(found, tuple) else (found,)
        for y, expected_y in zip(found, wanted, strict=True):
            assert y.shape == expected_y.shape
            np.testing.assert_allclose(y.numpy(), expected_y, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"]
)
def test_the_sum_is_the_last_result(op, backend):
    inputs = [X, SKIP, SCALE]
    proto = model(f"com.microsoft.{op}", 4, inputs)
    _, _, _, total = load(proto)(*inputs)
    np.testing.assert_allclose(total.numpy(), X + SKIP, rtol=1e-6)


def test_gradients_pass_through_rotations(backend):
    """A rotation keeps lengths, so the gradient of half the squares is the input."""
    rotate = load(model("com.microsoft.RotaryEmbedding", 1, [X, EACH, COSINES, SINES]))
    squares = lambda x: 0.5 * pg.sum(rotate(x, EACH, COSINES, SINES) ** 2)
    found = pg.grad(squares)(pg.asarray(X)).numpy()
    np.testing.assert_allclose(found, X, rtol=1e-4, atol=1e-5)


# --- attention -------------------------------------------------------------------

KEY_HEADS = 1
CACHE_ROWS = 8


def attention_model(op, attributes, inputs, results=3):
    """Return a model of one attention; None is an omitted input."""
    kinds = {"float32": "float", "int64": "int64", "int32": "int32"}
    described = []
    names = []
    for number, x in enumerate(inputs):
        names.append("" if x is None else f"x{number}")
        if x is not None:
            shape = f"[{', '.join(map(str, x.shape))}]" if x.shape else ""
            described.append(f"{kinds[x.dtype.name]}{shape} x{number}")
    outputs = [f"y{number}" for number in range(results)]
    text = HEAD.replace("INPUTS", ", ".join(described))
    text = text.replace("OUTPUTS", ", ".join(f"float {name}" for name in outputs))
    call = (
        f"{', '.join(outputs)} = com.microsoft.{op} <{attributes}> ({', '.join(names)})"
    )
    return parse_model(text.replace("NODE", call))


def grouped(length, past, last, total, rotary=True, packed=False):
    """Return the inputs of a GroupQueryAttention."""
    query = normal(2, length, HEADS * SIZE)
    key, value = normal(2, 2, length, KEY_HEADS * SIZE)
    if packed:
        query = np.concatenate([query, key, value], axis=2)
        key = value = None
    cache = [None, None]
    if past:
        cache = [*normal(2, 2, KEY_HEADS, past, SIZE)]
    last = np.asarray(last, np.int32)
    tables = [COSINES, SINES] if rotary else []
    return [query, key, value, *cache, last, np.asarray(total, np.int32), *tables]


GROUPED = f"num_heads = {HEADS}, kv_num_heads = {KEY_HEADS}"
ROTARY = f"{GROUPED}, do_rotary = 1"
GROUPED_ROWS = {
    "prompt": (GROUPED, grouped(4, 0, [3, 3], 4, rotary=False)),
    "prompt, rotary": (ROTARY, grouped(4, 0, [3, 3], 4)),
    "prompt, interleaved": (
        f"{ROTARY}, rotary_interleaved = 1",
        grouped(4, 0, [3, 3], 4),
    ),
    "prompt, packed": (ROTARY, grouped(4, 0, [3, 3], 4, packed=True)),
    "token": (ROTARY, grouped(1, 5, [5, 5], 6)),
    "token, lengths differ": (ROTARY, grouped(1, 5, [5, 3], 6)),
    "token, rows of the cache to spare": (ROTARY, grouped(1, 8, [5, 3], 6)),
    "token, scale and cap": (
        f"{GROUPED}, scale = 0.25, softcap = 2.0",
        grouped(1, 5, [5, 5], 6, rotary=False),
    ),
    "prompt, positions and bias": (
        ROTARY,
        [*grouped(4, 0, [3, 3], 4), EACH[:, :4] + 3, normal(2, HEADS, 4, 4)],
    ),
    "token, positions": (
        ROTARY,
        [*grouped(1, 5, [5, 4], 6), np.asarray([[2], [9]], np.int64)],
    ),
    "token, cap and a bias for all heads": (
        f"{GROUPED}, softcap = 2.0",
        [*grouped(1, 5, [5, 5], 6), None, normal(1, 1, 1, 6)],
    ),
    "token, window": (
        f"{GROUPED}, local_window_size = 3",
        grouped(1, 5, [5, 5], 6, rotary=False),
    ),
}


@pytest.mark.parametrize("name", GROUPED_ROWS)
def test_grouped_query_attention(name, backend):
    attributes, inputs = GROUPED_ROWS[name]
    proto = attention_model("GroupQueryAttention", attributes, inputs)
    compare_attention(proto, inputs)


@pytest.mark.parametrize(
    ("op", "attributes", "inputs"),
    [
        (
            "GroupQueryAttention",
            f"{GROUPED}, smooth_softmax = 1",
            grouped(1, 0, [0, 0], 1),
        ),
        ("MultiHeadAttention", "num_heads = 2", [normal(2, 4, 2, 3, 8)]),
    ],
    ids=["smooth_softmax", "packed"],
)
def test_what_is_not_implemented(op, attributes, inputs):
    model = load(attention_model(op, attributes, [*inputs, None, None][:9]))
    with pytest.raises(NotImplementedError, match=op):
        model(*[x for x in inputs if x is not None])


def test_gradients_of_attention(backend):
    """Gradients equal those of separate query heads that share one key head."""
    attributes, inputs = GROUPED_ROWS["prompt"]
    model = load(attention_model("GroupQueryAttention", attributes, inputs))
    given = [x for x in inputs if x is not None]
    weights = normal(*given[0].shape)

    def grouped_loss(query, key, value):
        return pg.sum(model(query, key, value, *given[3:])[0] * weights)

    def plain_loss(query, key, value):
        heads = [query[..., SIZE * i : SIZE * (i + 1)] for i in range(HEADS)]
        attend = pg.scaled_dot_product_attention
        parts = [attend(q, key, value, is_causal=True) for q in heads]
        return pg.sum(pg.concat(parts, axis=-1) * weights)

    found = pg.grads(grouped_loss)(*map(pg.asarray, given[:3]))
    wanted = pg.grads(plain_loss)(*map(pg.asarray, given[:3]))
    for dx, expected_dx in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            dx.numpy(), expected_dx.numpy(), rtol=1e-4, atol=1e-5
        )


def compare_attention(proto, inputs):
    wanted = expected(proto, inputs)
    given = [x for x in inputs if x is not None]
    for optimize in (False, True):
        found = load(proto, optimize=optimize)(*given)
        found = found if isinstance(found, tuple) else (found,)
        for y, expected_y in zip(found, wanted, strict=True):
            assert y.shape == expected_y.shape
            np.testing.assert_allclose(y.numpy(), expected_y, rtol=1e-4, atol=1e-5)


KEYS = 6
QUERIES = normal(2, 4, WIDTH)
OF_KEYS = [*normal(2, 2, KEYS, WIDTH)]
CACHED = [*normal(2, 2, HEADS, 3, SIZE)]
MASK = np.asarray([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]], np.int32)
COUNTS = np.asarray([6, 4], np.int32)
HEADS_ONLY = f"num_heads = {HEADS}"
MULTI_ROWS = {
    "plain": (HEADS_ONLY, [QUERIES, *OF_KEYS]),
    "scale": (f"{HEADS_ONLY}, scale = 0.5", [QUERIES, *OF_KEYS]),
    "bias": (HEADS_ONLY, [QUERIES, *OF_KEYS, normal(3 * WIDTH)]),
    "mask": (HEADS_ONLY, [QUERIES, *OF_KEYS, None, MASK]),
    "counts": (HEADS_ONLY, [QUERIES, *OF_KEYS, None, COUNTS]),
    "bias of scores": (
        HEADS_ONLY,
        [QUERIES, *OF_KEYS, None, None, normal(2, HEADS, 4, KEYS)],
    ),
    "mask of each query": (
        HEADS_ONLY,
        [QUERIES, *OF_KEYS, None, np.tile(MASK[:, None], (1, 4, 1))],
    ),
    "mask and bias of scores": (
        HEADS_ONLY,
        [QUERIES, *OF_KEYS, None, MASK, normal(1, HEADS, 4, KEYS)],
    ),
    "causal": (
        f"{HEADS_ONLY}, unidirectional = 1",
        [X, *normal(2, 2, TOKENS, WIDTH)],
    ),
    "cache": (
        HEADS_ONLY,
        [QUERIES, *normal(2, 2, 4, WIDTH), None, None, None, *CACHED],
    ),
    "another sequence": (
        HEADS_ONLY,
        [QUERIES, *normal(2, 2, HEADS, KEYS, SIZE)],
    ),
}


@pytest.mark.parametrize("name", MULTI_ROWS)
def test_multi_head_attention(name, backend):
    attributes, inputs = MULTI_ROWS[name]
    results = 3 if name == "cache" else 1
    compare_attention(
        attention_model("MultiHeadAttention", attributes, inputs, results), inputs
    )
