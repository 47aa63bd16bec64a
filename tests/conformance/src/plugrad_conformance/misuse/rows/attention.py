"""Valid calls of attention and of rotary embeddings."""

import numpy as np

from .. import bools, call, floats

CALLS = {
    "Attention": call(
        floats(2, 4, 3, 5),
        floats(2, 2, 6, 5),
        floats(2, 2, 6, 4),
        bools(1, 4, 1, 6),
        np.array([4, 6], np.int32),
        scale=0.5,
        causal=True,
    ),
    "AttentionGrad": call(
        floats(2, 4, 3, 4),
        floats(2, 4, 3, 5),
        floats(2, 2, 6, 5),
        floats(2, 2, 6, 4),
        bools(1, 4, 1, 6),
        np.array([4, 6], np.int32),
        scale=0.5,
        causal=True,
    ),
    "RotaryEmbedding": call(
        floats(2, 3, 5), floats(3, 2), floats(3, 2), interleaved=True
    ),
}
