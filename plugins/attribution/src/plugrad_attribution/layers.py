"""Affine layers, as rules see them: ``y = f(x, w) + b``.

A layer of a model is one kernel run, or two with a bias, or more with reshapes. This
module finds them by patterns, and gives rules an object that does not depend on the
kind of the layer. Rules call its ``forward`` and ``backward`` with other weights and
inputs.

Map: ``Layer``; the kinds of layers, each with its kernels; the first layer of a model.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Kernel, Tensor

# What override_gradient and use_gradients take as a key.
Target = str | Callable[..., Any] | Kernel | plugin.Pattern
Functions = Mapping[str, Callable[..., Any] | None]
Table = dict[Target, Functions]

_KERNELS = plugin.contracts()


class Kind(NamedTuple):
    """What layers of a kind compute, without the bias: ``forward``, and its gradient.

    ``forward`` takes input and weights; ``backward`` takes a cotangent and weights.
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

# For each kernel, the kernel of its gradient with respect to the input.
BACKWARD = {
    "Conv2D": "Conv2DBackpropInput",
    "Conv2DBackpropInput": "Conv2D",
    "Conv3D": "Conv3DBackpropInputV2",
    "Conv3DBackpropInputV2": "Conv3D",
    "DepthwiseConv2dNative": "DepthwiseConv2dNativeBackpropInput",
}


def convolution(kernel: str, geometry: Any) -> Kind:
    """Return what a kernel of a convolution computes."""
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
    """Return whether an operand of a sum is a bias, rather than a second branch."""
    return b.ndim <= 1 or all(size == 1 for size in b.shape[:-1])


@functools.cache
def biased_convolutions() -> dict[str, plugin.Pattern]:
    """Return the pattern of a convolution and a bias, by the kernel."""
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
        kernel: plugin.Pattern(f, shapes, name=f.__name__.strip("_"), fits=is_bias)
        for kernel, (f, *shapes) in examples.items()
    }


def convolutions(rule: Rule) -> Table:
    """Return gradients that apply a rule to all convolutions."""
    table: Table = {}
    for kernel, pattern in biased_convolutions().items():
        name = _KERNELS[kernel].inputs[0]
        table[kernel] = {name: _of_kernel(kernel, name, rule)}
        table[pattern] = {"x": _of_pattern(kernel, rule)}
    return table


