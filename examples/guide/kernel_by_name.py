"""Custom ops that run a kernel: a kernel of the core, and a new one."""

import plugrad as pg
from plugrad.plugin import Kernel, decomposition, run, same

# --- run a kernel of the core by its name ----------------------------------------


def moving_average(x: pg.Tensor, /, *, window: int) -> pg.Tensor:
    """Return the means of ``window`` adjacent elements of a vector."""
    image = pg.reshape(x, (1, 1, -1, 1))  # [batch, height, width, channels]
    attributes = {"filter_size": (1, window), "strides": 1, "pad": "valid"}
    y = pg.run_kernel("AvgPool", [image], attributes)
    return pg.reshape(y, (-1,))


x = pg.asarray([1.0, 2.0, 6.0, 1.0])
print(moving_average(x, window=2).tolist())  # [1.5, 4.0, 3.5]

energy = lambda x: pg.sum(pg.square(moving_average(x, window=2)))
print(pg.grad(energy)(x).tolist())  # [1.5, 5.5, 7.5, 3.5]

# --- declare a kernel and run it -------------------------------------------------

SWISH = Kernel("guide.Swish(x; beta)", out=same, op="swish")


def swish(x: pg.Tensor, /, *, beta: float = 1.0) -> pg.Tensor:
    """Return ``x · σ(beta x)`` (Ramachandran et al., 2017)."""
    return run(SWISH, pg.asarray(x), beta=float(beta))


@decomposition(SWISH)
def _(x: pg.Tensor, *, beta: float) -> pg.Tensor:
    return x * pg.sigmoid(beta * x)


# No backend implements it yet: plugrad runs and differentiates the decomposition.
print(swish(pg.asarray([-1000.0, 0.0, 1000.0])).tolist())  # [-0.0, 0.0, 1000.0]
print(pg.grad(pg.grad(swish))(0.0).item())  # 0.5
