"""The gradient registry: the gradients in force, and their owners."""

import plugrad as pg

with pg.use_backend("cpu"):
    for name, vjp in pg.get_gradient("Sqrt").items():
        print(name, vjp and vjp.owner)  # x plugrad

    with pg.override_gradient("Sqrt", x=lambda dy: dy):
        for name, vjp in pg.get_gradient("Sqrt").items():
            print(name, vjp and vjp.owner)  # x user