def _of_kernel(kernel: str, name: str, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of a convolution without a bias."""
    if name == "x":
        return lambda dy, x, filter, y, geometry: rule(
            dy, Layer(x, filter, None, y, *convolution(kernel, geometry))
        )
    # The input of a transposed convolution is called dy, and its output dx.
    return lambda c, dy, filter, dx, geometry: rule(
        c, Layer(dy, filter, None, dx, *convolution(kernel, geometry))
    )


def _of_pattern(kernel: str, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of a convolution with a bias."""
    return lambda dy, x, filter, bias, y, geometry: rule(
        dy, Layer(x, filter, bias, y, *convolution(kernel, geometry))
    )


# --- products --------------------------------------------------------------------


def product(transpose_b: bool) -> Kind:
    """Return the product ``x @ w``, or ``x @ wᵀ``."""
    return Kind(
        lambda x, w: pg.matmul(x, w, transpose_b=transpose_b),
        lambda c, w: pg.matmul(c, w, transpose_b=not transpose_b),
    )


def _left(transpose_a: bool, transpose_b: bool) -> Kind:
    """Return the product whose input is the left operand of ``BatchMatMul``."""

    def backward(c: Tensor, w: Tensor) -> Tensor:
        if transpose_a:
            return _batch_matmul(w, c, transpose_b, True)
        return _batch_matmul(c, w, False, not transpose_b)

    return Kind(lambda x, w: _batch_matmul(x, w, transpose_a, transpose_b), backward)


def _right(transpose_a: bool, transpose_b: bool) -> Kind:
    """Return the product whose input is the right operand of ``BatchMatMul``."""

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
    return plugin.Pattern(_dense, vector, matrix, more, name="dense", fits=is_bias)


def products(rule: Rule, of_two: Callable[..., Tensor]) -> Table:
    """Return gradients that apply a rule to all products with weights.

    Args:
        rule: The rule.
        of_two: The gradient of a product of two tensors that both depend on the input,
            such as queries and keys: a function of cotangent, result and ``original``.

    """

    def of_operand(x: str, w: str, kind: Callable[[bool, bool], Kind]) -> Any:
        def gradient(dy: Tensor, original: Any, **given: Any) -> Tensor:
            if given[f"{w}_tracked"]:
                return of_two(dy, given["y"], original)
            layer = kind(given["transpose_a"], given["transpose_b"])
            return rule(dy, Layer(given[x], given[w], None, given["y"], *layer))

        names = ["a", "b", "y", "transpose_a", "transpose_b"]
        return named(gradient, ["dy", *names, f"{w}_tracked", "original"])

    def with_bias(
        dy: Tensor,
        x: Tensor,
        w: Tensor,
        b: Tensor,
        y: Tensor,
        transpose_b: bool,
        w_tracked: bool,
        original: Callable[[Tensor], Tensor],
    ) -> Tensor:
        if w_tracked:
            return of_two(dy, y, original)
        return rule(dy, Layer(x, w, b, y, *product(transpose_b)))

    operands = {"a": of_operand("a", "b", _left), "b": of_operand("b", "a", _right)}
    return {"BatchMatMul": operands, dense(): {"x": with_bias}}


# --- the first layer -------------------------------------------------------------

# Marks the tensor whose relevance is asked for; it computes nothing.
INPUT = Kernel("plugrad_attribution.Input(x: floating) -> y", out=plugin.same)
plugin.gradients(INPUT, x=lambda dy: dy)
plugin.decomposition(INPUT)(lambda x: pg.positive(x))


def marked(x: Tensor) -> Tensor:
    """Return ``x``, marked as the input of the model."""
    found: Tensor = plugin.run(INPUT, x)
    return found


def of_input() -> Table:
    """Return the gradient of the mark: it turns relevance over value into relevance."""
    return {INPUT: {"x": lambda dy, x: dy * x}}


def _padded(x: Tensor) -> Tensor:
    return pg.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _channels_last(x: Tensor) -> Tensor:
    return pg.permute_dims(x, (0, 2, 3, 1))


# How models move an input before their first layer: the names of the attributes of the
# moves, a function that moves an image, and the shape of the image.
MOVES: list[tuple[tuple[str, ...], Callable[[Tensor], Tensor], tuple[int, ...]]] = [
    ((), lambda x: x, (1, 4, 4, 2)),
    (("axes",), _channels_last, (1, 2, 4, 4)),
    (("paddings",), _padded, (1, 4, 4, 2)),
    (("axes", "paddings"), lambda x: _padded(_channels_last(x)), (1, 2, 4, 4)),
]


def moved(x: Tensor, attributes: Mapping[str, Any]) -> Tensor:
    """Return an input as a model has moved it, given the attributes of the moves."""
    if "axes" in attributes:
        x = pg.permute_dims(x, attributes["axes"])
    if "paddings" in attributes:
        x = pg.pad(x, attributes["paddings"])
    if "shape" in attributes:
        x = pg.reshape(x, attributes["shape"])
    return x


class Entry(NamedTuple):
    """A way from the input of a model to its first layer.

    Attributes:
        pattern: The marked input, what moves it, and the layer.
        moves: The names of the attributes of the moves.
        kind: The layer, given the attributes of the pattern.

    """

    pattern: plugin.Pattern
    moves: tuple[str, ...]
    kind: Callable[[Mapping[str, Any]], Kind]


@functools.cache
def entries() -> list[Entry]:
    """Return the ways from a marked input to a convolution or a product."""
    found = []
    for moves, move, shape in MOVES:
        image = [(shape, (3, 3, 2, 4), (4,))]
        found += _entries("first_conv2d", _conv2d, move, image, moves)
        image = [(shape, (3, 3, 2, 1), (2,))]
        found += _entries("first_depthwise", _depthwise, move, image, moves)
    rows = [((2, 3), (3, 4), (4,)), ((3,), (3, 4), (4,)), ((2, 2, 3), (3, 4), (4,))]
    found += _entries("first_dense", _product, lambda x: x, rows, ())
    flat = [((2, 2, 3), (6, 4), (4,))]
    return found + _entries("first_flat", _product, _flattened, flat, ("shape",))


class Family(NamedTuple):
    """An op of first layers, and what it is, given the attributes of a run."""

    op: Callable[[Tensor, Tensor], Tensor]
    kind: Callable[[Mapping[str, Any]], Kind]


_conv2d = Family(pg.conv2d, lambda given: convolution("Conv2D", given["geometry"]))
_depthwise = Family(
    pg.depthwise_conv2d,
    lambda given: convolution("DepthwiseConv2dNative", given["geometry"]),
)
_product = Family(pg.matmul, lambda given: product(given["transpose_b"]))


def _flattened(x: Tensor) -> Tensor:
    return pg.reshape(x, (2, -1))


def _entries(
    name: str,
    family: Family,
    move: Callable[[Tensor], Tensor],
    shapes: Sequence[tuple[tuple[int, ...], ...]],
    moves: tuple[str, ...],
) -> list[Entry]:
    """Return the entries with a bias and without."""

    def with_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return family.op(move(marked(x)), w) + b

    def without_bias(x: Tensor, w: Tensor) -> Tensor:
        return family.op(move(marked(x)), w)

    long = plugin.Pattern(with_bias, *shapes, name=name, fits=is_bias)
    short = plugin.Pattern(without_bias, *[s[:2] for s in shapes], name=f"{name}_plain")
    return [Entry(long, moves, family.kind), Entry(short, moves, family.kind)]


def first_layers(rule: Rule) -> Table:
    """Return gradients that apply a rule to the layers that read a marked input."""
    return {entry.pattern: {"x": _of_entry(entry, rule)} for entry in entries()}


def gives_relevance(rule: Rule) -> bool:
    """Return whether a rule returns relevance, and not relevance over value."""
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


def _of_entry(entry: Entry, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of an entry; it is relevance, as that of ``INPUT``."""

    def gradient(dy: Tensor, x: Tensor, w: Tensor, y: Tensor, **given: Any) -> Tensor:
        b = given.pop("b", None)
        moves = {name: given[name] for name in entry.moves}
        at_layer, back = pg.vjp(lambda x: moved(x, moves), x)
        found = rule(dy, Layer(at_layer, w, b, y, *entry.kind(given)))
        if not gives_relevance(rule):
            found = found * at_layer
        return back(found)[0]

    attributes = [n for n in entry.pattern.attributes if n in _READ or n in entry.moves]
    return named(gradient, ["dy", *entry.pattern.inputs, "y", *attributes])


_READ = ("geometry", "transpose_b")  # the attributes of layers


def named(function: Callable[..., Any], parameters: list[str]) -> Callable[..., Any]:
    """Return ``function`` with parameters of these names, which it takes by keyword.

    The first one is passed by position. plugrad reads the names of a gradient
    function to know what to save for it.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found: Any = functools.partial(function)  # its signature can be set
    found.__signature__ = inspect.Signature(
        [inspect.Parameter(n, kind) for n in parameters]
    )
    return found
