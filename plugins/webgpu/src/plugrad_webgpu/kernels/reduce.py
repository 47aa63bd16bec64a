"""Reductions. A thread reduces a part of a row, four elements at a time."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from plugrad.geometry import collapse_axes, contiguous_strides

from ..arrays import DType, Shape
from ..plans import Plan, Planner, Slot, Use
from ..source import VALUE, Number, loaded, offsets, stored, vector

FLOAT32 = np.dtype("float32")
PART_TURNS = 8192  # of a loop in one thread; llvmpipe allows 65,535
BLOCK_TURNS = 16  # sums are compensated once for so many turns
MIN_PART = 2048  # elements that are worth a thread of their own
GROUP_THREADS = 128  # that share a row on GPUs


class Fold(NamedTuple):
    """How two values combine: the neutral element, and an expression of a and b."""

    neutral: str
    text: str


FOLDS = {
    "Sum": {k: Fold(f"{VALUE[k]}(0)", "a + b") for k in "fhiu"},
    "Prod": {k: Fold(f"{VALUE[k]}(1)", "a * b") for k in "fhiu"},
    "Max": {
        "f": Fold("fneg_(inf_())", "fmax_(a, b)"),
        "h": Fold("fneg_(inf_())", "fmax_(a, b)"),
        "i": Fold("i32(-2147483647 - 1)", "max(a, b)"),
        "u": Fold("0u", "max(a, b)"),
    },
    "Min": {
        "f": Fold("inf_()", "fmin_(a, b)"),
        "h": Fold("inf_()", "fmin_(a, b)"),
        "i": Fold("2147483647", "min(a, b)"),
        "u": Fold("4294967295u", "min(a, b)"),
    },
    "Any": {"b": Fold("false", "a || b")},
    "All": {"b": Fold("true", "a && b")},
}


def accumulator(name: str, kind: str) -> str:
    """Return the functions of a reduction: ``fold`` of two values, ``fold4`` of four.

    ``Total`` is a sum in two floats: what rounding loses is added back later.
    """
    fold, t = FOLDS[name][kind], VALUE[kind]
    return f"""fn fold(a: {t}, b: {t}) -> {t} {{ return {fold.text}; }}
fn fold4(a: vec4<{t}>, b: vec4<{t}>) -> vec4<{t}> {{
return vec4<{t}>(fold(a.x, b.x), fold(a.y, b.y), fold(a.z, b.z), fold(a.w, b.w)); }}
fn across(a: vec4<{t}>) -> {t} {{ return fold(fold(a.x, a.y), fold(a.z, a.w)); }}
fn plus_(s: vec4<f32>, lost: ptr<function, vec4<f32>>, x: vec4<f32>) -> vec4<f32> {{
let y = x - *lost; let t = hide4_(s + y); *lost = hide4_(t - s) - y; return t; }}
fn hide4_(x: vec4<f32>) -> vec4<f32> {{
return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(p.zero)); }}
fn finite4_(x: vec4<f32>) -> bool {{
return isfin_(x.x) && isfin_(x.y) && isfin_(x.z) && isfin_(x.w); }}
"""


def loop(name: str, kind: str, first: str, by: str, end: str, value: str) -> str:
    """Return code that reduces to ``s``; ``value`` computes ``x`` at ``j``."""
    t = f"vec4<{VALUE[kind]}>"
    neutral = f"{t}({FOLDS[name][kind].neutral})"
    if name != "Sum" or kind not in "fh":
        return f"""var s = {neutral};
for (var j = {first}; j < {end}; j += {by}) {{
{value}
s = fold4(s, x); }}"""
    return f"""var s = {neutral}; var lost = {t}(0.0); var plain = {t}(0.0);
