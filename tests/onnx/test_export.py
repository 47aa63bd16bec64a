"""``save``: ONNX Runtime computes the same results as the saved functions."""

import numpy as np
import onnx
import plugrad as pg
import pytest
from plugrad_onnx import load, save

RNG = np.random.default_rng(4)
X = RNG.normal(size=(2, 3, 4)).astype(np.float32)
P = np.abs(X) + 0.5
N = RNG.integers(-5, 6, (2, 3)).astype(np.int32)
B = X > 0
IMAGE = RNG.normal(size=(2, 9, 8, 4)).astype(np.float32)
CUBE = RNG.normal(size=(1, 5, 5, 4, 2)).astype(np.float32)
W = RNG.normal(size=(3, 3, 4, 6)).astype(np.float32)
CACHE = RNG.normal(size=(2, 5, 4)).astype(np.float32)
DEEP = RNG.normal(size=(2, 9, 8, 6)).astype(np.float32)
MATRIX = RNG.normal(size=(4, 5)).astype(np.float32)


def transposed(x):
    y = pg.conv2d_transpose(x, W, (2, 19, 17, 4), strides=2, pad=((1, 0), (0, 1)))
    return pg.relu(y)


def with_cached_keys(queries, key, cache, position):
    """Put a key into the cache, and return the products of queries with all keys."""
    is_new = pg.arange(5) == position
    keys = pg.where(is_new[:, None], key, cache)
    return pg.matmul(queries, keys[:, None], transpose_b=True)


HIDDEN = RNG.normal(size=(1, 8)).astype(np.float32)
CACHES = RNG.normal(size=(2, 1, 2, 5, 2)).astype(np.float32)


def language_model_layer(x, keys, values, angles, position):
    """Write the keys and values of a token to caches; return the output of a layer."""
    h = pg.rms_norm(x, P[0, 0, :1])
    q = pg.reshape(h, (1, 4, 1, 2))
    q = pg.rotary_embedding(q, pg.cos(angles), pg.sin(angles))
    keys[:, :, position] = pg.reshape(h[:, :4], (1, 2, 2))
    values[:, :, position] = pg.reshape(h[:, 4:], (1, 2, 2))
    options = {"length": position + 1, "enable_gqa": True}
    return pg.scaled_dot_product_attention(q, keys, values, **options), keys, values


