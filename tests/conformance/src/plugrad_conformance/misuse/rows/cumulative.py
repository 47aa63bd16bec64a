"""Valid calls of cumulative sums and products, and of counting."""

from .. import call, floats, ints

CALLS = {
    **{
        name: call(floats(64, 3, 4), axis=1, exclusive=False, reverse=True)
        for name in ("Cumprod", "Cumsum")
    },
    "Bincount": call(ints(2, 3, below=5), floats(2, 3), size=4),
    "DenseBincount": call(ints(2, 3, below=5), None, size=4, binary_output=False),
}
