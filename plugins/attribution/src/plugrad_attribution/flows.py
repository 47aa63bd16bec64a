"""Watch the kernel runs that relevance passes through.

``watched`` adds one more block of overrides inside those of a composite. Its gradient
functions call the ones they replace, so relevance does not change, and pass what they
see to a callback.

Contents: ``Flow``, one report; ``watched``; the kernels and patterns that are watched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import plugrad as pg
from plugrad import plugin
from plugrad.plugin import Tensor

from .composites import Composite
from .first import entries
from .kernels import names_of
from .layers import INPUT, Functions, Table, Target, named

P = ParamSpec("P")
R = TypeVar("R")

# The dtypes that have derivatives.
FLOATING = frozenset(
    [pg.float16, pg.bfloat16, pg.float32, pg.float64, pg.complex64, pg.complex128]
)


class Pair(NamedTuple):
    """A tensor of a run, and its cotangent, which is relevance over value.

    ``value`` is None if the cotangent is relevance itself.
    """

    cotangent: Tensor
    value: Tensor | None

    def relevance(self) -> Tensor:
        """Return the relevance of each element."""
        if self.value is None:
            return self.cotangent
        if self.value.dtype.kind == "c":
            return pg.real(pg.conj(self.cotangent) * self.value)
        return self.cotangent * self.value

    def total(self) -> float:
        """Return the sum of the relevances, computed in float64."""
        return float(self._relevances().sum())

    def size(self) -> float:
        """Return the sum of the absolute relevances."""
        return float(np.abs(self._relevances()).sum())

    def _relevances(self) -> np.ndarray[Any, Any]:
        found = _wide(self.cotangent)
        if self.value is not None:  # may be smaller: kernels broadcast their inputs
            found = np.real(np.conj(found) * _wide(self.value))
        return found


def _wide(x: Tensor) -> np.ndarray[Any, Any]:
    return x.numpy().astype("complex128" if x.dtype.kind == "c" else "float64")


class Flow(NamedTuple):
    """Relevance on its way from the results of a run to one of its inputs.

    Attributes:
        site: The kernel and the scope of the run.
        is_first: Whether this input is the first watched input of the run, so that
            exactly one flow of each run is marked as first.
        is_ruled: Whether the composite has a rule for the run.
        has_constants: Whether a floating input of the run is not differentiated.
        results: The results; empty if their number depends on the run.
        inputs: The tensor of the input; several if the input is variadic.

    """

    site: plugin.Site
    is_first: bool
    is_ruled: bool
    has_constants: bool
    results: tuple[Pair, ...]
    inputs: tuple[Pair, ...]


FlowCallback = Callable[[Flow], None]


class Watched(NamedTuple):
    """A kernel or pattern to watch, and what its gradient functions read.

    Attributes:
        target: Its key in the tables of ``use_gradients``.
        inputs: The names of the inputs that are watched.
        zeros: The watched inputs that have no gradient. Their gradient functions return
            zeros, so that relevance can be watched there.
        others: The names of the other inputs.
        outputs: The names of the outputs that functions may read.
        cotangent_count: The number of cotangents.
        is_ruled: Whether the composite has a rule for it.

    """

    target: Target
    inputs: tuple[str, ...]
    zeros: tuple[str, ...]
    others: tuple[str, ...]
    outputs: tuple[str, ...]
    cotangent_count: int
    is_ruled: bool


class Extent(NamedTuple):
    """Which runs are watched, in addition to those that pass relevance on.

    Attributes:
        stops: Whether to watch runs that pass nothing on, according to a rule. Their
            inputs get zeros, because otherwise the backward pass would end there.
        gaps: Whether to watch runs of kernels that have no gradient. Their inputs also
            get zeros.

    """

    stops: bool = False
    gaps: bool = False


def watched(
    rules: Composite, f: Callable[P, R], report: FlowCallback, extent: Extent
) -> Callable[P, R]:
    """Return a function that runs ``f`` under a composite and reports its flows.

    Args:
        rules: The composite.
        f: A function that computes a gradient.
        report: A function that is called with each flow, in reverse order of the runs.
        extent: Which runs are watched.

    """

    @rules.bind
    def call(*args: P.args, **options: P.kwargs) -> R:
        watch = _Watch(report)
        try:
            with ExitStack() as stack:
                for found, where in _watched(rules, extent):
                    table = {
                        one.target: watch.functions(one) for one in found if one.inputs
                    }
                    block = pg.use_gradients(table, where=where, linear=False)
                    stack.enter_context(block)
                return f(*args, **options)
        finally:
            watch.is_on = False  # outer tapes may call the gradient functions later

    return call


class _Watch:
    """Creates gradient functions that report flows to ``report``, for a single call.

    A gradient function that is called inside another one reports nothing: the outer
    one reports the whole.
    """

    def __init__(self, report: FlowCallback) -> None:
        self.report = report
        self.is_on = True

    def functions(self, one: Watched) -> Functions:
        """Return the gradient functions of a kernel or a pattern, by input."""
        return {name: self._function(one, name) for name in one.inputs}

    def _function(self, one: Watched, name: str) -> Callable[..., Any]:
        names = [*one.inputs, *one.others]
        before = one.inputs[: one.inputs.index(name)]
        is_zero = name in one.zeros
        is_relevance = _is_relevance(one, name)

        def gradient(*dys: Any, site: plugin.Site, **given: Any) -> Any:
            if is_zero:
                dxs = pg.tree.map(pg.zeros_like, given[name])
            else:
                dxs = self._original(dys, given["original"])
            if not self.is_on:
                return dxs
            tracked = [given[f"{n}_tracked"] for n in names]
            specs = [given[f"{n}_spec"] for n in names]
            flow = Flow(
                site,
                not any(np.any(given[f"{n}_tracked"]) for n in before),
                one.is_ruled,
                any(map(_is_constant, specs, tracked)),
                _results(dys, [given[n] for n in one.outputs]),
                _inputs(dxs, given[name], given[f"{name}_tracked"], is_relevance),
            )
            self.report(flow)
            return dxs

        parameters = [f"cotangent{number}" for number in range(one.cotangent_count)]
        parameters += dict.fromkeys([name, *one.outputs, "site"])
        parameters += [] if is_zero else ["original"]
        parameters += [f"{n}_{what}" for n in names for what in ("tracked", "spec")]
        return named(gradient, parameters)

    def _original(self, dys: Any, original: Callable[..., Any]) -> Any:
        """Return the cotangent of an input, without reporting flows inside it."""
        was_on, self.is_on = self.is_on, False
        try:
            return original(*dys)
        finally:
            self.is_on = was_on


def _is_constant(spec: Any, tracked: Any) -> bool:
    """Return whether an input is floating and not differentiated."""
    if isinstance(tracked, tuple):
        return any(map(_is_constant, spec, tracked))
    return spec is not None and not tracked and spec.dtype in FLOATING


def _results(dys: Sequence[Any], ys: Sequence[Tensor]) -> tuple[Pair, ...]:
    """Return the floating results and their cotangents."""
    pairs = zip(dys, ys, strict=False)  # ys is empty if the number of outputs varies
    return tuple([Pair(dy, y) for dy, y in pairs if y.dtype in FLOATING])


def _inputs(dxs: Any, xs: Any, tracked: Any, is_relevance: bool) -> tuple[Pair, ...]:
    """Return the differentiated tensors of an input, and their cotangents."""
    if not isinstance(tracked, tuple):
        dxs, xs, tracked = (dxs,), (xs,), (tracked,)
    found = []
    for dx, x, is_tracked in zip(dxs, xs, tracked, strict=True):
        if is_tracked:
            found.append(Pair(dx, None if is_relevance else x))
    return tuple(found)


def _is_relevance(one: Watched, name: str) -> bool:
    """Return whether the cotangent of an input is relevance itself."""
    is_mark = one.target in (INPUT, INPUT.name)
    is_first = any(one.target is entry.pattern for entry in entries())
    return name == "x" and (is_mark or is_first)


# --- what is watched -------------------------------------------------------------


def _watched(
    rules: Composite, extent: Extent
) -> Iterator[tuple[list[Watched], str | None]]:
    """Yield what to watch everywhere, then what to watch in the scopes of each pattern.

    A kernel pattern that has a rule only in some scopes is watched only there, because
    overriding it makes the runs that match it count as a single run.
    """
    (main, _), *others = rules.tables
    yield [*_kernels(names_of(main), extent), *_watched_in_table(main, extent)], None
    for table, where in others:
        more = {key: functions for key, functions in table.items() if key not in main}
        if found := [*_watched_in_table(more, extent)]:
            yield found, where


def _kernels(ruled: Collection[str], extent: Extent) -> Iterator[Watched]:
    """Yield the registered kernels that have a gradient under the current overrides."""
    for name, kernel in plugin.contracts().items():
        rules = pg.get_gradient(name)
        inputs, zeros = _inputs_of(rules, extent)
        if extent.gaps and kernel.decomposition is None:
            zeros += tuple([n for n in kernel.inputs if n not in rules])
        if inputs or zeros:
            yield _watched_kernel(name, kernel, inputs, zeros, name in ruled)


def _watched_kernel(
    target: Target,
    kernel: plugin.Kernel,
    inputs: tuple[str, ...],
    zeros: tuple[str, ...],
    is_ruled: bool,
) -> Watched:
    found = inputs + zeros
    others = tuple([name for name in kernel.inputs if name not in found])
    outputs = () if kernel.variadic_outputs else kernel.outputs
    count = len(kernel.outputs)
    return Watched(target, found, zeros, others, outputs, count, is_ruled)


def _watched_in_table(table: Table, extent: Extent) -> Iterator[Watched]:
    """Yield a table's patterns, ops of several kernels, and unregistered kernels."""
    known = plugin.contracts()
    for target, functions in table.items():
        if functions is None:
            continue  # the kernel is decomposed
        if isinstance(target, plugin.Kernel) and target.name not in known:
            inputs, zeros = _inputs_of(functions, extent)
            yield _watched_kernel(target, target, inputs, zeros, True)
        elif isinstance(target, plugin.Pattern):
            every = {**dict.fromkeys(target.inputs, _passed), **functions}
            inputs, zeros = _inputs_of(every, extent)
            yield Watched(target, inputs + zeros, zeros, (), ("y",), 1, True)
        elif callable(target) and _is_composed(target):
            inputs, zeros = _inputs_of(functions, extent)
            yield Watched(target, inputs + zeros, zeros, (), ("y",), 1, True)


def _inputs_of(
    rules: Mapping[str, Any], extent: Extent
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the inputs with a gradient or, if there are none, those that get zeros."""
    inputs = tuple([name for name, rule in rules.items() if rule is not None])
    return inputs, () if inputs or not extent.stops else tuple(rules)


def _passed(dy: Tensor) -> Tensor:
    """Stand in for the gradient of inputs for which a pattern has no rule."""
    return dy


@functools.cache
def _is_composed(op: Callable[..., Any]) -> bool:
    """Return whether an op runs several kernels."""
    try:
        pg.get_gradient(op)
    except ValueError:
        return True
    return False
