"""``vmap`` equals a loop over the examples: axes, gradients, nesting, errors.

The conformance kit tests this for every kernel.
"""

import threading

import numpy as np
import plugrad as pg
import pytest

RNG = np.random.default_rng(5)
X = RNG.normal(size=(5, 4)).astype("float32")
W = RNG.normal(size=(4, 3)).astype("float32")


def close(y, expected):
    np.testing.assert_allclose(y.numpy(), expected, rtol=2e-5, atol=1e-5)


def loop(f, xs):
    """Return the results of ``f`` for one example after the other."""
    return np.stack([f(pg.asarray(x)).numpy() for x in xs])


def network(w, x):
    return pg.sum(pg.softmax(pg.tanh(x @ w)) ** 2)


# --- axes and structures ---------------------------------------------------------


@pytest.mark.parametrize("out", [0, 1, -1])
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_axes(axis, out):
    x = RNG.normal(size=(3, 3, 3)).astype("float32")
    y = pg.vmap(lambda x: x.T * 2.0 + 1.0, in_axes=axis, out_axes=out)(x)
    parts = [part.T * 2 + 1 for part in np.moveaxis(x, axis, 0)]
    close(y, np.stack(parts, axis=out))


def test_axes_of_each_argument():
    f = lambda w, x, scale: (x @ w) * scale  # w is not mapped, x is along axis 0
    y = pg.vmap(f, in_axes=(None, 0, None))(W, X, 2.0)
    close(y, X @ W * 2)
    y = pg.vmap(f, (1, None, 0))(W[:, None, :], X[0], np.float32([2]))
    close(y, (X[0] @ W * 2)[None])
    # keyword arguments are mapped along axis 0
    y = pg.vmap(lambda x, *, y: x + y)(X, y=X)
    close(y, 2 * X)


def test_structures():
    parameters = {"w": pg.asarray(W), "b": [pg.asarray(X[:3, 0]), None]}
    f = lambda p, x: {"y": x @ p["w"] + p["b"][0], "p": p, "n": 3.0}
    found = pg.vmap(f, in_axes=(None, 0), out_axes={"y": 1, "p": None, "n": 0})(
        parameters, X
    )
    close(found["y"], (X @ W + X[:3, 0]).T)
    close(found["p"]["w"], W)
    assert found["p"]["b"][1] is None
    assert found["n"].tolist() == [3.0] * 5
    axes = ({"w": None, "b": [0, None]}, None)
    y = pg.vmap(lambda p, x: p["b"][0] * x[0], in_axes=axes)(parameters, X[0])
    close(y, X[:3, 0] * X[0, 0])


def test_arguments_other_than_tensors():
    f = lambda x, how, fn: fn(x, axis=how["axis"])
    close(pg.vmap(f, in_axes=(0, None, None))(X, {"axis": 0}, pg.sum), X.sum(1))


def test_results_that_are_equal_for_all_examples():
    constant = pg.asarray([1.0, 2.0])
    from_outside, made_inside = pg.vmap(lambda x: (constant, pg.zeros(2)))(X)
    close(from_outside, np.tile([1.0, 2.0], (5, 1)))
    close(made_inside, np.zeros((5, 2)))
    assert pg.vmap(lambda x: constant, out_axes=None)(X).shape == (2,)


@pytest.mark.parametrize("size", [0, 1])
def test_no_example_and_one_example(size):
    y = pg.vmap(lambda x: pg.sum(x @ W))(X[:size])
    close(y, (X[:size] @ W).sum(1))


def test_decorator_and_signature():
    @pg.vmap
    def f(x):
        """Double."""
        return x * 2.0

    close(f(X), 2 * X)
    assert (f.__name__, f.__doc__) == ("f", "Double.")


# --- what a function may do ------------------------------------------------------


def test_item_assignment():
    def f(x):
        y = pg.zeros(4)
        y[1:3] = x[:2] * 2.0
        y[0] += x[3]
        return y

    close(pg.vmap(f)(X), loop(f, X))
    t = pg.zeros(4)
    with pytest.raises(
        ValueError, match="setitem: the tensor was made outside of vmap"
    ):
        pg.vmap(lambda x: t.__setitem__(0, x[0]))(X)
    assert t.tolist() == [0.0] * 4


