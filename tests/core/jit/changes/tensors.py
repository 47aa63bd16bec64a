"""Captured tensors that are replaced or assigned."""

import functools
from types import SimpleNamespace

import plugrad as pg

from .harness import module, no_change, pattern, sets_attr, sets_item

KIND = "captured tensors"


class Model:
    """An object with a tensor."""

    def __init__(self):
        self.w = pg.asarray([1.0, 2.0, 3.0])

    def __call__(self, x):
        return x * self.w


def tensor(scale=1.0):
    return pg.asarray([1.0, 2.0, 3.0]) * scale


@pattern(KIND)
def a_tensor_in_a_dict_is_replaced():
    params = {"w": tensor()}
    return lambda x: x * params["w"], *[
        sets_item(params, "w", tensor(scale)) for scale in (2.0, 3.0, 4.0)
    ]


@pattern(KIND)
def a_tensor_in_an_attribute_is_replaced():
    m = Model()
    return m, *[sets_attr(m, "w", tensor(scale)) for scale in (2.0, 3.0, 4.0)]


@pattern(KIND)
def a_tensor_in_a_cell_is_replaced():
    w = tensor()

    def f(x):
        return x * w

    def change():
        nonlocal w
        w = w * 2.0

    return f, change, change, change


@pattern(KIND)
def a_tensor_in_a_list_is_replaced():
    layers = [tensor(), tensor(2.0)]
    f = lambda x: functools.reduce(lambda y, w: y * w, layers, x)
    return f, sets_item(layers, 0, tensor(3.0)), layers.reverse, layers.pop


@pattern(KIND)
def a_tensor_in_a_global_is_replaced():
    m = module("""
        w = pg.asarray([1.0, 2.0, 3.0])

        def f(x):
            return x * w
    """)
    return m.f, sets_attr(m, "w", tensor(2.0)), sets_attr(m, "w", tensor(3.0))


@pattern(KIND)
def a_tensor_in_a_class_is_replaced():
    class Layer:
        w = tensor()

    m = Layer()
    return (
        lambda x: x * m.w,
        sets_attr(Layer, "w", tensor(2.0)),
        sets_attr(m, "w", tensor(3.0)),
    )


@pattern(KIND)
def a_tensor_in_a_default_is_replaced():
    def f(x, w=tensor()):  # noqa: B008
        return x * w

    return lambda x: f(x), sets_attr(f, "__defaults__", (tensor(2.0),)), no_change


@pattern(KIND)
def a_tensor_is_replaced_by_one_of_another_shape():
    params = {"w": tensor()}
    return (
        lambda x: pg.sum(x) * params["w"],
        sets_item(params, "w", pg.ones((2, 2))),
        sets_item(params, "w", tensor(3.0)),
    )


@pattern(KIND)
def a_tensor_is_replaced_by_one_of_another_dtype():
    params = {"w": tensor()}
    return lambda x: x * params["w"], sets_item(params, "w", pg.asarray([4, 5, 6]))


@pattern(KIND)
def a_tensor_is_replaced_by_a_number():
    params = {"w": tensor()}
    return (
        lambda x: x * params["w"],
        sets_item(params, "w", 3.0),
        sets_item(params, "w", tensor(2.0)),
    )


@pattern(KIND)
def a_tensor_is_replaced_by_none():
    m = Model()
    f = lambda x: x if m.w is None else x * m.w
    return f, sets_attr(m, "w", None), sets_attr(m, "w", tensor(2.0))


@pattern(KIND)
def two_tensors_become_one():
    a = tensor(2.0)
    b = tensor(3.0)
    params = {"a": a, "b": b}
    return (
        lambda x: (x * params["a"] if params["a"] is params["b"] else x) + params["b"],
        sets_item(params, "b", a),
        sets_item(params, "b", b),
    )


@pattern(KIND)
def a_copy_of_a_list_of_replaced_tensors_is_reversed():
    layers = [tensor(2.0), tensor(3.0)]
    model = SimpleNamespace(layers=layers)

    def replace():
        layers[0], layers[1] = tensor(4.0), tensor(5.0)

    def copy():
        model.layers = layers[:]

    def replace_in_both():
        layers[:] = [tensor(6.0), tensor(7.0)]
        model.layers[:] = layers

    return (
        lambda x: (x * model.layers[0] - 1.0) * model.layers[1],
        replace,
        copy,
        replace_in_both,
        lambda: model.layers.reverse(),
        replace_in_both,
        lambda: model.layers.reverse(),
    )


@pattern(KIND)
def two_tensors_swap_places():
    params = {"a": tensor(2.0), "b": tensor(3.0)}

    def swap():
        params["a"], params["b"] = params["b"], params["a"]

    return lambda x: x * params["a"] - params["b"], swap, swap, swap


@pattern(KIND)
def an_item_of_a_tensor_is_assigned():
    w = tensor()
    return lambda x: x * w, sets_item(w, 0, 5.0), sets_item(w, 1, 6.0)


