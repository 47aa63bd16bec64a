"""Two ops in OpenCL C: one from an expression, one from a whole kernel."""

import plugrad as pg
from plugrad.plugin import Spec
from plugrad_opencl import elementwise_kernel, source_kernel

# --- an elementwise kernel -------------------------------------------------------

swish = elementwise_kernel(
    "example.Swish(x; beta)",
    "y = x / (1 + exp(-beta * x))",
    gradients={
        "x": lambda dy, x, y, beta: (
            dy * (beta * y + pg.sigmoid(beta * x) * (1 - beta * y))
        )
    },
    decomposition=lambda x, *, beta: x * pg.sigmoid(beta * x),  # for other backends
)

# --- squared distances of all pairs of rows --------------------------------------

DISTANCES = """
__kernel void distances(__global const T *a, __global const T *b, __global T *y,
                        long y_size, long b_shape0, long a_shape1) {
  const long item = get_global_id(0);
  if (item >= y_size) return;  // OpenCL runs whole groups of items
  const long i = item / b_shape0, j = item % b_shape0;
  T total = 0;
  for (long k = 0; k < a_shape1; k++) {
    const T difference = a[i * a_shape1 + k] - b[j * a_shape1 + k];
    total += difference * difference;
  }
  y[item] = total;
}
"""

_distances = source_kernel(
    "example.Distances(a, b)",
    DISTANCES,
    out=lambda a, b: Spec((a.shape[0], b.shape[0]), a.dtype),
    gradients={
        "a": lambda dy, a, b: 2 * (pg.sum(dy, axis=1, keepdims=True) * a - dy @ b),
        "b": lambda dy, a, b: 2 * (pg.sum(dy.T, axis=1, keepdims=True) * b - dy.T @ a),
    },
)


def distances(a: pg.TensorLike, b: pg.TensorLike, /) -> pg.Tensor:
    """Return ``|a[i] - b[j]|**2`` for all rows i and j.

    The kernel does not check its inputs: it assumes that the rows of ``b`` are as long
    as those of ``a``. Therefore the op checks the shapes.
    """
    a = pg.asarray(a)
    b = pg.asarray(b)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1] or a.dtype != b.dtype:
        raise ValueError(
            f"distances: {a.dtype}{a.shape} and {b.dtype}{b.shape} do not fit; give "
            "two matrices of the same dtype, with rows of the same length"
        )
    return _distances(a, b)


# --- how to use them -------------------------------------------------------------

if __name__ == "__main__":
    pg.set_backend("opencl")
    x = pg.asarray([-1.0, 0.0, 2.0])
    print(pg.round(swish(x, beta=1.5) * 1000).tolist())  # [-182.0, 0.0, 1905.0]
    slope = pg.grad(lambda x: pg.sum(swish(x, beta=1.5)))(x)
    print(pg.round(slope * 1000).tolist())  # [-41.0, 500.0, 1088.0]

    a = pg.asarray([[0.0, 0.0], [3.0, 1.0]])
    b = pg.asarray([[1.0, 1.0]])
    print(distances(a, b).tolist())  # [[2.0], [4.0]]
    slope = pg.grad(lambda a: pg.sum(distances(a, b)))(a)
    print(slope.tolist())  # [[-2.0, -2.0], [4.0, 0.0]]

    pg.check_gradients(lambda x: swish(x, beta=1.5), x)  # first and second order
    pg.check_gradients(distances, a, b)

    with pg.use_backend("cpu"):  # runs the decomposition
        y = swish([-1.0, 0.0, 2.0], beta=1.5)
        print(pg.round(y * 1000).tolist())  # [-182.0, 0.0, 1905.0]
