"""Valid calls of softmax and normalization."""

from .. import call, floats

_LRN_OPTIONS = {"depth_radius": 1, "bias": 1.0, "alpha": 2.0, "beta": 0.5}

CALLS = {
    "FusedBatchNorm": call(
        floats(2, 3, 4), floats(4), floats(4), None, floats(3, 4), epsilon=0.5
    ),
    "LRN": call(floats(2, 3, 4, 5), **_LRN_OPTIONS),
    "LRNGrad": call(*[floats(2, 3, 4, 5)] * 3, **_LRN_OPTIONS),
    "LayerNorm": call(floats(2, 3, 4), floats(3, 4), None, axis=(1, 2), epsilon=0.5),
    "LayerNormGrad": call(
        floats(2, 3, 4), floats(2, 3, 4), floats(3, 4), axis=(1, 2), epsilon=0.5
    ),
    "RMSNorm": call(floats(2, 3, 4), floats(3, 4), axis=(1, 2), epsilon=0.5),
    "LogSoftmax": call(floats(2, 3, 4), axis=1),
    "Softmax": call(floats(2, 3, 4), axis=1),
}
