"""Reading elements by index, and adding elements by index in a fixed order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..plans import Plan, Planner, Slot, Use
from ..source import LOOP_TURNS, STORAGE, VALUE
from .reduce import reduce
from .sorting import sort

UINT32 = np.dtype("uint32")
SCAN_WORK = 1 << 18  # up to so many turns in all, each output looks at every index
SCAN_INDICES = 4096  # and at so many indices at most
PART_MEMBERS = 256  # members of a segment that are worth a thread
PARTIAL_ELEMENTS = 1 << 20  # memory for partial sums

CHECK = """fn bad(given: i32, i: i32, n: u32, axis: u32) -> bool {
if (i >= 0 && u32(i) < n) { return false; }
flag[0] = p.message; flag[1] = bitcast<u32>(given); flag[2] = axis; flag[3] = n;
return true; }"""


def gather(plan: Plan, x: Slot, indices: Slot, *, axis: int, batch_dims: int) -> Slot:
    """Return the slices of an axis at the indices."""
    return _gather(plan, x, indices, axis, batch_dims, wraps=False)


def take(plan: Plan, x: Slot, indices: Slot, *, axis: int, batch_dims: int) -> Slot:
    """Return the slices of an axis at the indices; negative ones count from its end."""
    return _gather(plan, x, indices, axis, batch_dims, wraps=indices.kind == "i")


def _gather(
    plan: Plan, x: Slot, indices: Slot, axis: int, batch_dims: int, *, wraps: bool
) -> Slot:
    middle = indices.shape[batch_dims:]
    y = plan.new((*x.shape[:axis], *middle, *x.shape[axis + 1 :]), x.dtype)
    if not y.size:
        return y
    rest = math.prod(x.shape[axis + 1 :])
    lanes = 1 if rest % 4 else 4
    params = {
        "rest": rest // lanes,
        "n": x.shape[axis],
        "outer": math.prod(x.shape[batch_dims:axis]),
        "k": math.prod(middle),
        "axis": axis,
        "message": plan.device.message("gather"),
    }
    uses = {
        "x": Use(x, lanes),
        "index": Use(indices, type="i32"),
        "y": Use(y, lanes, write=True),
        "flag": plan.flag(),
    }
    zero = f"{uses['y'].buffer.type}(0)" if lanes == 1 else f"{uses['y'].buffer.type}()"
    body = f"""let r = id % p.rest; var left = id / p.rest;
let k = left % p.k; left = left / p.k;
let o = left % p.outer; let b = left / p.outer;
let given = index[b * p.k + k];
let i = {"select(given, given + i32(p.n), given < 0)" if wraps else "given"};
if (bad(given, i, p.n, p.axis)) {{ y[id] = {zero}; return; }}
y[id] = x[((b * p.outer + o) * p.n + u32(i)) * p.rest + r];"""
    plan.run("GatherV2", uses, params, body, y.size // lanes, more=CHECK)
    return y


def segment_sum(
    plan: Plan, x: Slot, segment_ids: Slot, *, num_segments: int
) -> Slot | None:
    """Add up the slices of each segment, in the order of ``x``."""
    rank = len(segment_ids.shape)
    rest = math.prod(x.shape[rank:])
    shape = (num_segments, *x.shape[rank:])
    y = plan.new(shape, x.dtype)
    m = segment_ids.size
    if not y.size or x.kind == "b":
        return None if x.kind == "b" else y
    if not m or (m <= SCAN_INDICES and m * y.size <= SCAN_WORK):
        _scan(plan, x, segment_ids, y, rest)
        return y
    keys, order = sort(plan, segment_ids.view((1, m), UINT32))
    members = -(-m // min(max(1, PARTIAL_ELEMENTS // y.size), -(-m // PART_MEMBERS)))
    members = min(max(members, PART_MEMBERS), LOOP_TURNS // 2)
    count = -(-m // members)
    rounds = -(-count * y.size // max(PARTIAL_ELEMENTS, y.size))
    wide = np.dtype("float32") if x.kind == "h" else x.dtype
    each = -(-count // rounds)
    sums = [
        _sorted(plan, x, keys, order, (each, y), rest, members, wide, r * each)
        for r in range(rounds)
    ]
    from .shape import concat

    joined = concat(plan, *sums, axis=0) if rounds > 1 else sums[0]
    return reduce(plan, "Sum", joined, (0,), shape, dtype=x.dtype)


SUMS = {
    "f": """plain += v; let w = v - lost; let t = opq_(s + w);
lost = opq_(t - s) - w; s = t;""",
    "i": "s += v;",
}


def _sum(kind: str, read: str) -> tuple[str, str, str]:
    """Return code that begins a sum, adds an element, and ends it."""
    if kind in "fh":
        begin = "var s = 0.0; var lost = 0.0; var plain = 0.0;"
        value = f"let v = f32({read}); "
        return begin, value + SUMS["f"], "if (!isfin_(plain)) { s = plain; }"
    return f"var s = {VALUE[kind]}(0);", f"let v = {read}; " + SUMS["i"], ""


def _scan(plan: Plan, x: Slot, ids: Slot, y: Slot, rest: int) -> None:
    """Let each output look at all indices."""
    begin, add, end = _sum(x.kind, "x[j * p.rest + r]")
    body = f"""let g = id / p.rest; let r = id - g * p.rest;
{begin}
for (var j = 0u; j < p.m; j++) {{ if (index[j] == g) {{ {add} }} }}
{end}
y[id] = {STORAGE[y.kind]}(s);"""
    uses = {
        "x": Use(x),
        "index": Use(ids, type="u32"),
        "y": Use(y, write=True),
    }
    params = {"rest": rest, "m": ids.size}
    plan.run("UnsortedSegmentSum", uses, params, body, y.size)


LOWER_BOUND = """fn lower_bound(key: u32) -> u32 {
var low = 0u; var high = p.m;
while (low < high) {
let middle = (low + high) / 2u;
if (keys[middle] < key) { low = middle + 1u; } else { high = middle; } }
return low; }"""


def _sorted(
    plan: Plan,
    x: Slot,
    keys: Slot,
    order: Slot,
    out: tuple[int, Slot],
    rest: int,
    members: int,
    dtype: np.dtype[Any],
    first: int,
) -> Slot:
    """Return the sums of parts of the sorted indices: part ``first`` and later ones."""
    count, y = out
    partial = plan.new((count, *y.shape), dtype)
    begin, add, end = _sum(x.kind, "x[order[j] * p.rest + r]")
    body = f"""let inner = id % p.size; let part = p.first + id / p.size;
let g = inner / p.rest; let r = inner - g * p.rest;
let from_ = max(lower_bound(g), min(part * p.members, p.m));
let to = min(lower_bound(g + 1u), min((part + 1u) * p.members, p.m));
{begin}
for (var j = from_; j < to; j++) {{ {add} }}
{end}
sums[id] = {STORAGE[partial.kind]}(s);"""
    uses = {
        "x": Use(x),
        "keys": Use(keys),
        "order": Use(order),
        "sums": Use(partial, write=True),
    }
    params = {
        "rest": rest,
        "m": keys.size,
        "size": y.size,
        "members": members,
        "first": first,
    }
    plan.run("UnsortedSegmentSum", uses, params, body, partial.size, more=LOWER_BOUND)
    return partial


PLANNERS: dict[str, Planner] = {
    "GatherV2": gather,
    "Take": take,
    "UnsortedSegmentSum": segment_sum,
}