@pattern(KIND)
def all_elements_of_a_tensor_are_assigned():
    w = tensor()
    return (
        lambda x: x * (w * 2.0),
        sets_item(w, ..., tensor(3.0)),
        sets_item(w, ..., 1.0),
    )


@pattern(KIND)
def a_tensor_is_changed_by_an_in_place_operator():
    params = {"w": tensor()}

    def change():
        params["w"] += 1.0

    return lambda x: x * params["w"], change, change, change


@pattern(KIND)
def a_folded_constant_is_assigned():
    w = tensor()
    f = lambda x: x * pg.sum(pg.exp(w * 0.5))
    return f, sets_item(w, 0, 5.0), sets_item(w, 0, 6.0)


@pattern(KIND)
def a_packed_weight_is_replaced():
    params = {"w": pg.ones((3, 4))}
    f = lambda x: pg.matmul(pg.stack([x, x]), params["w"])
    return (
        f,
        sets_item(params, "w", pg.ones((3, 4)) * 2.0),
        lambda: sets_item(params["w"], (0, 0), 7.0)(),
    )


@pattern(KIND)
def a_weight_that_the_call_updates():
    params = {"w": tensor()}

    def f(x):
        loss = lambda w: pg.sum((w - x) ** 2)
        value, gradient = pg.value_and_grad(loss)(params["w"])
        params["w"] = params["w"] - 0.1 * gradient
        return value

    return f, no_change, no_change


@pattern(KIND)
def an_item_that_the_call_assigns():
    w = tensor()

    def f(x):
        w[0] = w[0] + x[0]
        return x * w

    return f, no_change, no_change


@pattern(KIND)
def a_tensor_in_a_cell_that_the_call_replaces():
    total = pg.zeros(3)

    def f(x):
        nonlocal total
        total = total + x
        return total * 2.0

    return f, no_change, no_change


@pattern(KIND)
def a_tensor_in_a_list_that_the_call_replaces():
    window = [pg.zeros(3), pg.ones(3)]

    def f(x):
        window[0], window[1] = window[1], x
        return window[0] + window[1] * 2.0

    return f, no_change, no_change


@pattern(KIND)
def a_tensor_in_a_global_that_the_call_replaces():
    m = module("""
        total = pg.zeros(3)

        def f(x):
            global total
            total = total * 0.5 + x
            return total
    """)
    return m.f, no_change, no_change


@pattern(KIND)
def a_tensor_that_a_helper_of_the_call_replaces():
    m = Model()

    def observe(x):
        m.w = m.w * 0.9 + x * 0.1

    def f(x):
        observe(x)
        return x - m.w

    return f, no_change, no_change


@pattern(KIND)
def two_tensors_that_the_call_swaps():
    params = {"a": tensor(2.0), "b": tensor(3.0)}

    def f(x):
        params["a"], params["b"] = params["b"], params["a"]
        return x * params["a"] - params["b"]

    return f, no_change, no_change


@pattern(KIND)
def a_variable_and_a_tensor():
    v = pg.Variable([1.0, 2.0, 3.0])
    params = {"w": tensor()}

    def f(x):
        v.assign(v + x)
        return v * params["w"]

    return f, sets_item(params, "w", tensor(2.0)), lambda: v.assign([0.0, 0.0, 0.0])


@pattern(KIND)
def a_variable_is_replaced_by_another():
    box = {"v": pg.Variable([1.0, 2.0, 3.0])}
    other = pg.Variable([4.0, 5.0, 6.0])
    return (
        lambda x: x * box["v"],
        sets_item(box, "v", other),
        lambda: other.assign([7.0, 8.0, 9.0]),
    )


@pattern(KIND)
def a_tensor_is_captured_by_a_gradient():
    params = {"w": tensor()}
    f = pg.grad(lambda x: pg.sum(x * x * params["w"]))
    return f, sets_item(params, "w", tensor(2.0)), sets_item(params, "w", tensor(3.0))


@pattern(KIND)
def a_tensor_is_captured_by_vmap():
    params = {"w": pg.asarray(2.0)}
    f = pg.vmap(lambda x: x * params["w"])
    return (
        f,
        sets_item(params, "w", pg.asarray(3.0)),
        sets_item(params, "w", pg.asarray(4.0)),
    )


@pattern(KIND)
def a_tensor_is_captured_by_a_jitted_helper():
    params = {"w": tensor()}
    helper = pg.jit(lambda x: x * params["w"])
    return lambda x: helper(x) + 1.0, sets_item(params, "w", tensor(2.0))


@pattern(KIND)
def a_tensor_is_replaced_under_a_chosen_key():
    params = {"a": tensor(2.0), "b": tensor(3.0)}
    chosen = ["a"]
    return (
        lambda x: x * params[chosen[0]],
        sets_item(params, "a", tensor(4.0)),
        sets_item(chosen, 0, "b"),
        sets_item(params, "b", tensor(5.0)),
    )


@pattern(KIND)
def a_captured_tensor_is_returned():
    params = {"w": tensor()}
    return (
        lambda x: (x + 1.0, params["w"]),
        sets_item(params, "w", tensor(2.0)),
        lambda: sets_item(params["w"], 0, 9.0)(),
    )