UNARY = """
abs acos asin asinh atan ceil cos cosh elu erf exp exp2 expm1 floor gelu isfinite isinf
isnan log_sigmoid mish negative positive relu relu6 round selu sigmoid sign silu sin
sinh softplus square step tan tanh trunc
"""
POSITIVE = "acosh log log1p log2 reciprocal rsqrt sqrt"
BINARY = """
add copysign divide equal floor_divide greater greater_equal hypot less less_equal
maximum minimum multiply not_equal remainder squared_difference subtract
"""
ROWS = {name: (getattr(pg, name), [np.clip(X, -0.9, 0.9)]) for name in UNARY.split()}
ROWS |= {name: (getattr(pg, name), [P + 1]) for name in POSITIVE.split()}
ROWS |= {name: (getattr(pg, name), [X, P[0, 0]]) for name in BINARY.split()}
EDGES = np.asarray([0.0, -0.0, 1e-30, -3e38, np.inf, -np.inf, 2.5, -0.5], np.float32)
ROWS |= {
    "trunc at its edges": (pg.trunc, [EDGES]),
    "hypot at its edges": (pg.hypot, [EDGES[:, None], EDGES]),
    "copysign at its edges": (
        lambda a, b: 1 / pg.copysign(a, b),
        [EDGES[:, None], EDGES],
    ),
    "pow": (pg.pow, [P, X]),
    "remainder of integers": (pg.remainder, [N, N * 0 + 3]),
    "floor_divide of integers": (pg.floor_divide, [N, N * 0 + 3]),
    "logical": (lambda a, b: pg.logical_xor(a, pg.logical_not(b)), [B, B[0]]),
    "where": (lambda x: pg.where(x > 0, x, 2 * x), [X]),
    "clip": (lambda x: pg.clip(x, -0.5, 0.25), [X]),
    "astype": (lambda x: pg.astype(x, "int32"), [3 * X]),
    "constants": (
        lambda x: x + pg.zeros((3, 4)) + pg.arange(4) + pg.full((4,), 2.0),
        [X],
    ),
    "sum": (lambda x: pg.sum(x, axis=(0, 2)), [X]),
    "sum of all elements": (lambda x: pg.sum(x), [X]),
    "mean": (lambda x: pg.mean(x, axis=1, keepdims=True), [X]),
    "max, min, prod": (
        lambda x: (pg.max(x, axis=0), pg.min(x, axis=2), pg.prod(x, axis=1)),
        [X],
    ),
    "all, any": (lambda x: (pg.all(x, axis=0), pg.any(x, axis=2)), [B]),
    "argmax, argmin": (lambda x: (pg.argmax(x, axis=1), pg.argmin(x, axis=2)), [X]),
    "cumulative_sum": (lambda x: pg.cumulative_sum(x, 1, reverse=True), [X]),
    "var": (lambda x: pg.var(x, axis=(1, 2)), [X]),
    "logsumexp": (lambda x: pg.logsumexp(x, axis=2), [X]),
    "top_k": (lambda x: pg.top_k(x, 2), [X]),
    "softmax": (lambda x: (pg.softmax(x, 1), pg.log_softmax(x)), [X]),
    "reshape": (lambda x: pg.squeeze(pg.expand_dims(pg.reshape(x, (6, 4)), 1), 1), [X]),
    "permute_dims": (lambda x: pg.permute_dims(x, (2, 0, 1)), [X]),
    "two transposes": (lambda x: pg.moveaxis(pg.moveaxis(x, 0, 2), 2, 0) + 1, [X]),
    "broadcast_to": (lambda x: pg.broadcast_to(x, (5, 2, 3, 4)), [X]),
    "tile": (lambda x: pg.tile(x, (2, 1, 3)), [X]),
    "slices": (lambda x: (x[1:, ::2, 1:3], x[:, ::-2], pg.flip(x, (0, 2))), [X]),
    "split, unstack": (lambda x: (*pg.split(x, [1, 3], 2), *pg.unstack(x, 1)), [X]),
    "concat, stack": (
        lambda x, y: (pg.concat([x, y, x], axis=1), pg.stack([x, y], axis=2)),
        [X, P],
    ),
    "pad": (lambda x: pg.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=3), [X]),
    "gather": (lambda x, i: pg.take(x, i, axis=2), [X, np.array([3, 0, 1])]),
    "gather_nd": (lambda x, i: pg.gather_nd(x, i), [X, np.array([[1, 2], [0, 0]])]),
    "scatter": (
        lambda x, i: (
            pg.tensor_scatter_update(x, i, pg.ones((2, 3, 4))),
            pg.scatter_nd(i, pg.ones((2, 4)), (3, 4)),
        ),
        [X, np.array([[1], [0]])],
    ),
    "one_hot": (lambda i: pg.one_hot(i, 4, axis=0), [np.array([3, 0, 1], np.int32)]),
    "matmul": (lambda x: pg.matmul(x, MATRIX), [X]),
    "matmul of transposes": (
        lambda x, y: pg.matmul(x, y, transpose_a=True, transpose_b=True),
        [X, RNG.normal(size=(2, 5, 3)).astype(np.float32)],
    ),
    "a layer of a language model": (
        language_model_layer,
        [HIDDEN, *CACHES, P[0, :1, :1], np.asarray(2, np.int32)],
    ),
    "matmul with a cache of keys": (
        with_cached_keys,
        [X[:, None], X[:, :1], CACHE, np.asarray(2, np.int32)],
    ),
    "einsum": (lambda x: pg.einsum("abc,cd->dba", x, MATRIX), [X]),
    "fused matmul": (
        lambda x: pg.fused.matmul(x, MATRIX, MATRIX[0], activation="leaky_relu"),
        [X],
    ),
    "conv1d": (lambda x: pg.conv1d(x, W[0], pad=((1, 1),)), [IMAGE[0]]),
    "conv2d": (
        lambda x: pg.conv2d(x, W, strides=2, pad=((1, 0), (0, 2)), dilations=1),
        [IMAGE],
    ),
    "conv2d with groups": (
        lambda x: pg.conv2d(x, W[:, :, :2], pad="same", dilations=2, groups=2),
        [IMAGE],
    ),
    "conv2d in NCHW": (
        lambda x: pg.conv2d(x, W, data_format="NCHW"),
        [IMAGE.transpose(0, 3, 1, 2).copy()],
    ),
    "fused conv2d": (
        lambda x: pg.fused.conv2d(x, W, W[0, 0, 0], activation="relu6"),
        [IMAGE],
    ),
    "depthwise_conv2d": (
        lambda x: pg.depthwise_conv2d(x, W[..., :2], pad="same"),
        [IMAGE],
    ),
    "conv2d_transpose": (transposed, [DEEP]),
    "conv3d": (lambda x: pg.conv3d(x, W[None, :, :, :2, :3], pad="same"), [CUBE]),
    "max_pool": (lambda x: pg.max_pool(x, 3, strides=2, pad="same"), [IMAGE]),
    "avg_pool": (lambda x: pg.avg_pool(x, 3, strides=2, pad="same"), [IMAGE]),
    "pools in 3d": (lambda x: pg.avg_pool(pg.max_pool(x, 2, strides=1), 2), [CUBE]),
    "batch_norm": (
        lambda x: pg.batch_norm(x, MATRIX[:, 0], MATRIX[:, 1] ** 2, MATRIX[:, 2]),
        [IMAGE],
    ),
    "layer_norm": (lambda x: pg.layer_norm(x, MATRIX[:, 0], axis=2), [X]),
    "local_response_normalization": (
        lambda x: pg.local_response_normalization(x, depth_radius=1, alpha=0.5),
        [IMAGE],
    ),
}  # fmt: skip


