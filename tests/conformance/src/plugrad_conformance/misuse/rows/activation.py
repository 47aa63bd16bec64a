"""Valid calls of activation functions."""

from .. import call, floats, ints

CALLS = {
    "ClipByValue": call(ints(2, 3, below=5), min=1, max=3),
    "EluGrad": call(floats(2, 3), floats(2, 3)),
    "SigmoidGrad": call(floats(2, 3), floats(2, 3)),
    "TanhGrad": call(floats(2, 3), floats(2, 3)),
    "LeakyRelu": call(floats(2, 3), alpha=0.25),
    "Prelu": call(floats(2, 4, 3), floats(4, 1)),
    "Step": call(floats(2, 3), alpha=0.5),
}
