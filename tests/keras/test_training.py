"""Models train as with Keras on JAX, on each backend, eager and replayed by jit."""

import itertools

import keras
import numpy as np
import plugrad as pg
import pytest
from keras_plugrad.src.trainer import FROZEN
from plugrad_conformance.check import require_dtypes

from tests.keras.models import MODELS, STEPS, compiled, data, trained
from tests.keras.reference import MODEL, recorded

RECORDED = recorded()


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_jax(name, jit, backend):
    losses, predictions = trained(name, jit_compile=jit)
    expected_losses, expected_predictions = RECORDED[name]
    np.testing.assert_allclose(losses, expected_losses, rtol=0, atol=1e-5)
    np.testing.assert_allclose(predictions, expected_predictions, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_jit_records_a_step_once(name, backend):
    model = compiled(name)
    x, y = data(model)
    step = pg.jit(model.train_step, frozen=FROZEN)
    model._symbolic_build(data_batch=(x[0], y[0]))
    groups = model._groups(train=True)
    state = tuple([v.value for v in group] for group in groups)
    for batch in zip(x, y, strict=True):
        _, state = step(state, tuple(map(pg.asarray, batch)))
    explained = step.explain(state, (pg.asarray(x[0]), pg.asarray(y[0])))
    assert len(explained.retraces) <= 2, explained


def classification():
    random = np.random.default_rng(2)
    x = random.normal(size=(200, 6)).astype(np.float32)
    return x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)


def classifier(**options):
    layers = [keras.layers.Dense(32, "tanh"), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss, metrics=["accuracy"], **options)
    return model


def test_fit_evaluate_and_predict(backend):
    x, y = classification()
    model = classifier()
    history = model.fit(x, y, epochs=40, batch_size=20, validation_split=0.2, verbose=0)
    assert history.history["accuracy"][-1] > 0.9
    assert len(history.history["val_loss"]) == 40
    loss, accuracy = model.evaluate(x, y, verbose=0)
    predictions = model.predict(x, batch_size=64, verbose=0)
    assert predictions.shape == (200, 2)
    assert np.mean(predictions.argmax(1) == y) == pytest.approx(accuracy)
    assert loss < history.history["loss"][0]


def test_several_steps_in_one_execution_are_the_same(backend):
    x, y = classification()
    found = []
    for steps in (1, 4):
        keras.utils.set_random_seed(1)
        model = classifier(steps_per_execution=steps)
        model.fit(x, y, epochs=2, batch_size=20, shuffle=False, verbose=0)
        found.append(model.get_weights())
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_callbacks_stop_and_change_the_rate(backend):
    x, y = classification()
    model = classifier()
    rates = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1))
    stop = keras.callbacks.EarlyStopping(monitor="loss", min_delta=1e9, patience=1)
    history = model.fit(x, y, epochs=9, verbose=0, callbacks=[rates, stop])
    assert len(history.history["loss"]) == 2
    np.testing.assert_allclose(history.history["learning_rate"], [0.1, 0.05])


def test_dropout_draws_a_new_mask_in_each_replay(backend):
    model = keras.Sequential([keras.Input((1000,)), keras.layers.Dropout(0.5)])
    model.compile("sgd", "mse")
    run = pg.jit(
        lambda state, x: model.stateless_call(*state, x, training=True), frozen=FROZEN
    )
    state = ([], [v.value for v in model.non_trainable_variables])
    shares, masks = [], []
    for _ in range(4):
        y, others = run(state, pg.ones((1, 1000)))
        state = ([], others)
        masks.append(y.numpy() > 0)
        shares.append(masks[-1].mean())
    assert all(0.4 < share < 0.6 for share in shares)
    assert all((one != other).any() for one, other in itertools.pairwise(masks))


def test_models_are_saved_and_loaded(backend, tmp_path):
    model = compiled("images")
    x, y = data(model)
    model.fit(x[0], y[0], verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one, other in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model(x[1]).numpy(), loaded(x[1]).numpy())


def test_a_model_that_jax_trained_is_loaded(backend):
    model = keras.models.load_model(MODEL)
    x, y = data(model)
    _, expected = RECORDED["images"]
    found = model.predict(x[0], verbose=0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    assert model.optimizer.iterations.numpy() == STEPS
    assert model.train_on_batch(x[0], y[0])[0] < RECORDED["images"][0][0]


def test_mixed_precision_trains(backend):
    require_dtypes(backend, pg.bfloat16)
    x, y = classification()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = classifier()
    finally:
        keras.config.set_dtype_policy("float32")
    history = model.fit(x, y, epochs=20, batch_size=20, verbose=0)
    assert model.layers[0].compute_dtype == "bfloat16"
    assert model.weights[0].dtype == "float32"
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_a_step_of_ones_own(backend):
    class Doubled(keras.Model):
        def train_step(self, state, data):
            logs, state = super().train_step(state, data)
            return {**logs, "twice": 2.0 * logs["loss"]}, state

    inputs = keras.Input((6,))
    model = Doubled(inputs, keras.layers.Dense(2)(inputs))
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    logs = model.train_on_batch(*classification(), return_dict=True)
    np.testing.assert_allclose(logs["twice"], 2 * logs["loss"], rtol=1e-6)
