"""A user's mistakes: mypy reports each with the error code in its line's comment."""

from __future__ import annotations

from collections.abc import Callable

import plugrad as pg
import plugrad.lineralg  # error: import-not-found
from plugrad.plugin import Backend, Runtime, hookimpl

x = pg.asarray([1.0, 2.0])
v = pg.Variable(x)


# --- names -----------------------------------------------------------------------

pg.misspelt(x)  # error: attr-defined
pg.linalg.svdd(x)  # error: attr-defined
pg.relu_(x)  # error: attr-defined
x.misspelt()  # error: attr-defined
v.misspelt()  # error: attr-defined
v.to("cpu")  # error: attr-defined
pg.__version__.misspelt  # error: attr-defined

# --- arguments of ops, methods and operators -------------------------------------

pg.sum(x, 0, None)  # error: call-arg
pg.sum(x, axes=0)  # error: call-arg
pg.relu(None)  # error: arg-type
x.sum(0, None)  # error: call-arg
x.sum(axis="0")  # error: arg-type
x.reshape("2")  # error: arg-type
x.clip(minimum=0)  # error: call-arg
x.relu(inplace=True)  # error: call-arg
x.pad([(1, 1)], mode="mirror")  # error: arg-type
x + None  # error: operator
None - x  # error: operator
v @ None  # error: operator
x < {}  # error: operator
x[0] = None  # error: assignment
x.shape = (2,)  # error: misc
number: float = x.sum()  # error: assignment
number = v + 1  # error: assignment
truth: bool = x == x  # error: assignment
parts: list[pg.Tensor] = x.unstack()  # error: assignment
pg.profile(text=1)  # error: call-arg

# --- derivatives -----------------------------------------------------------------


def loss(w: pg.Tensor, y: pg.Tensor, scale: float = 1.0) -> pg.Tensor:
    return pg.sum(w - y) * scale


pg.grad(loss)(x)  # error: call-overload
pg.grad(loss)(x, x, scale="1")  # error: call-overload
pg.grad(loss)(x, x, scal=1.0)  # error: call-overload
pg.grads(loss)("a", x)  # error: call-overload
pg.grad(pg.grad(loss))(x)  # error: call-overload
pg.grad(3)  # error: arg-type
value, gradient = pg.value_and_grad(loss)(x)  # error: call-overload
pg.value_and_grad(loss)(x, x)[0].misspelt()  # error: attr-defined
pg.value_and_grads(loss)(x, x)[0].misspelt()  # error: attr-defined
pg.vjp(loss, x)[0].misspelt()  # error: attr-defined arg-type
pg.jvp(loss, x, x)  # error: arg-type
pg.jvp(loss, [x, x], [x, x])[1].misspelt()  # error: attr-defined
pg.variable_grads(lambda: 3.0)  # error: arg-type return-value
pg.variable_grads(loss)  # error: arg-type
pg.variable_grads(lambda: x, [x])  # error: list-item
pg.jacobian(loss)(x)  # error: call-arg
pg.jacobian(loss, mode="backward")  # error: arg-type
pg.hessian(loss)("a", x)  # error: arg-type


@pg.custom_grad
def clipped(
    x: pg.Tensor, limit: int
) -> tuple[pg.Tensor, Callable[[pg.Tensor], pg.Tensor]]:
    return x, lambda dy: pg.clip(dy, -limit, limit)


clipped(x)  # error: call-arg
clipped(x, limit="1")  # error: arg-type
clipped(x, 1)[1](x)  # error: operator


@pg.custom_grad  # error: arg-type
def without_gradient(x: pg.Tensor) -> pg.Tensor:
    return x


@pg.use_backend("cpu")
def on_cpu(x: pg.Tensor) -> pg.Tensor:
    return x


on_cpu("a")  # error: arg-type


# --- plugins ---------------------------------------------------------------------


class NoArrays:
    def upload(self, values: object) -> object:
        return values


def open_backend() -> Runtime:
    return Runtime(arrays=NoArrays(), kernels={})  # error: arg-type


@hookimpl
def plugrad_backends() -> list[Backend]:
    return [Backend("custom", open=open_backend())]  # error: arg-type
