"""The first layer of a model: the layer that reads the input, perhaps rearranged.

Rules such as flat and box are for this layer alone. It is found by patterns that begin
at the marked input. A model may rearrange its input first: pad it, reshape it, or
permute its axes.

Contents: rearrangements of the input; the paths from the input to a layer; the
gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Tensor

from .layers import (
    Kind,
    Layer,
    Rule,
    Table,
    applied,
    convolution,
    gives_relevance,
    is_bias,
    marked,
    named,
    product,
    record_route,
)


def _padded(x: Tensor) -> Tensor:
    return pg.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))


def _channels_last(x: Tensor) -> Tensor:
    return pg.permute_dims(x, (0, 2, 3, 1))


# Rearrangements of an input before the first layer (permutation, padding). Each row:
# the attribute names of the kernels, an equivalent function, and the shape of an
# example image.
REARRANGEMENTS: list[
    tuple[tuple[str, ...], Callable[[Tensor], Tensor], tuple[int, ...]]
] = [
    ((), lambda x: x, (1, 4, 4, 2)),
    (("axes",), _channels_last, (1, 2, 4, 4)),
    (("paddings",), _padded, (1, 4, 4, 2)),
    (("axes", "paddings"), lambda x: _padded(_channels_last(x)), (1, 2, 4, 4)),
]


def rearranged(x: Tensor, attributes: Mapping[str, Any]) -> Tensor:
    """Return an input as a model rearranged it, given the kernels' attributes."""
    if "axes" in attributes:
        x = pg.permute_dims(x, attributes["axes"])
    if "paddings" in attributes:
        x = pg.pad(x, attributes["paddings"])
    if "shape" in attributes:
        x = pg.reshape(x, attributes["shape"])
    return x


class Entry(NamedTuple):
    """A path from the input of a model to its first layer.

    Attributes:
        pattern: The pattern of the marked input, its rearrangement, and the layer.
        rearranged_by: The attribute names of the kernels that rearrange the input.
        kind: A function of the attributes of a run that returns the kind of the layer.

    """

    pattern: plugin.Pattern
    rearranged_by: tuple[str, ...]
    kind: Callable[[Mapping[str, Any]], Kind]


@functools.cache
def entries() -> list[Entry]:
    """Return the paths from a marked input to a convolution or a product."""
    found = []
    for rearranged_by, rearrange, shape in REARRANGEMENTS:
        image = [(shape, (3, 3, 2, 4), (4,))]
        found += _entries("first_conv2d", _conv2d, rearrange, image, rearranged_by)
        image = [(shape, (3, 3, 2, 1), (2,))]
        found += _entries(
            "first_depthwise", _depthwise, rearrange, image, rearranged_by
        )
    rows = [((2, 3), (3, 4), (4,)), ((3,), (3, 4), (4,)), ((2, 2, 3), (3, 4), (4,))]
    found += _entries("first_dense", _product, lambda x: x, rows, ())
    flat = [((2, 2, 3), (6, 4), (4,))]
    return found + _entries("first_flat", _product, _flattened, flat, ("shape",))


class Family(NamedTuple):
    """An op that can be a first layer, and the function that returns its ``Kind``."""

    op: Callable[[Tensor, Tensor], Tensor]
    kind: Callable[[Mapping[str, Any]], Kind]


_conv2d = Family(pg.conv2d, lambda given: convolution("Conv2D", given["geometry"]))
_depthwise = Family(
    pg.depthwise_conv2d,
    lambda given: convolution("DepthwiseConv2dNative", given["geometry"]),
)
_product = Family(
    pg.matmul, lambda given: product(given["transpose_a"], given["transpose_b"])
)


def _flattened(x: Tensor) -> Tensor:
    return pg.reshape(x, (2, -1))


def _entries(
    name: str,
    family: Family,
    rearrange: Callable[[Tensor], Tensor],
    shapes: Sequence[tuple[tuple[int, ...], ...]],
    rearranged_by: tuple[str, ...],
) -> list[Entry]:
    """Return the entries for a layer with a bias and for one without."""

    def with_bias(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return family.op(rearrange(marked(x)), w) + b

    def without_bias(x: Tensor, w: Tensor) -> Tensor:
        return family.op(rearrange(marked(x)), w)

    name = f"attribution.{name}"
    long = plugin.Pattern(with_bias, *shapes, name=name, fits=is_bias)
    short = plugin.Pattern(without_bias, *[s[:2] for s in shapes], name=f"{name}_plain")
    return [
        Entry(long, rearranged_by, family.kind),
        Entry(short, rearranged_by, family.kind),
    ]


def first_layers(rule: Rule) -> Table:
    """Return gradients that apply a rule to the layers that read a marked input."""
    return {entry.pattern: {"x": _entry_gradient(entry, rule)} for entry in entries()}


def _entry_gradient(entry: Entry, rule: Rule) -> Callable[..., Tensor]:
    """Return the gradient of an entry; like that of ``INPUT``, it returns relevance."""

    def gradient(dy: Tensor, x: Tensor, w: Tensor, y: Tensor, **given: Any) -> Tensor:
        record_route(entry.pattern.name)
        b = given.get("b")
        values = {name: given[name] for name in entry.rearranged_by}
        at_layer, back = pg.vjp(lambda x: rearranged(x, values), x)
        layer = Layer(at_layer, w, b, y, *entry.kind(given))
        found = applied(rule, dy, layer, given.get("b_tracked", False))
        if not gives_relevance(rule):
            found = found * at_layer
        return back(found)[0]

    attributes = [
        n
        for n in entry.pattern.attributes
        if n in _KIND_ATTRIBUTES or n in entry.rearranged_by
    ]
    is_branch = ["b_tracked"] if "b" in entry.pattern.inputs else []
    inputs = entry.pattern.inputs
    return named(gradient, ["dy", *inputs, "y", *attributes, *is_branch])


# The attributes that ``Entry.kind`` reads.
_KIND_ATTRIBUTES = ("geometry", "transpose_a", "transpose_b")
