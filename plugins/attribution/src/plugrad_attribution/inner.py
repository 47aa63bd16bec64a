"""Methods that use intermediate values of a model: Grad-CAM, attribution patching.

Each value is identified by the name of the scope that computes it. The backward pass
visits the kernels in reverse order, so the first one that it visits in a scope has
computed the result of the scope.

Contents: results of scopes; ``grad_cam``; ``patching``.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Tensor, TensorLike

from .examples import Model, Target, checked, in_chunks, value_and_gradient
from .layers import Table, named
from .places import is_inside, names_of

MAX_CACHED_BLOCKS = 64  # one block for each set of scope names

# --- results of scopes -----------------------------------------------------------


class Result(NamedTuple):
    """The result of a scope, and the gradient of the value with respect to it."""

    y: Tensor
    dy: Tensor


_found: contextvars.ContextVar[dict[str, Result | None]] = contextvars.ContextVar(
    "results_of_scopes"
)


def _note(site: plugin.Site, y: Tensor | None, dy: Any) -> None:
    """Record a result if it is the first one of its scope in the backward pass."""
    found = _found.get()
    for pattern, earlier in found.items():
        if earlier is None and is_inside(site.scope, pattern):
            if y is None:
                raise ValueError(
                    f"the scope {pattern!r} ends with {site.kernel}, which has several "
                    "results; name a scope that ends with one"
                )
            found[pattern] = Result(y, dy)


def _noting_gradient(count: int, y: str | None) -> Callable[..., Any]:
    """Return a gradient function that records the result of its kernel.

    Args:
        count: The number of cotangents.
        y: The name of the output; None if there are several.

    """

    def gradient(*dys: Any, site: plugin.Site, original: Any, **given: Any) -> Any:
        _note(site, given[y] if y else None, dys[0])
        return original(*dys)

    cotangents = [f"cotangent{number}" for number in range(count)]
    return named(gradient, [*cotangents, *([y] if y else []), "site", "original"])


@functools.cache
def _table() -> Table:
    """Return gradients that record the results of all kernels."""
    table: Table = {
        op: {"x": _noting_gradient(1, "y")} for op in (pg.hard_swish, pg.hard_sigmoid)
    }
    for name, kernel in plugin.contracts().items():
        if kernel.fused or not kernel.gradient:
            continue
        count = 1 if kernel.variadic_outputs else len(kernel.outputs)
        is_single = count == 1 and not kernel.variadic_outputs
        rule = _noting_gradient(count, kernel.outputs[0] if is_single else None)
        inputs = [x for x, gradient in kernel.gradient.items() if gradient is not None]
        if inputs:
            table[name] = dict.fromkeys(inputs, rule)
    return table


@functools.lru_cache(MAX_CACHED_BLOCKS)
def _block(at: tuple[str, ...]) -> Any:
    """Return the overrides that record the results of some scopes."""
    return pg.use_gradients(_table(), where=at, innermost=True)


def results(
    name: str, f: Model, x: Tensor, target: Target, at: tuple[str, ...]
) -> tuple[Tensor, list[Result]]:
    """Return the values that are explained, and the results of scopes.

    Raises:
        ValueError: The value does not depend on a scope, or the result of a scope has
            no example axis.

    """
    found: dict[str, Result | None] = dict.fromkeys(at)
    token = _found.set(found)
    try:
        value, _ = _block(at)(value_and_gradient)(f, x, target)
    finally:
        _found.reset(token)
    listed = []
    for pattern, result in found.items():
        if result is None:
            raise ValueError(
                f"{name}: the value depends on no kernel in a scope {pattern!r}; at= "
                "takes the whole path of a name_scope, or a pattern such as '*/conv'"
            )
        if result.y.shape[:1] != x.shape[:1]:
            raise ValueError(
                f"{name}: the result of the scope {pattern!r} has the shape "
                f"{result.y.shape}; its first axis must be that of the {x.shape[0]} "
                "examples"
            )
        listed.append(result)
    return value, listed


# --- Grad-CAM --------------------------------------------------------------------


def grad_cam(
    f: Model,
    x: TensorLike,
    target: Target = None,
    *,
    at: str,
    channel_axis: int = -1,
    chunk: int | None = None,
) -> Tensor:
    """Return where in an image a layer sees evidence for a value.

    ``relu(Σ_c a_c · A_c)``: the sum of the channels of a layer, each weighted by the
    mean of its gradient. It has the resolution of the layer; enlarge it to that of the
    image with ``pg.image.resize_bilinear(..., half_pixel_centers=True)``.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        x: The examples; they must be real.
        target: The value that is explained, as in ``attribute``.
        at: The name of the layer: a scope, or a pattern as in ``where=`` of
            ``override_gradient``. Its result is that of the last kernel that runs in
            the scope. A function with ``custom_grad`` is not a kernel: if it ends the
            scope, pass its result through ``pg.identity``.
        channel_axis: The axis of the channels in the result of the layer, such as 1 in
            ONNX models.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        A tensor with the shape of the result of the layer without its channels.

    Raises:
        TypeError: ``f`` is not a function, ``x`` is not real, or ``at`` is not a
            string.
        ValueError: The value does not depend on the scope, its result is not a batch of
            images, or another argument is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> @pg.name_scope("layer")
        ... def layer(x):
        ...     return pg.relu(x)
        >>> model = lambda x: pg.mean(layer(x), axis=(1, 2)) @ [[1.0], [-1.0]]
        >>> x = [[[[3.0, 1.0], [0.0, 2.0]]]]  # one image of 1 x 2 pixels, 2 channels
        >>> attr.grad_cam(model, x, target=0, at="layer")
        Tensor([[[1., 0.]]], dtype=float32, backend='cpu')

    Source:
        R. R. Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via
        Gradient-Based Localization", 2017.

    """
    name = "grad_cam"
    values = checked(name, f, x)
    names = names_of(name, at)
    if len(names) != 1:
        raise ValueError(f"{name}: at must be the name of one scope, got {at!r}")

    def work(target: Target, x: Tensor) -> tuple[Tensor]:
        _, [layer] = results(name, f, x, target, names)
        rank = layer.y.ndim
        if rank < 3 or not -rank < channel_axis < rank or channel_axis in (0, -rank):
            raise ValueError(
                f"{name}: the result of the scope {at!r} has the shape "
                f"{layer.y.shape}; expected an example axis, position axes, and "
                f"channels at axis {channel_axis}"
            )
        channels = channel_axis % rank
        positions = tuple(axis for axis in range(1, rank) if axis != channels)
        weights = pg.mean(layer.dy, axis=positions, keepdims=True)
        return (pg.relu(pg.sum(weights * layer.y, axis=channels)),)

    return in_chunks(name, work, (values,), target, chunk)[0]


# --- attribution patching --------------------------------------------------------


@dataclass(frozen=True)
class Patching:
    """The result of ``patching``.

    Attributes:
        effects: For each scope, an estimate of how the metric changes if an element of
            its result is replaced; it has the shape of the result. Sum it over the
            axes that are replaced together.
        clean: The metric of the clean examples, one for each.
        corrupted: The metric of the corrupted examples, one for each.

    """

    effects: dict[str, Tensor]
    clean: Tensor
    corrupted: Tensor


def patching(
    f: Model,
    clean: TensorLike,
    corrupted: TensorLike,
    metric: Target = None,
    *,
    at: str | Sequence[str],
    chunk: int | None = None,
) -> Patching:
    """Estimate the effects of replacing intermediate values with another example's.

    Activation patching runs a model on a clean example with an intermediate value that
    is taken from a corrupted one, once for each such value. Attribution patching
    estimates all of these effects with two gradients, to the first order: ``(corrupted
    value - clean value) · gradient at the clean value``. Exchange ``clean`` and
    ``corrupted`` for the effect of restoring clean values.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples.
        clean: The examples, which must be real; for tokens, their embeddings.
        corrupted: Other examples of the same shape, such as the same sentence with
            another name.
        metric: The value whose change is estimated, like ``target`` of ``attribute``:
            the index of an output, one index for each example, or a function of the
            result.
        at: The name of a scope, or a list of names. Each may be a pattern, as in
            ``where=`` of ``override_gradient``. The result of a scope is that of the
            last kernel that runs in it. A function with ``custom_grad`` is not a
            kernel: if it ends the scope, pass its result through ``pg.identity``.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        A ``Patching``.

    Raises:
        TypeError: ``f`` is not a function, the examples are not real, or ``at``
            contains something other than strings.
        ValueError: The metric does not depend on a scope, or another argument does not
            fit.

    Example:
        >>> import plugrad_attribution as attr
        >>> def model(x):
        ...     with pg.name_scope("first"):
        ...         h = 2.0 * x
        ...     return pg.sum(h * h, axis=1)
        >>> found = attr.patching(model, [[1.0, 2.0]], [[1.0, 2.25]], at="first")
        >>> found.effects["first"].tolist()
        [[0.0, 4.0]]
        >>> (found.corrupted - found.clean).tolist()
        [4.25]

    Source:
        N. Nanda, "Attribution Patching: Activation Patching At Industrial Scale", 2023;
        A. Syed et al., "Attribution Patching Outperforms Automated Circuit Discovery",
        2024.

    """
    name = "patching"
    values = checked(name, f, clean)
    others = pg.astype(pg.asarray(corrupted), values.dtype)
    if others.shape != values.shape:
        raise ValueError(
            f"{name}: clean and corrupted must have the same shape, got "
            f"{values.shape} and {others.shape}"
        )
    scopes = names_of(name, at)
    if not scopes:
        raise ValueError(f"{name}: at names no scope")

    def work(metric: Target, x: Tensor, other: Tensor) -> tuple[Tensor, ...]:
        before, ours = results(name, f, x, metric, scopes)
        after, theirs = results(name, f, other, metric, scopes)
        effects = [(b.y - a.y) * a.dy for a, b in zip(ours, theirs, strict=True)]
        return before, after, *effects

    before, after, *effects = in_chunks(name, work, (values, others), metric, chunk)
    return Patching(dict(zip(scopes, effects, strict=True)), before, after)
