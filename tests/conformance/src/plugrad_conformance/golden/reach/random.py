"""How the golden cases reach the ops of ``random``.

TensorFlow.js seeds may be fractions; plugrad's are integers. Multinomial is reached
through the op, which draws random numbers and passes them to the kernel as an input.
"""

import plugrad as pg


def multinomial(logits, numSamples, seed=None, normalized=False):
    """Run the op for the kernel as well: the op also accepts two axes."""
    seed = None if seed is None else int(seed * 100)
    return pg.random.multinomial(logits, numSamples, seed=seed, normalized=normalized)


KERNELS = {"Multinomial": multinomial}

OPS = {
    "dropout": lambda x, rate: pg.dropout(x, rate),
    "multinomial": multinomial,
    "randomGamma": lambda shape, alpha, beta: pg.random.gamma(shape, alpha, beta),
    "randomUniformInt": lambda shape, low, high: pg.random.uniform_int(
        shape, low, high
    ),
    "truncatedNormal": lambda shape, mean, stddev, dtype, seed: (
        pg.random.truncated_normal(
            shape, mean=mean, stddev=stddev, dtype="float32", seed=seed
        )
    ),
}
