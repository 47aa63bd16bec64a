"""A custom op: a moving average, composed of other ops."""

import plugrad as pg


def moving_average(x: pg.Tensor, /, *, window: int) -> pg.Tensor:
    """Return the means of ``window`` adjacent elements along the last axis."""
    x = pg.asarray(x)
    if not x.shape or not 1 <= window <= x.shape[-1]:
        raise ValueError(
            f"moving_average: window {window} does not fit shape {x.shape}; it must be "
            "from 1 to the size of the last axis"
        )
    size = x.shape[-1] - window + 1
    return pg.add_n([x[..., i : i + size] for i in range(window)]) / window


x = pg.asarray([1.0, 2.0, 6.0, 1.0])
print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]

energy = lambda x: pg.sum(pg.square(moving_average(x, window=2)))
print(pg.grad(energy)(x).tolist())  # [1.5, 5.5, 7.5, 3.5]