for (var b = {first}; b < {end}; b += {by} * {BLOCK_TURNS}u) {{
var block = {t}(0.0);
for (var j = b; j < min({end}, b + {by} * {BLOCK_TURNS}u); j += {by}) {{
{value}
block += x; }}
plain += block; s = plus_(s, &lost, block); }}
if (!finite4_(plain)) {{ s = plain; }}"""


class Layout(NamedTuple):
    """What a reduction iterates over: the kept and the reduced axes, with strides."""

    kept: tuple[tuple[int, ...], ...]
    reduced: tuple[tuple[int, ...], ...]
    outs: int
    n: int

    @property
    def rows(self) -> bool:
        """Whether each row is contiguous and a multiple of four long."""
        return len(self.reduced) == 1 and self.reduced[0][1] == 1 and self.n % 4 == 0

    @property
    def columns(self) -> bool:
        """Whether four neighboring columns can be reduced together."""
        size, step = self.kept[-1]
        steps = [s for _, s in (*self.kept[:-1], *self.reduced)]
        return step == 1 and size % 4 == 0 and all(s % 4 == 0 for s in steps)


def layout(shape: Shape, axis: Shape) -> Layout:
    """Return the layout of a reduction over axes of a contiguous array."""
    steps = contiguous_strides(shape)
    both = []
    for inside in (False, True):
        axes = [i for i in range(len(shape)) if (i in axis) is inside]
        both.append(collapse_axes([shape[i] for i in axes], [steps[i] for i in axes]))
    n = math.prod([shape[i] for i in axis])
    outs = math.prod([m for i, m in enumerate(shape) if i not in axis])
    return Layout(both[0], both[1], outs, n)


def reduced_shape(shape: Shape, axis: Shape, keepdims: bool) -> Shape:
    """Return the shape of the result."""
    if keepdims:
        return tuple([1 if i in axis else n for i, n in enumerate(shape)])
    return tuple([n for i, n in enumerate(shape) if i not in axis])


def parts(outs: int, turns: int, size: int) -> int:
    """Return into how many parts, one for each thread, to split a row."""
    count = 1
    if outs < 64 and outs * size >= 1 << 14:
        count = min(256 // outs + 1, size // MIN_PART)
    return max(count, -(-turns // PART_TURNS), 1)


def reduce(
    plan: Plan,
    name: str,
    x: Slot,
    axis: Shape,
    shape: Shape,
    divide: int = 0,
    dtype: DType | None = None,
) -> Slot:
    """Return a reduction of ``x``, divided by a number unless it is 0."""
    y = plan.new(shape, dtype or x.dtype)
    found = layout(x.shape, axis)
    if not y.size:
        return y
    if not found.n:
        value = {"Sum": 0, "Prod": 1, "Any": 0, "All": 1}
        neutral = value.get(name, -np.inf if name == "Max" else np.inf)
        if name in ("Max", "Min") and x.kind in "iu":
            info = np.iinfo(x.dtype)
            neutral = info.min if name == "Max" else info.max
        from .shape import fill

        return fill(plan, shape=shape, value=neutral, dtype=x.dtype)
    lanes = 4 if found.rows else 1
    by_columns = not found.rows and found.columns
    turns = -(-found.n // lanes)
    outs = found.outs // 4 if by_columns else found.outs
    if found.rows and not plan.device.is_cpu and found.n >= 256:
        count = parts(outs * GROUP_THREADS, -(-turns // GROUP_THREADS), found.n)
    else:
        count = parts(outs, turns, found.n)
    wide = FLOAT32 if x.kind == "h" else x.dtype
    target = y if count == 1 else plan.new((count, found.outs), wide)
    _launch(plan, name, x, target, found, count, divide if count == 1 else 0)
    if count > 1:
        return reduce(plan, name, target, (0,), shape, divide, y.dtype)
    return y


def _launch(
    plan: Plan, name: str, x: Slot, y: Slot, found: Layout, count: int, divide: int
) -> None:
    """Record the reduction of each part of each row."""
    by_columns = not found.rows and found.columns
    lanes = 4 if found.rows or by_columns else 1
    turns = -(-found.n // (4 if found.rows else 1))
    outs = found.outs // 4 if by_columns else found.outs
    grouped = found.rows and not plan.device.is_cpu and found.n >= 256
    params: dict[str, Number] = {
        "outs": outs,
        "turns": turns,
        "part": -(-turns // count),
    }
    if divide:
        params["divide"] = np.float32(divide)
    code = _place(found, lanes, params, by_columns)
    value = code["value"].replace("VALUE", _value(name, x.kind, lanes))
    first, by = ("begin + lid", f"{GROUP_THREADS}u") if grouped else ("begin", "1u")
    lines = [
        "let o = id % p.outs; let part = id / p.outs; var base = 0u;",
        code["base"],
        "let begin = part * p.part; let end = min(p.turns, begin + p.part);",
        loop(name, x.kind, first, by, "end", value),
    ]
    more = accumulator(name, x.kind)
    tail, extra = _tail(y.kind, by_columns, grouped, bool(divide))
    plan.run(
        name,
        {"x_": Use(x, lanes), "y": Use(y, 4 if by_columns else 1, write=True)},
        params,
        "\n".join([*lines, tail]),
        outs * count,
        threads=GROUP_THREADS if grouped else 64,
        grouped=grouped,
        more=more + extra,
    )


def _value(name: str, kind: str, lanes: int) -> str:
    """Return a vector: four elements, or one and three neutral ones."""
    if lanes == 4:
        return loaded(kind, "x_[at]", 4)
    neutral = ", ".join([FOLDS[name][kind].neutral] * 3)
    return f"vec4<{VALUE[kind]}>({loaded(kind, 'x_[at]')}, {neutral})"


def _place(
    found: Layout, lanes: int, params: dict[str, Number], by_columns: bool
) -> dict[str, str]:
    """Return code for the offset of a row, and for the element ``j`` of it."""
    kept = [*found.kept]
    if by_columns:
        kept[-1] = (kept[-1][0] // 4, 4)
    for prefix, axes in (("k", kept), ("r", found.reduced)):
        for a, (size, step) in enumerate(axes):
            params[f"{prefix}n{a}"] = size
            params[f"{prefix}s{a}"] = step // lanes if lanes == 4 else step
    if found.rows:
        return {"base": _offset("k", kept, "o", "base"), "value": _row_value()}
    inner = _offset("r", found.reduced, "j", "at")
    return {
        "base": _offset("k", kept, "o", "base"),
        "value": f"var at = base;\n{inner}let x = VALUE;",
    }


def _row_value() -> str:
    return "let at = base + j; let x = VALUE;"


def _offset(prefix: str, axes: Any, index: str, out: str) -> str:
    sizes = [f"p.{prefix}n{a}" for a in range(len(axes))]
    steps = [f"p.{prefix}s{a}" for a in range(len(axes))]
    return offsets(sizes, index, {out: steps})


def _tail(kind: str, by_columns: bool, grouped: bool, divide: bool) -> tuple[str, str]:
    """Return code that stores the result, and the declarations that it needs."""
    scale = " / p.divide" if divide else ""
    if by_columns:
        return f"y[id] = {stored(kind, f'(s{scale})', 4)};", ""
    if not grouped:
        return f"y[id] = {stored(kind, f'(across(s){scale})')};", ""
    t = vector(kind, 1, VALUE)
    last = stored(kind, f"(shared_[0]{scale})")
    return f"{tree(GROUP_THREADS, 'across(s)')}if (lid == 0u) {{ y[id] = {last}; }}", (
        f"var<workgroup> shared_: array<{t}, {GROUP_THREADS}>;\n"
    )


def tree(threads: int, value: str) -> str:
    """Return code that combines the values of a workgroup in ``shared_[0]``."""
    return f"""shared_[lid] = {value}; workgroupBarrier();
for (var h = {threads // 2}u; h > 0u; h = h / 2u) {{
if (lid < h) {{ shared_[lid] = fold(shared_[lid], shared_[lid + h]); }}
workgroupBarrier(); }}
"""


def reduction(name: str) -> Planner:
    """Return the planner of a reduction."""

    def plan_one(plan: Plan, x: Slot, *, axis: Shape, keepdims: bool) -> Slot | None:
        if x.kind not in FOLDS[name]:
            return None
        return reduce(plan, name, x, axis, reduced_shape(x.shape, axis, keepdims))

    return plan_one


def mean(plan: Plan, x: Slot, *, axis: Shape, keepdims: bool) -> Slot | None:
    """Return the mean of floating numbers."""
    n = math.prod([x.shape[a] for a in axis])
    if not n or x.kind not in "fh":
        return None
    return reduce(plan, "Sum", x, axis, reduced_shape(x.shape, axis, keepdims), n)


PLANNERS: dict[str, Planner] = {name: reduction(name) for name in FOLDS} | {
    "Mean": mean
}
