"""An existing gradient overridden: for a block, for the process, and put back."""

import plugrad as pg


def pass_through(dy: pg.Tensor, x: pg.Tensor) -> pg.Tensor:
    """Treat a sign as its argument where that is from -1 to 1 (Hubara et al., 2016)."""
    return pg.where(pg.abs(x) <= 1, dy, 0.0)


x = pg.asarray([-3.0, -0.5, 0.5])
total = lambda x: pg.sum(pg.sign(x))
print(pg.grad(total)(x).tolist())  # [0.0, 0.0, 0.0]

# For a block, in this thread. Blocks nest, and the inner one wins.
with pg.override_gradient("Sign", x=pass_through):
    print(pg.grad(total)(x).tolist())  # [0.0, 1.0, 1.0]
    with pg.override_gradient("Sign", x=lambda dy: -dy):
        print(pg.grad(total)(x).tolist())  # [-1.0, -1.0, -1.0]

# Which gradient it is, is decided when the op runs, not when it is pulled back.
with pg.override_gradient("Sign", x=pass_through):
    value, pullback = pg.vjp(total, x)
print(pullback(1.0)[0].tolist())  # [0.0, 1.0, 1.0]

# For the process, until it is put back.
pg.register_gradient("Sign", x=pass_through)
print(pg.grad(total)(x).tolist())  # [0.0, 1.0, 1.0]
rule = pg.get_gradient("Sign")["x"]
print(rule and rule.owner)  # user
pg.unregister_gradient("Sign")
print(pg.grad(total)(x).tolist())  # [0.0, 0.0, 0.0]