def test_indexing_by_examples():
    i = np.array([3, 0, 1, 1, 2], dtype="int32")
    close(pg.vmap(lambda x, i: x[i])(X, i), X[np.arange(5), i])
    table = pg.asarray(W)
    close(pg.vmap(lambda i: table[i] * 2.0)(i), W[i] * 2)
    close(pg.vmap(lambda i: pg.one_hot(i, 4))(i), np.eye(4)[i])


def test_values_that_are_equal_for_all_examples_can_be_read():
    t = pg.asarray(3)
    f = lambda x: x * t.item() if t > 2 and pg.ones(2).sum().item() == 2 else x
    close(pg.vmap(f)(X), 3 * X)


def test_variables_inside():
    v = pg.Variable(2.0)

    def f(x):
        w = pg.Variable(x)
        w.assign(w * v)
        return w.value

    close(pg.vmap(f)(X), 2 * X)
    with pytest.raises(ValueError, match=r"assign: .* was made outside of vmap"):
        pg.vmap(lambda x: v.assign(x[0]))(X)
    assert v.item() == 2.0


def test_another_backend_inside(backend):
    f = lambda x: pg.sum(x * x)
    for name in pg.backends():
        with pg.use_backend(name):
            y = pg.vmap(f)(X)
        assert y.backend == name
        close(y, (X * X).sum(1))

        def inside(x, name=name):
            with pg.use_backend(name):
                return pg.exp(x) * 2.0

        close(pg.vmap(inside)(X), np.exp(X) * 2)
        close(pg.vmap(lambda x, name=name: x.to(name) + 1.0)(X), X + 1)


def test_repr_inside_shows_all_examples():
    shown = []
    pg.vmap(lambda x: shown.append(repr(x)) or x)(X[:2, :1])
    assert "shape=(1,), dtype=float32, of 2 examples in vmap" in shown[0]
    assert repr(pg.asarray(X[:2, :1]).numpy()[0, 0])[-8:-2] in shown[0]


def test_observers_see_whole_batches():
    with pg.profile() as report:
        pg.vmap(lambda x: pg.exp(x))(X)
    (run,) = [record for record in report.records if record.kernel == "Exp"]
    assert run.outputs[0][0] == (5, 4)


# --- gradients -------------------------------------------------------------------


def test_gradient_of_each_example():
    per_example = pg.vmap(pg.grad(network), in_axes=(None, 0))(W, X)
    close(per_example, loop(lambda x: pg.grad(network)(pg.asarray(W), x), X))


def test_gradient_through_vmap():
    mapped = lambda w, x: pg.sum(pg.vmap(network, in_axes=(None, 0))(w, x))
    looped = lambda w, x: sum(
        (network(w, x[i]) for i in range(5)), start=pg.asarray(0.0)
    )
    expected = pg.grads(looped)(W, X)
    for got, wanted in zip(pg.grads(mapped)(W, X), expected, strict=True):
        close(got, wanted.numpy())


def test_gradient_of_gradients_of_examples():
    each = pg.vmap(pg.grad(network), in_axes=(None, 0))
    mapped = lambda w: pg.sum(each(w, X) ** 2)
    looped = lambda w: sum(
        (pg.sum(pg.grad(network)(w, pg.asarray(x)) ** 2) for x in X),
        start=pg.asarray(0.0),
    )
    close(pg.grad(mapped)(W), pg.grad(looped)(W).numpy())


def test_gradient_inside_with_respect_to_a_tensor_from_outside():
    def mapped(w):
        inner = lambda x: pg.grad(lambda u: network(u, x))(w)
        return pg.sum(pg.vmap(inner)(X) ** 2)

    looped = lambda w: sum(
        (pg.sum(pg.grad(network)(w, pg.asarray(x)) ** 2) for x in X),
        start=pg.asarray(0.0),
    )
    close(pg.grad(mapped)(W), pg.grad(looped)(W).numpy())


def test_a_pullback_mapped_over_unit_vectors_gives_the_jacobian():
    f = lambda x: pg.tanh(x) * pg.sum(x)
    _, pullback = pg.vjp(f, X[0])
    rows = pg.vmap(lambda dy: pullback(dy)[0])(pg.eye(4))
    close(rows, pg.jacobian(f)(X[0]).numpy())
    columns = pg.vmap(lambda v: pg.jvp(f, [X[0]], [v])[1], out_axes=1)(pg.eye(4))
    close(columns, pg.jacobian(f)(X[0]).numpy())


