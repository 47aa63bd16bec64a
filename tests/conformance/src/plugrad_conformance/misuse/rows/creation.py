"""Valid calls of kernels that create tensors, and of ``Cast``."""

from .. import call, floats

CALLS = {
    "Bitcast": call(floats(2, 3), dtype="int32"),
    "Cast": call(floats(2, 3), dtype="int32"),
    "Fill": call(shape=(2, 3), value=1.5, dtype="float32"),
    "LinSpace": call(start=0.5, stop=2, num=4, endpoint=True, dtype="float32"),
    "Range": call(start=1, step=2, size=4, dtype="int32"),
}
