"""A custom gradient for a kernel that has none: the inverse of a matrix."""

import numpy as np
import plugrad as pg
from plugrad.plugin import Kernel, run, same

INVERSE = Kernel("guide.Inverse(x)", out=same)
pg.register_kernel(INVERSE, "cpu", np.linalg.inv)


def inverse(x: pg.Tensor, /) -> pg.Tensor:
    """Return the inverse of each matrix ``[..., n, n]``."""
    return run(INVERSE, pg.asarray(x))


def inverse_gradient(dy: pg.Tensor, y: pg.Tensor) -> pg.Tensor:
    """Return ``-yᵀ dy yᵀ``, because d(x⁻¹) = -x⁻¹ dx x⁻¹; ``y`` is the output."""
    t = pg.matrix_transpose(y)
    return -(t @ dy @ t)


with pg.use_backend("cpu"):
    x = pg.asarray([[2.0, 0.0], [0.0, 4.0]])
    total = lambda x: pg.sum(inverse(x))
    try:
        pg.grad(total)(x)
    except pg.GradientNotFound as error:
        print(type(error).__name__)  # GradientNotFound

    pg.register_gradient("guide.Inverse", x=inverse_gradient)
    print(pg.grad(total)(x).tolist())  # [[-0.25, -0.125], [-0.125, -0.0625]]

    # Gradients are composed of ops, so they have gradients: (1/x)'' = 2/x³
    reciprocal = lambda x: pg.sum(inverse(pg.reshape(x, (1, 1))))
    print(pg.grad(pg.grad(reciprocal))(2.0).item())  # 0.25

pg.unregister_gradient("guide.Inverse")
pg.unregister_kernel("guide.Inverse", "cpu")
