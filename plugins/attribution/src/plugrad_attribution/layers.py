"""Affine layers, as rules see them: ``y = f(x, w) + b``.

A layer of a model is one kernel run, or two with a bias, or more with reshapes. This
module finds them by patterns, and passes rules an object that does not depend on the
kind of the layer. Rules call its ``forward`` and ``backward`` with other weights and
inputs.

Contents: ``Layer``; the kinds of layers, each with its kernels; the first layer of a
model.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Kernel, Tensor

# A key in the tables of override_gradient and use_gradients.
Target = str | Callable[..., Any] | Kernel | plugin.Pattern
Functions = Mapping[str, Callable[..., Any] | None]
Table = dict[Target, Functions | None]  # None: the kernel is decomposed

_KERNELS = plugin.contracts()


class Kind(NamedTuple):
    """The functions of a kind of layer, without the bias.

    ``forward`` takes input and weights; ``backward``, its gradient with respect to the
    input, takes a cotangent and weights.
    """

    forward: Callable[[Tensor, Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


class Layer(NamedTuple):
    """A run of an affine layer, ``y = forward(x, w) + b``, as rules see it.

    Attributes:
        x: The input.
        w: The weights: a filter or a matrix.
        b: The bias; None if there is none.
        y: The result.
        forward: The linear function of input and weights, without the bias.
        backward: Its gradient with respect to the input: a function of a cotangent of
            the result and of weights.

    """

    x: Tensor
    w: Tensor
    b: Tensor | None
    y: Tensor
    forward: Callable[[Tensor, Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], Tensor]


# A rule takes the cotangent of the result, and returns that of the input.
Rule = Callable[[Tensor, Layer], Tensor]


def _run(kernel: str, *inputs: Tensor, **attrs: Any) -> Tensor:
    found: Tensor = plugin.run(_KERNELS[kernel], *inputs, **attrs)
    return found


# --- convolutions ----------------------------------------------------------------

# For each kernel, the kernel that computes its gradient with respect to the input.
BACKWARD = {
    "Conv2D": "Conv2DBackpropInput",
    "Conv2DBackpropInput": "Conv2D",
    "Conv3D": "Conv3DBackpropInputV2",
    "Conv3DBackpropInputV2": "Conv3D",
    "DepthwiseConv2dNative": "DepthwiseConv2dNativeBackpropInput",
}


def convolution(kernel: str, geometry: Any) -> Kind:
    """Return the kind of a convolution kernel."""
    back = BACKWARD[kernel]
    return Kind(
        lambda x, w: _run(kernel, x, w, geometry=geometry),
        lambda c, w: _run(back, c, w, geometry=geometry),
    )


def _conv2d_bias(x: Tensor, filter: Tensor, bias: Tensor) -> Tensor:
    return pg.conv2d(x, filter) + bias


def _conv3d_bias(x: Tensor, filter: Tensor, bias: Tensor) -> Tensor:
    return pg.conv3d(x, filter) + bias


def _depthwise_conv2d_bias(x: Tensor, filter: Tensor, bias: Tensor) -> Tensor:
    return pg.depthwise_conv2d(x, filter) + bias


def _conv2d_transpose_bias(x: Tensor, filter: Tensor, bias: Tensor) -> Tensor:
    return pg.conv2d_transpose(x, filter, (1, 6, 6, 4)) + bias


def is_bias(x: Tensor, w: Tensor, b: Tensor) -> bool:
    """Return whether an operand of a sum is a bias, rather than a second branch.

    With one example, a branch may have the shape of a bias; see ``applied``.
    """
    return b.ndim <= 1 or all(size == 1 for size in b.shape[:-1])


def applied(rule: Rule, c: Tensor, layer: Layer, b_tracked: bool) -> Tensor:
    """Apply a rule; treat a bias that depends on the input as a second branch."""
    if b_tracked and layer.b is not None:
        layer = layer._replace(b=None, y=layer.y - layer.b)
    return rule(c, layer)


@functools.cache
def biased_convolutions() -> dict[str, plugin.Pattern]:
    """Return the patterns of a convolution and a bias, by the name of the kernel."""
    examples = {
        "Conv2D": (_conv2d_bias, (1, 4, 4, 2), (3, 3, 2, 4), (4,)),
        "Conv3D": (_conv3d_bias, (1, 4, 4, 4, 2), (2, 2, 2, 2, 4), (4,)),
        "DepthwiseConv2dNative": (
            _depthwise_conv2d_bias,
            (1, 4, 4, 2),
            (3, 3, 2, 1),
            (2,),
        ),
        "Conv2DBackpropInput": (
            _conv2d_transpose_bias,
            (1, 4, 4, 2),
            (3, 3, 4, 2),
            (4,),
        ),
    }
    return {
        kernel: plugin.Pattern(
            f, shapes, name=f"attribution.{f.__name__.strip('_')}", fits=is_bias
        )
        for kernel, (f, *shapes) in examples.items()
    }


def convolutions(rule: Rule) -> Table:
    """Return gradients that apply a rule to all convolutions."""
    table: Table = {}
    for kernel, pattern in biased_convolutions().items():
        name = _KERNELS[kernel].inputs[0]
        table[kernel] = {name: _plain_gradient(kernel, name, rule)}
        table[pattern] = {"x": _biased_gradient(kernel, rule)}
    return table


def _plain_gradient(kernel: str, name: str, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of a convolution without a bias."""
    if name == "x":
        return lambda dy, x, filter, y, geometry: rule(
            dy, Layer(x, filter, None, y, *convolution(kernel, geometry))
        )
    # The input of a transposed convolution is called dy, and its output dx.
    return lambda c, dy, filter, dx, geometry: rule(
        c, Layer(dy, filter, None, dx, *convolution(kernel, geometry))
    )