def test_hessians():
    f = lambda x: pg.sum(pg.sin(x)) * pg.sum(x * x)
    close(pg.vmap(pg.hessian(f))(X), loop(pg.hessian(f), X))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: pg.sum(pg.linalg.eigh(x @ x.T)[1] ** 3),
        lambda x: pg.sum(pg.linalg.eigh(x @ x.T)[0] ** 3),
        lambda x: pg.sum(pg.linalg.svd(x)[0] ** 3),
        lambda x: pg.sum(pg.linalg.svd(x)[1] ** 3),
        lambda x: pg.sum(pg.abs(pg.linalg.eigvals(x)) ** 3),
        lambda x: pg.sum(pg.linalg.qr(x)[1]) + pg.linalg.slogdet(x)[1],
        lambda x: pg.sum(pg.linalg.inv(x) @ pg.linalg.cholesky(x @ x.T)),
    ],
)
def test_gradients_of_matrices(f):
    xs = RNG.normal(size=(3, 3, 3))
    np.testing.assert_allclose(
        pg.vmap(pg.grad(f))(xs).numpy(), loop(pg.grad(f), xs), rtol=1e-6, atol=1e-9
    )


def test_gradients_of_variables():
    v = pg.Variable(W)
    loss = lambda x: pg.sum((x @ v) ** 2)
    _, found = pg.variable_grads(lambda: pg.sum(pg.vmap(loss)(X)))
    close(found[v], 2 * X.T @ (X @ W))
    per_example = pg.vmap(lambda x: pg.variable_grads(lambda: loss(x))[1][v])(X)
    close(per_example, np.stack([2 * np.outer(x, x @ W) for x in X]))


def test_overrides_inside_the_function():
    @pg.override_gradient("Relu", x=lambda dy: dy * 7.0)
    def f(x):
        return pg.sum(pg.relu(x) + pg.vmap(pg.relu)(x))

    twice = lambda x: pg.sum(pg.vmap(f)(x))
    close(pg.grad(twice)(X), np.full_like(X, 14))
    close(pg.vmap(pg.grad(f))(X), np.full_like(X, 14))
    # the override applies only inside f
    close(pg.grad(lambda x: pg.sum(pg.vmap(pg.relu)(x)))(X), X > 0)


def test_overrides_outside_of_vmap():
    f = lambda x: pg.sum(pg.relu(x))
    with pg.override_gradient("Relu", x=lambda dy: dy * 7.0):
        close(pg.vmap(pg.grad(f))(X), np.full_like(X, 7))
        close(pg.grad(lambda x: pg.sum(pg.vmap(f)(x)))(X), np.full_like(X, 7))


# --- nesting and random numbers --------------------------------------------------


def test_nested():
    outer = pg.vmap(lambda x: pg.vmap(lambda y: pg.sum(x * y) + x[0])(X))
    close(outer(X), X @ X.T + X[:, :1])
    three = pg.vmap(pg.vmap(pg.vmap(lambda a: a * 2.0), in_axes=1), in_axes=2)
    a = RNG.normal(size=(2, 3, 4)).astype("float32")
    close(three(a), 2 * np.moveaxis(np.moveaxis(a, 2, 0), 2, 1))


def test_random_numbers_differ_between_examples():
    f = lambda x: (
        pg.random.normal((2,)),
        pg.random.normal((2,), seed=3),
        pg.random.permutation(20),
        pg.random.multinomial(pg.zeros(50), 4),
        pg.dropout(x, 0.5),
    )
    unseeded, seeded, order, classes, after_dropout = pg.vmap(f)(
        np.ones((5, 40), "float32")
    )
    assert len(np.unique(unseeded.numpy())) == 10
    np.testing.assert_array_equal(
        seeded.numpy(), np.tile(pg.random.normal((2,), seed=3).numpy(), (5, 1))
    )
    np.testing.assert_array_equal(
        np.sort(order.numpy()), np.tile(np.arange(20), (5, 1))
    )
    for y in (order, classes, after_dropout):
        assert len(np.unique(y.numpy(), axis=0)) == 5
    nested = pg.vmap(lambda x: pg.vmap(lambda y: pg.random.uniform(()))(x))(X)
    assert nested.shape == X.shape
    assert len(np.unique(nested.numpy())) == X.size
    assert pg.vmap(lambda x: pg.random.uniform((3,)))(X[:0]).shape == (0, 3)


