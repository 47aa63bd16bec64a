"""A program that uses the installed plugin."""

import plugrad as pg

with pg.use_backend("cpu"):
    print(pg.softmax([0.0, 0.0]).tolist())  # [0.5, 0.5]
    kernel = pg.get_kernel("Softmax", "cpu")
    print(kernel and kernel.__module__)  # guide_plugin

x = pg.asarray([-1.0, 2.0, 3.0])
score = lambda x: pg.sum(pg.relu(x) * pg.asarray([1.0, 1.0, -1.0]))
print(pg.grad(score)(x).tolist())  # [0.0, 1.0, -1.0]
with pg.use_gradients("guided_relu"):
    print(pg.grad(score)(x).tolist())  # [0.0, 1.0, 0.0]
