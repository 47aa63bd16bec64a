"""What plugrad adds to Keras: overrides, gradients of each example, attribution."""

import keras
import numpy as np
import plugrad as pg
import plugrad_attribution as attr
import pytest

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(8, 5)).astype(np.float32)
Y = RANDOM.normal(size=(8, 1)).astype(np.float32)


def network(activation="relu"):
    layers = [keras.layers.Dense(7, activation), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input((5,)), *layers])


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_an_override_trains_a_step_function(jit, backend):
    model = network(lambda x: keras.ops.sign(x))
    model.compile("sgd", "mse", jit_compile=jit)
    before = model.layers[0].kernel.numpy()
    model.fit(X, Y, epochs=2, verbose=0)
    np.testing.assert_array_equal(model.layers[0].kernel.numpy(), before)
    with pg.override_gradient("Sign", x=lambda dy, x: dy / (1.0 + x * x)):
        model.fit(X, Y, epochs=2, verbose=0)
    assert (model.layers[0].kernel.numpy() != before).any()


def test_gradients_of_each_example(backend):
    model = network()
    weights = [v.value for v in model.trainable_variables]

    def loss(weights, x, y):
        found, _ = model.stateless_call(weights, [], x[None])
        return pg.sum((found - y) ** 2)

    each = pg.vmap(pg.grad(loss), in_axes=(None, 0, 0))(weights, X, Y)
    one = pg.grad(loss)(weights, pg.asarray(X[3]), pg.asarray(Y[3]))
    for all_, alone in zip(each, one, strict=True):
        np.testing.assert_allclose(all_.numpy()[3], alone.numpy(), rtol=1e-5, atol=1e-6)


def test_layers_are_scopes(backend):
    model = network()
    with pg.profile() as profile:
        model(X)
    scopes = {record.scope for record in profile.records}
    assert all(any(layer.name in s for s in scopes) for layer in model.layers), scopes


def test_relevances_of_a_model(backend):
    model = network("tanh")
    found = attr.attribute(model, pg.asarray(X), attr.Composite(), 0)
    for bias in (model.layers[0].bias, model.layers[1].bias):
        np.testing.assert_array_equal(bias.numpy(), 0.0)
    total = found.input.numpy().sum(axis=1)
    np.testing.assert_allclose(total, model(X).numpy()[:, 0], rtol=1e-4, atol=1e-5)


def recurrent_network():
    layers = [
        keras.layers.Bidirectional(keras.layers.LSTM(4, return_sequences=True)),
        keras.layers.Conv1D(3, 2),
        keras.layers.Flatten(),
        keras.layers.Dense(2, "softmax"),
    ]
    return keras.Sequential([keras.Input((5, 1)), *layers])


@pytest.mark.parametrize("create", [network, recurrent_network])
def test_models_are_exported_to_onnx(create, backend, tmp_path):
    onnx = pytest.importorskip("plugrad_onnx", reason="plugrad-onnx is not installed")
    model = create()
    x = X.reshape(X.shape + (1,) * (len(model.input_shape) - X.ndim))
    onnx.save(model, [x], tmp_path / "model.onnx")
    found = onnx.load(tmp_path / "model.onnx")(x)
    np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
def test_gradients_of_a_step_can_be_changed(jit, backend):
    class Clipped(keras.Model):
        def value_and_grad(self, f, **options):
            gradient_of = super().value_and_grad(f, **options)

            def signs(values):
                found, gradients = gradient_of(values)
                return found, pg.tree.map(pg.sign, gradients)

            return signs

    inputs = keras.Input((5,))
    model = Clipped(inputs, keras.layers.Dense(1)(inputs))
    model.compile(keras.optimizers.SGD(0.125), "mse", jit_compile=jit)
    before = model.get_weights()
    model.train_on_batch(X, Y)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_allclose(abs(new - old), 0.125, rtol=1e-5)