def _biased_gradient(kernel: str, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of a convolution with a bias."""
    return lambda dy, x, filter, bias, y, geometry, bias_tracked: applied(
        rule,
        dy,
        Layer(x, filter, bias, y, *convolution(kernel, geometry)),
        bias_tracked,
    )


# --- products --------------------------------------------------------------------


def product(transpose_a: bool, transpose_b: bool) -> Kind:
    """Return the kind of ``x @ w``; the flags transpose ``x`` and ``w`` first."""

    def backward(c: Tensor, w: Tensor) -> Tensor:
        if transpose_a:
            return pg.matmul(w, c, transpose_a=transpose_b, transpose_b=True)
        return pg.matmul(c, w, transpose_b=not transpose_b)

    forward = functools.partial(
        pg.matmul, transpose_a=transpose_a, transpose_b=transpose_b
    )
    return Kind(forward, backward)


def _left_kind(transpose_a: bool, transpose_b: bool) -> Kind:
    """Return the kind of a ``BatchMatMul`` whose left operand is the layer's input."""

    def backward(c: Tensor, w: Tensor) -> Tensor:
        if transpose_a:
            return _batch_matmul(w, c, transpose_b, True)
        return _batch_matmul(c, w, False, not transpose_b)

    return Kind(lambda x, w: _batch_matmul(x, w, transpose_a, transpose_b), backward)


def _right_kind(transpose_a: bool, transpose_b: bool) -> Kind:
    """Return the kind of a ``BatchMatMul`` whose right operand is the layer's input."""

    def backward(c: Tensor, w: Tensor) -> Tensor:
        if transpose_b:
            return _batch_matmul(c, w, True, transpose_a)
        return _batch_matmul(w, c, not transpose_a, False)

    return Kind(lambda x, w: _batch_matmul(w, x, transpose_a, transpose_b), backward)


def _batch_matmul(a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    return _run("BatchMatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _dense(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return x @ w + b


@functools.cache
def dense() -> plugin.Pattern:
    """Return the pattern of a product and a bias."""
    vector = ((3,), (3, 4), (4,))
    matrix = ((2, 3), (3, 4), (4,))
    more = ((2, 2, 3), (3, 4), (4,))
    name = "attribution.dense"
    return plugin.Pattern(_dense, vector, matrix, more, name=name, fits=_is_dense)


def _is_dense(x: Tensor, w: Tensor, b: Tensor) -> bool:
    """Return whether ``b`` is a bias rather than, for example, an attention mask."""
    return w.ndim <= 2 and is_bias(x, w, b)


def _to_weights(c: Tensor, x: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """Return the gradient of a product with respect to a matrix ``w``."""
    rows = pg.matrix_transpose(x) if transpose_a else pg.reshape(x, (-1, x.shape[-1]))
    columns = pg.reshape(c, (rows.shape[0], -1))
    if transpose_b:
        return pg.matmul(columns, rows, transpose_a=True)
    return pg.matmul(rows, columns, transpose_a=True)


def products(rule: Rule, two_input_rule: Callable[..., Tensor]) -> Table:
    """Return gradients that apply a rule to all products with weights.

    Args:
        rule: The rule for products in which only one operand depends on the input.
        two_input_rule: The gradient of a product of two tensors that both depend on the
            input, such as queries and keys: a function of cotangent, result and
            ``original``.

    """

    def operand_gradient(x: str, w: str, kind: Callable[[bool, bool], Kind]) -> Any:
        def gradient(dy: Tensor, original: Any, **given: Any) -> Tensor:
            if given[f"{w}_tracked"]:
                return two_input_rule(dy, given["y"], original)
            layer = kind(given["transpose_a"], given["transpose_b"])
            return rule(dy, Layer(given[x], given[w], None, given["y"], *layer))

        names = ["a", "b", "y", "transpose_a", "transpose_b"]
        return named(gradient, ["dy", *names, f"{w}_tracked", "original"])

    def with_bias(dy: Tensor, **given: Any) -> Tensor:
        x, w, b, y = [given[name] for name in ("x", "w", "b", "y")]
        kind = product(given["transpose_a"], given["transpose_b"])
        if given["w_tracked"]:
            return two_input_rule(dy, y, lambda c: kind.backward(c, w))
        return applied(rule, dy, Layer(x, w, b, y, *kind), given["b_tracked"])

    def weights_gradient(dy: Tensor, original: Any, **given: Any) -> Tensor:
        if not given["x_tracked"]:
            return original(dy)
        to_weights = lambda c: _to_weights(
            c, given["x"], given["transpose_a"], given["transpose_b"]
        )
        return two_input_rule(dy, given["y"], to_weights)

    names = "dy", "x", "w", "b", "y", "transpose_a", "transpose_b"
    dense_rules = {
        "x": named(with_bias, [*names, "w_tracked", "b_tracked"]),
        "w": named(weights_gradient, [*names, "x_tracked", "original"]),
    }
    left = operand_gradient("a", "b", _left_kind)
    right = operand_gradient("b", "a", _right_kind)
    return {
        "BatchMatMul": {"a": left, "b": right},
        dense(): dense_rules,
        "BlockQuantizedMatMul": None,  # decomposed: the weights are unpacked first
        "MixedMatMul": None,  # decomposed: the weights are converted first
    }


# --- the first layer -------------------------------------------------------------

# An identity that marks the tensor whose relevance is requested.
INPUT = Kernel("plugrad_attribution.Input(x: floating) -> y", out=plugin.same)
plugin.gradients(INPUT, x=lambda dy: dy)
plugin.decomposition(INPUT)(lambda x: pg.positive(x))


def marked(x: Tensor) -> Tensor:
    """Return ``x``, marked as the input of the model."""
    found: Tensor = plugin.run(INPUT, x)
    return found


def mark_gradient() -> Table:
    """Return the gradient of the mark: it turns relevance over value into relevance."""

    def gradient(dy: Tensor, x: Tensor) -> Tensor:
        record_route(INPUT.name)
        return dy * x

    return {INPUT: {"x": gradient}}


Routes = set[str]
_routes: contextvars.ContextVar[Routes | None] = contextvars.ContextVar(
    "routes", default=None
)


def record_route(name: str) -> None:
    """Record how relevance reaches the input: through ``INPUT`` or a first layer."""
    routes = _routes.get()
    if routes is not None:
        routes.add(name)


@contextlib.contextmanager
def recording_routes() -> Iterator[Routes]:
    """Collect the names that are passed to ``record_route`` inside this block."""
    routes: Routes = set()
    token = _routes.set(routes)
    try:
        yield routes
    finally:
        _routes.reset(token)


def gives_relevance(rule: Rule) -> bool:
    """Return whether a rule returns relevance rather than relevance over value."""
    return bool(getattr(rule, "gives_relevance", False))


def over_value(rule: Rule) -> Rule:
    """Return a rule that returns relevance over value."""
    if not gives_relevance(rule):
        return rule

    def divided(c: Tensor, layer: Layer) -> Tensor:
        is_zero = layer.x == 0
        found = rule(c, layer) / pg.where(is_zero, 1.0, layer.x)
        return pg.where(is_zero, 0.0, found)

    return divided


def named(function: Callable[..., Any], parameters: list[str]) -> Callable[..., Any]:
    """Return ``function`` with a signature that has these parameters.

    plugrad passes the cotangents by position and all other parameters by keyword. It
    reads the names of a gradient function's parameters to know what to save for it.
    """
    found: Any = functools.partial(function)  # its signature can be set
    found.__signature__ = _signature(*parameters)
    return found


@functools.cache
def _signature(*parameters: str) -> inspect.Signature:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(n, kind) for n in parameters])