def runtime_answers(proto, inputs):
    ort = pytest.importorskip("onnxruntime", reason="it has no wheel for this Python")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(proto.SerializeToString(), options)
    names = [info.name for info in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


@pytest.mark.parametrize("name", ROWS)
def test_saved_functions_give_the_same_answers(name):
    f, inputs = ROWS[name]
    with pg.use_backend("cpu"):
        expected = pg.tree.leaves(f(*map(pg.asarray, inputs)))
        proto = save(f, inputs)
        reloaded = load(proto)(*inputs)
    reloaded = reloaded if isinstance(reloaded, tuple) else (reloaded,)
    rows = zip(runtime_answers(proto, inputs), reloaded, expected, strict=True)
    for found, loaded, wanted in rows:
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(loaded.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_transposes_that_cancel_are_left_out():
    f = lambda x: pg.max_pool(pg.conv2d(x, W, pad="same"), 2)
    ops = [node.op_type for node in save(f, [IMAGE]).graph.node]
    assert ops == ["Transpose", "Conv", "MaxPool", "Transpose"]


def test_inputs_and_outputs_can_be_named(tmp_path):
    path = tmp_path / "f.onnx"
    save(pg.add, [X, X], path, input_names=["a", "b"], output_names=["sum"])
    proto = onnx.load(path)
    assert [info.name for info in proto.graph.input] == ["a", "b"]
    assert load(path, backend="cpu")(a=X, b=X).shape == X.shape


def test_items_of_an_input_that_are_assigned():
    def f(cache, x):
        cache[1] = x
        return pg.sum(cache)

    cache = pg.asarray(MATRIX)
    proto = save(f, [cache, MATRIX[0]], output_names=["sum", "cache"])
    assert cache.tolist() == MATRIX.tolist()
    total, new = load(proto, backend="cpu")(MATRIX, MATRIX[2])
    expected = MATRIX.copy()
    expected[1] = MATRIX[2]
    np.testing.assert_allclose(total.numpy(), expected.sum(), rtol=1e-6)
    np.testing.assert_array_equal(new.numpy(), expected)


V = pg.Variable([1.0])
ERRORS = {
    "kernels": (
        lambda x: pg.atan2(x, pg.linalg.svdvals(x)[0]),
        "no equivalent of the kernels Atan2, Svdvals",
    ),
    "values": (lambda x: x if pg.sum(x) > 0 else -x, "cannot be recorded: the values"),
    "variables": (lambda x: x * V, "2 inputs, but there are 1 examples"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_cannot_be_saved(name):
    f, message = ERRORS[name]
    with pytest.raises(ValueError, match=message):
        save(f, [X[0, :, :3]])


@pytest.mark.parametrize("examples", [pg.asarray(X), X], ids=["tensor", "array"])
def test_one_tensor_is_not_a_list_of_inputs(examples):
    with pytest.raises(TypeError, match=r"must be a list .*; for .* \[x\]"):
        save(lambda *xs: xs[0] * 2, examples)