def test_random_keys_of_each_example():
    def f(key, x):
        a, b = pg.random.split(key)
        c = pg.random.fold_in(a, 3)
        normal = pg.random.normal((2,), seed=a) + x
        return normal, pg.random.multinomial(pg.zeros(50), 4, seed=b), c

    keys = pg.random.split(pg.random.key(1), 5)
    looped = [f(keys[i], pg.asarray(X[i, 0])) for i in range(5)]
    for got, expected in zip(
        pg.vmap(f)(keys, X[:, 0]), zip(*looped, strict=True), strict=True
    ):
        np.testing.assert_array_equal(
            got.numpy(), np.stack([y.numpy() for y in expected])
        )
    same = pg.vmap(f, in_axes=(None, 0))(keys[2], X[:, 0])
    with_one_key = same[1].numpy()
    np.testing.assert_array_equal(with_one_key, np.tile(looped[2][1].numpy(), (5, 1)))


def test_threads():
    results = {}
    f = pg.vmap(pg.grad(network), in_axes=(None, 0))

    name = pg.get_backend()

    def work(i):
        with pg.use_backend(name):
            results[i] = f(W, X * i).numpy()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, found in results.items():
        np.testing.assert_array_equal(found, f(W, X * i).numpy())


# --- errors ----------------------------------------------------------------------

READ = r"vmap: the values of a tensor of shape .* differ between the 5 examples"


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, READ),
        (lambda x: x.sum().item(), READ),
        (lambda x: np.asarray(x), READ),
        (lambda x: float(x[0]), READ),
        (lambda x: x[x > 0], READ),
        (lambda x: pg.nonzero(x), READ),
        (lambda x: pg.unique_values(pg.sign(x)), "shapes that depend on the values"),
    ],
)
def test_values_that_differ_between_examples_cannot_be_read(f, message):
    with pytest.raises(ValueError, match=message):
        pg.vmap(f)(np.sort(X, axis=1) + np.arange(5, dtype="float32")[:, None] - 2)


@pytest.mark.parametrize(
    ("axes", "args", "message"),
    [
        ((0,), (X, X), r"in_axes \(0,\) has 1 entries for 2 positional arguments"),
        (None, (X,), "no argument is mapped"),
        (0, (X, X[:3]), r"differ in size: 5 of argument \[0\], 3 of argument \[1\]"),
        (0, (X, 2.0), r"argument \[1\] of shape \(\) has no axis 0; .* in_axes"),
        (2, (X,), r"argument \[0\] of shape \(5, 4\) has no axis 2"),
        (({"a": 0},), (X,), r"in_axes at \[0\]: expected .*got"),
        (([0, 0],), ([X],), r"in_axes at \[0\]: expected .*got"),
    ],
)
def test_arguments_that_do_not_fit(axes, args, message):
    with pytest.raises(ValueError, match=f"vmap: .*{message}"):
        pg.vmap(lambda *xs: xs[0], in_axes=axes)(*args)


def test_axes_of_another_type():
    for axes in ("0", 1.0, True, ("x",)):
        with pytest.raises(TypeError, match="vmap: in_axes must contain only int"):
            pg.vmap(lambda x: x, in_axes=axes)(X)
    with pytest.raises(TypeError, match="vmap: expected a function, got 3"):
        pg.vmap(3)


def test_results_that_do_not_fit():
    with pytest.raises(ValueError, match="vmap: result differs between examples"):
        pg.vmap(lambda x: x, out_axes=None)(X)
    with pytest.raises(ValueError, match="out_axes 2 is out of range for result"):
        pg.vmap(lambda x: x, out_axes=2)(X)
    with pytest.raises(ValueError, match=r"vmap: out_axes.*expected"):
        pg.vmap(lambda x: (x, x), out_axes=[0])(X)
    with pytest.raises(TypeError, match="cannot make a tensor of object"):
        pg.vmap(lambda x: object())(X)


def test_a_mapped_tensor_cannot_be_used_after_the_call():
    leaked = []
    pg.vmap(lambda x: leaked.append(x) or x)(X)
    (x,) = leaked
    for use in (lambda: x + 1.0, x.numpy, lambda: pg.vmap(lambda y: x + y)(X)):
        with pytest.raises(ValueError, match="vmap: this tensor was computed inside"):
            use()


def test_errors_inside_leave_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        pg.vmap(lambda x: 1 / 0)(X)
    assert pg.asarray(X).backend == pg.get_backend()
    close(pg.vmap(lambda x: x + 1.0)(X), X + 1)
