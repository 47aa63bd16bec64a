"""Override an existing gradient for a block and for the process; restore it."""

import plugrad as pg


def pass_through(dy: pg.Tensor, x: pg.Tensor) -> pg.Tensor:
    """Return ``dy`` where ``x`` is between -1 and 1, else 0 (Hubara et al., 2016)."""
    return pg.where(pg.abs(x) <= 1, dy, 0.0)


x = pg.asarray([-3.0, -0.5, 0.5])
total = lambda x: pg.sum(pg.sign(x))
print(pg.grad(total)(x).tolist())  # [0.0, 0.0, 0.0]

# For a block, in this thread. Blocks nest; the inner one wins.
with pg.override_gradient("Sign", x=pass_through):
    print(pg.grad(total)(x).tolist())  # [0.0, 1.0, 1.0]
    with pg.override_gradient("Sign", x=lambda dy: -dy):
        print(pg.grad(total)(x).tolist())  # [-1.0, -1.0, -1.0]

# plugrad chooses the gradient when the op runs, not when you call the pullback.
with pg.override_gradient("Sign", x=pass_through):
    value, pullback = pg.vjp(total, x)
print(pullback(1.0)[0].tolist())  # [0.0, 1.0, 1.0]

# For the process, until you unregister it.
pg.register_gradient("Sign", x=pass_through)
print(pg.grad(total)(x).tolist())  # [0.0, 1.0, 1.0]
vjp = pg.get_gradient("Sign")["x"]
print(vjp and vjp.owner)  # user
pg.unregister_gradient("Sign")
print(pg.grad(total)(x).tolist())  # [0.0, 0.0, 0.0]
