"""Attention with groups and partly filled caches, and rotary embeddings."""

import math

import numpy as np
import plugrad as pg
import pytest

from ..check import check_gradients, require_dtypes


def attention(q, k, v, mask=None, length=None, causal=False, scale=None):
    """Return attention in float64, and zeros for queries that attend to no key."""
    heads, queries, size = q.shape[1:]
    groups, keys = k.shape[1:3]
    k, v = (np.repeat(x.astype(float), heads // groups, 1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(float), k)
    scores *= 1 / math.sqrt(size) if scale is None else scale
    allowed = np.ones(scores.shape, bool)
    if mask is not None and mask.dtype == bool:
        allowed &= mask
    elif mask is not None:
        scores = scores + mask
    filled = keys if length is None else np.reshape(length, (-1, 1, 1, 1))
    filled = np.clip(filled, 0, keys)
    allowed &= np.arange(keys) < filled
    if causal:
        first = 0 if length is None else filled - queries
        allowed &= np.arange(keys) <= first + np.arange(queries)[:, None]
    scores = np.where(allowed, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def random_case(random):
    """Return arguments of any shapes: heads, groups, masks, lengths."""
    batch, groups, share = random.integers(1, 4, 3)
    queries, keys = random.integers(1, 10), random.integers(1, 150)
    size, width = random.integers(1, 75, 2)
    heads = groups * share
    sizes = (batch, heads, queries, size), (batch, groups, keys, size)
    sizes = *sizes, (batch, groups, keys, width)
    arrays = [random.normal(size=s).astype(np.float32) for s in sizes]
    options = {"causal": bool(random.integers(2)), "scale": float(random.random())}
    of_mask = [n if random.random() < 0.5 else 1 for n in (batch, heads, queries, keys)]
    kind = random.integers(3)
    if kind:
        is_bool = kind == 1
        mask = random.random(of_mask) < 0.7 if is_bool else random.normal(size=of_mask)
        options["mask"] = mask if is_bool else mask.astype(np.float32)
    if random.random() < 0.6:
        shape = () if random.random() < 0.5 else (batch,)
        options["length"] = np.asarray(random.integers(-1, keys + 2, shape), np.int32)
    return arrays, options


def attend(arrays, options):
    """Return plugrad's result for the arguments of ``attention``."""
    options = {"is_causal" if n == "causal" else n: x for n, x in options.items()}
    return pg.scaled_dot_product_attention(*arrays, enable_gqa=True, **options)


def with_many_queries(random, arrays, options):
    """Return a case with so many queries that they are computed in blocks."""
    q, k, v = arrays
    queries = int(random.integers(17, 300))
    q = random.normal(size=(*q.shape[:2], queries, q.shape[3])).astype(np.float32)
    mask = options.get("mask")
    if mask is not None and mask.shape[2] > 1:
        mask = np.resize(mask, (*mask.shape[:2], queries, mask.shape[3]))
        options = options | {"mask": mask}
    return [q, k, v], options


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("many", [False, True])
def test_random_shapes_masks_and_lengths(many, seed, backend):
    random = np.random.default_rng(seed)
    arrays, options = random_case(random)
    if many:
        arrays, options = with_many_queries(random, arrays, options)
    found = attend(arrays, options)
    expected = attention(*arrays, **options)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_replays_and_gradients_equal_separate_kernels(seed, backend):
    """A tape may record separate kernels, which compute the same as the fused one."""
    arrays, options = random_case(np.random.default_rng(seed))
    arrays = [*map(pg.asarray, arrays)]
    y = attend(arrays, options)
    jitted = pg.jit(lambda *xs: attend(xs, options))
    for _ in range(3):
        np.testing.assert_array_equal(jitted(*arrays).numpy(), y.numpy())
    under_tape, pull = pg.vjp(lambda *xs: attend(xs, options), *arrays)
    np.testing.assert_allclose(under_tape.numpy(), y.numpy(), rtol=1e-5, atol=1e-5)
    assert [dx.shape for dx in pull(pg.ones(y.shape))] == [x.shape for x in arrays]


def pulled_back(arrays, options, dy):
    """Return the gradients, under jit as well, and check that both are equal."""

    def gradients(*xs):
        _, pull = pg.vjp(lambda *qkv: attend(qkv, options), *xs)
        return pull(dy)

    found = gradients(*arrays)
    jitted = pg.jit(gradients)
    for _ in range(3):
        for dx, again in zip(found, jitted(*arrays), strict=True):
            np.testing.assert_allclose(again.numpy(), dx.numpy(), rtol=1e-5, atol=1e-5)
    return found


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("many", [False, True])
def test_gradient_in_one_kernel_equals_that_of_the_parts(many, seed, backend):
    random = np.random.default_rng(seed)
    arrays, options = random_case(random)
    if many:
        arrays, options = with_many_queries(random, arrays, options)
    xs = [*map(pg.asarray, arrays)]
    shape = (*xs[0].shape[:3], xs[2].shape[3])
    dy = pg.asarray(random.normal(size=shape).astype(np.float32))
    with pg.override_gradient("Softmax", logits=lambda dy, original: original(dy)):
        expected = pulled_back(xs, options, dy)
    optional = [
        None if options.get(name) is None else pg.asarray(options[name])
        for name in ("mask", "length")
    ]
    attributes = {name: options[name] for name in ("scale", "causal")}
    by_kernel = pg.run_kernel("AttentionGrad", [dy, *xs, *optional], attributes)
    for found in (pulled_back(xs, options, dy), by_kernel):
        for dx, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(dx.numpy(), other.numpy(), rtol=1e-4, atol=5e-5)


def test_overrides_apply_to_the_parts(backend):
    """A block, a registered gradient and a gradient of the mask need the parts."""
    random = np.random.default_rng(0)
    q, k, v = (random.normal(size=(1, 2, 4, 3)).astype(np.float32) for _ in range(3))
    attend = lambda *xs, **mask: pg.scaled_dot_product_attention(*xs, length=3, **mask)
    total = lambda *xs: pg.sum(attend(*xs))
    blocked = {"logits": lambda dy: dy * 0}
    assert np.any(pg.grad(total)(q, k, v).numpy())
    with pg.override_gradient("Softmax", **blocked):
        assert not np.any(pg.grad(total)(q, k, v).numpy())
    assert np.any(pg.grad(total)(q, k, v).numpy())
    pg.register_gradient("Softmax", backend=backend, **blocked)
    try:
        assert not np.any(pg.grad(total)(q, k, v).numpy())
    finally:
        pg.unregister_gradient("Softmax", backend=backend)
    assert np.any(pg.grad(total)(q, k, v).numpy())
    mask = random.normal(size=(4, 4)).astype(np.float32)
    with_mask = lambda m: pg.sum(attend(q, k, v, mask=m) ** 2)
    assert np.any(pg.grad(with_mask)(mask).numpy())


def test_later_overrides_do_not_apply(backend):
    """An override that begins after the op ran does not reach into its gradient."""
    x = np.random.default_rng(0).normal(size=(1, 1, 4, 3)).astype(np.float32)
    attend = lambda q: pg.scaled_dot_product_attention(q, x, x, length=3)

    def squares(q, factor):
        y, pull = pg.vjp(attend, q)
        with pg.override_gradient("Softmax", logits=lambda dy: dy * factor):
            return pg.sum(pull(pg.ones(y.shape))[0] ** 2)

    expected = pg.grad(lambda q: pg.sum(pg.grad(lambda q: pg.sum(attend(q)))(q) ** 2))
    found = pg.grad(lambda q: squares(q, 100.0))(x)
    np.testing.assert_allclose(found.numpy(), expected(x).numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("queries", [4, 20])
def test_masks_exclude_keys_of_any_score(queries, backend):
    """-inf also excludes NaN; the least float32 is a score like any other."""
    q, k = np.zeros((1, 1, queries, 2), np.float32), np.zeros((1, 1, 4, 2), np.float32)
    v = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1)
    least = np.zeros((1, 4), np.float32)
    least[:, :2] = np.finfo(np.float32).min
    attend = lambda **given: pg.scaled_dot_product_attention(q, k, v, **given)
    mean = lambda y: y.numpy()[0, 0, 0, 0]
    assert mean(attend(mask=least)) == 2.5
    assert mean(attend(mask=least, length=3)) == 2.0
    assert mean(attend(mask=least, length=2)) == 0.5
    k[0, 0, 3] = np.nan
    excluded = np.array([0, 0, 0, -np.inf], np.float32)
    assert mean(attend(mask=excluded)) == 1.0
    of_q = lambda q: pg.scaled_dot_product_attention(q, k[:, :, :3], v[:, :, :3])
    slope = pg.grad(lambda q: pg.sum(of_q(q)))(q)
    np.testing.assert_array_equal(slope.numpy(), 0.0)


def test_heads_without_elements(backend):
    v = np.arange(5, dtype=np.float32).reshape(1, 1, 5, 1)
    for queries in (3, 20):
        q, k = (np.zeros((1, 1, n, 0), np.float32) for n in (queries, 5))
        y = pg.scaled_dot_product_attention(q, k, v)
        np.testing.assert_allclose(y.numpy(), 2.0, rtol=1e-6)


def test_a_length_that_changes_after_the_run(backend):
    q = np.random.default_rng(0).normal(size=(1, 1, 4, 3)).astype(np.float32)
    found = []
    for after in (3, 0):
        length = np.array([3], np.int32)
        attend = lambda *xs, n=length: pg.scaled_dot_product_attention(*xs, length=n)
        y, pull = pg.vjp(attend, q, q, q)
        length[...] = after
        found.append([dx.tolist() for dx in pull(pg.ones(y.shape))])
    assert found[0] == found[1]


def test_the_scale_must_fit(backend):
    x = np.ones((4, 3), np.float32)
    for length in (None, 4):
        with pytest.raises(OverflowError, match="39 does not fit into float32"):
            pg.scaled_dot_product_attention(x, x, x, scale=1e39, length=length)
    many = np.full((1, 1, 200, 3), 1e25, np.float32)
    y = pg.scaled_dot_product_attention(many, many, many, scale=1e-30)
    assert np.isfinite(y.numpy()).all()


def test_derivatives_of_second_order_and_forward_mode(backend):
    random = np.random.default_rng(0)
    sizes = (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 4)
    arrays = [random.normal(size=size).astype(np.float32) for size in sizes]
    tangents = [random.normal(size=size).astype(np.float32) for size in sizes]
    op = lambda *xs: attend(xs, {"length": [4, 6], "causal": True})
    along = lambda t: op(*[x + t * d for x, d in zip(arrays, tangents, strict=True)])
    _, tangent = pg.jvp(op, arrays, tangents)
    step = 1e-2
    slope = (along(step).numpy() - along(-step).numpy()) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), slope, rtol=1e-2, atol=1e-2)
    gradient = pg.grad(lambda *xs: pg.sum(op(*xs) ** 2))
    _, second = pg.jvp(gradient, arrays, tangents)
    near = [
        gradient(*[x + t * d for x, d in zip(arrays, tangents, strict=True)]).numpy()
        for t in (-step, step)
    ]
    slope = (near[1] - near[0]) / (2 * step)
    np.testing.assert_allclose(second.numpy(), slope, rtol=2e-2, atol=2e-2)


def test_gradients_with_groups_and_lengths(backend):
    require_dtypes(backend, "float64")
    random = np.random.default_rng(0)
    sizes = (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 4)
    arrays = [random.normal(size=size) for size in sizes]
    for options in ({"length": [4, 6]}, {"length": 5, "is_causal": True}, {}):
        op = lambda *xs, options=options: pg.scaled_dot_product_attention(
            *xs, enable_gqa=True, **options
        )
        check_gradients(op, *arrays)


def test_a_cache_that_fills(backend):
    """Each step writes a row, and attends to all rows written so far."""
    random = np.random.default_rng(0)
    keys, values = (pg.zeros((1, 2, 8, 4)) for _ in range(2))

    def step(keys, values, at, q, k, v):
        keys[:, :, at] = k
        values[:, :, at] = v
        return pg.scaled_dot_product_attention(
            q, keys, values, length=at + 1, enable_gqa=True
        )

    jitted = pg.jit(step)
    known = []
    for n in range(8):
        q, k, v = (
            random.normal(size=s).astype(np.float32)
            for s in ((1, 6, 1, 4), (1, 2, 4), (1, 2, 4))
        )
        known.append((k, v))
        y = jitted(keys, values, pg.asarray(n), *map(pg.asarray, (q, k, v)))
        expected = attention(q, *[np.stack(x, 2) for x in zip(*known, strict=True)])
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_examples_of_a_batch(backend):
    random = np.random.default_rng(1)
    q, k, v = (random.normal(size=(3, 2, 4, 8)).astype(np.float32) for _ in range(3))
    lengths = np.asarray([1, 3, 4], np.int32)
    op = lambda q, k, v, n: pg.scaled_dot_product_attention(q, k, v, length=n)
    found = pg.vmap(op)(*map(pg.asarray, (q, k, v, lengths)))
    expected = attention(q, k, v, length=lengths)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_large_scores_and_infinities(backend):
    q = np.asarray([[[[300.0, 0.0]]]], np.float32)
    k = np.asarray([[[[300.0, 0.0], [-300.0, 1.0]]]], np.float32)
    v = np.asarray([[[[1.0], [2.0]]]], np.float32)
    assert pg.scaled_dot_product_attention(q, k, v).item() == 1.0
    infinite = np.full_like(q, np.inf)
    assert math.isnan(pg.scaled_dot_product_attention(infinite, k, v).item())
    k[0, 0, 1] = np.nan  # keys beyond the length are not read
    assert pg.scaled_dot_product_attention(q, k, v, length=1).item() == 1.0
    many = np.repeat(q, 40, 2)
    y = pg.scaled_dot_product_attention(many, k, v, length=1)
    np.testing.assert_array_equal(y.numpy(), 1.0)
    k[0, 0, 1] = 1.0
    dq = pg.grad(lambda q: pg.sum(pg.scaled_dot_product_attention(q, k, v, length=0)))
    np.testing.assert_array_equal(dq(many).numpy(), 0.0)


Q, K, V = (np.ones(s, np.float32) for s in ((2, 6, 3, 4), (2, 2, 5, 4), (2, 2, 5, 2)))
ERRORS = [
    ((Q, K, V), {}, ValueError, "broadcast"),
    ((Q[:, :5], K, V), {"enable_gqa": True}, ValueError, "5 query heads must be"),
    ((Q, K, V[:, :1]), {"enable_gqa": True}, ValueError, "2 key heads and 1 value"),
    (
        (Q, K, V),
        {"enable_gqa": True, "length": [1, 2, 3]},
        ValueError,
        r"length must be one integer, or have shape \(2,\)",
    ),
    ((Q, K, V), {"enable_gqa": True, "length": 1.5}, TypeError, "must be integers"),
    ((Q, K, V), {"enable_gqa": "yes"}, TypeError, "enable_gqa must be"),
]


@pytest.mark.parametrize(("arrays", "options", "error", "message"), ERRORS)
def test_errors_of_attention(arrays, options, error, message, backend):
    with pytest.raises(error, match=f"scaled_dot_product_attention: .*{message}"):
        pg.scaled_dot_product_attention(*arrays, **options)


# --- rotary embeddings -----------------------------------------------------------


def rotated(x, cos, sin, interleaved):
    """Rotate pairs as complex numbers."""
    n = cos.shape[-1]
    y = x.astype(complex if x.dtype.kind == "c" else float)
    pairs = [slice(0, 2 * n, 2), slice(1, 2 * n, 2)] if interleaved else None
    first, second = pairs or (slice(0, n), slice(n, 2 * n))
    z = (y[..., first] + 1j * y[..., second]) * (cos + 1j * sin)
    y[..., first], y[..., second] = z.real, z.imag
    return y


# The shapes of x and of the angles.
ROTARY_SIZES = [
    ((6,), (3,)),
    ((2, 3, 5, 8), (5, 4)),
    ((2, 3, 5, 9), (2, 1, 5, 4)),
    ((2, 5, 3, 70), (5, 1, 33)),
    ((2, 3, 5, 8), (1, 3, 1, 2)),
    ((2, 3, 4), (2, 3, 0)),
    ((0, 4), (2,)),
]


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("sizes", ROTARY_SIZES, ids=str)
def test_rotary_embeddings(sizes, interleaved, backend):
    random = np.random.default_rng(0)
    x = random.normal(size=sizes[0]).astype(np.float32)
    angles = random.normal(size=sizes[1]).astype(np.float32)
    cos, sin = np.cos(angles), np.sin(angles)
    op = lambda x: pg.rotary_embedding(x, cos, sin, interleaved=interleaved)
    expected = rotated(x, cos, sin, interleaved)
    np.testing.assert_allclose(op(x).numpy(), expected, rtol=1e-5, atol=1e-6)
    jitted = pg.jit(op)
    for _ in range(3):
        np.testing.assert_array_equal(jitted(pg.asarray(x)).numpy(), op(x).numpy())


def test_gradients_of_rotary_embeddings(backend):
    require_dtypes(backend, "float64")
    random = np.random.default_rng(0)
    x, angles = random.normal(size=(2, 3, 7)), random.normal(size=(3, 3))
    for interleaved in (False, True):
        op = lambda *xs, i=interleaved: pg.rotary_embedding(*xs, interleaved=i)
        check_gradients(op, x, np.cos(angles), np.sin(angles))


ROTARY_ERRORS = [
    ((np.ones(4), np.ones(3), np.ones(3)), ValueError, "n is at most size / 2"),
    ((np.ones(4), np.ones(2), np.ones(1)), ValueError, "must have the same shape"),
    ((np.ones((2, 4)), np.ones((3, 2)), np.ones((3, 2))), ValueError, "broadcast"),
    ((np.ones(4, complex), np.ones(2), np.ones(2)), TypeError, "complex"),
]


@pytest.mark.parametrize(("arrays", "error", "message"), ROTARY_ERRORS)
def test_errors_of_rotary_embeddings(arrays, error, message, backend):
    kinds = [x.astype("complex64" if x.dtype.kind == "c" else "f") for x in arrays]
    with pytest.raises(error, match=f"rotary_embedding: .*{message}"):
        pg.rotary_embedding(*kinds)
