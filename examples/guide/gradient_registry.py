"""The gradient registry: the gradients in force, and their owners."""

import plugrad as pg

with pg.use_backend("cpu"):
    for name, vjp in pg.get_gradient("Softmax").items():
        print(name, vjp and vjp.owner)  # logits plugrad

    with pg.override_gradient("Softmax", logits=lambda dy: dy):
        for name, vjp in pg.get_gradient("Softmax").items():
            print(name, vjp and vjp.owner)  # logits user
