"""Small models with fixed weights and data, the same for every backend of Keras."""

import numpy as np

STEPS = 12
BATCH = 8


def of_many_layers():
    """Return a model with the kinds of layers that sequence models are made of."""
    import keras

    x = keras.Input((16, 8))
    y = keras.layers.Conv1D(16, 3, padding="causal", activation="gelu")(x)
    y = keras.layers.LayerNormalization()(y)
    attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=8)(y, y)
    y = keras.layers.Add()([y, attended])
    y = keras.layers.LSTM(12, return_sequences=True)(y)
    y = keras.layers.GlobalAveragePooling1D()(y)
    y = keras.layers.Dense(10, activation="relu")(y)
    return keras.Model(x, keras.layers.Dense(3)(y))


def of_images():
    """Return a network of convolutions with batch normalization and pooling."""
    import keras

    return keras.Sequential(
        [
            keras.Input((12, 12, 2)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.SeparableConv2D(8, 3),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


MODELS = {"many layers": of_many_layers, "images": of_images}


def set_weights(model):
    """Give a model the same weights on every backend."""
    random = np.random.default_rng(0)
    values = []
    for weight in model.weights:
        inputs = weight.shape[0] if weight.shape else 1
        drawn = random.normal(size=weight.shape) / np.sqrt(max(inputs, 1))
        values.append(abs(drawn) if "variance" in weight.name else drawn)
    model.set_weights([value.astype(np.float32) for value in values])


def data(model):
    """Return batches of examples and of labels."""
    random = np.random.default_rng(1)
    shape = (STEPS, BATCH, *model.input_shape[1:])
    x = random.normal(size=shape).astype(np.float32)
    return x, random.integers(0, 3, (STEPS, BATCH)).astype(np.int32)


def compiled(name, **options):
    """Return a compiled model with fixed weights."""
    import keras

    model = MODELS[name]()
    set_weights(model)
    model.compile(
        optimizer=keras.optimizers.AdamW(1e-3, weight_decay=0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return model


def trained(name, *, path=None, **options):
    """Return the loss of each step, and the predictions after training.

    With ``path``, the trained model is saved there.
    """
    model = compiled(name, **options)
    x, y = data(model)
    losses = []
    for batch in zip(x, y, strict=True):
        model.reset_metrics()
        losses.append(float(model.train_on_batch(*batch)[0]))
    if path is not None:
        model.save(path)
    return losses, model.predict(x[0], verbose=0).tolist()
