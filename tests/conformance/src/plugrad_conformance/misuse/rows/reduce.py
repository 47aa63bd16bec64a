"""Valid calls of reductions."""

from .. import bools, call, floats

CALLS = {
    **{
        name: call(floats(2, 3, 4), axis=(1,), keepdims=False)
        for name in ("Max", "Mean", "Min", "Prod", "Sum")
    },
    "All": call(bools(2, 3, 4), axis=(0, 2), keepdims=True),
    "Any": call(bools(2, 3, 4), axis=(0, 2), keepdims=True),
    "ArgMax": call(floats(64, 3, 4), axis=1),
    "ArgMin": call(floats(64, 3, 4), axis=1),
}
