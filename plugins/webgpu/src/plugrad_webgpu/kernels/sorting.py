"""A stable sort by merging, and the largest elements of rows."""

from __future__ import annotations

import numpy as np

from ..plans import Plan, Planner, Slot, Use
from ..source import loaded

UINT32, INT32 = np.dtype("uint32"), np.dtype("int32")

# Keys that sort in falling order of the numbers, NaN first.
FALLING = {
    "u": "~v",
    "i": "~(bitcast<u32>(v) ^ 0x80000000u)",
    "b": "select(1u, 0u, v)",
    "f": "key(v)",
    "h": "key(v)",
}
FLOAT_KEY = """fn key(v: f32) -> u32 {
if (isnan_(v)) { return 0u; }
if (iszero_(v)) { return 0x7fffffffu; }
let u = bitcast<u32>(v);
return select(0x7fffffffu - (u & 0x7fffffffu), u, neg_(v)); }"""

MERGE = """let row = id / p.n * p.n; let i = id - row;
let begin = i / p.width * p.width; let odd = (i / p.width) % 2u == 1u;
let k = keys[id];
let other = select(begin + p.width, begin - p.width, odd);
var low = 0u; var high = 0u;
if (other < p.n) { high = min(p.width, p.n - other); }
while (low < high) {
let middle = (low + high) / 2u;
let found = keys[row + other + middle];
if (found < k || (odd && found == k)) { low = middle + 1u; } else { high = middle; } }
let to = row + min(begin, other) + (i - begin) + low;
sorted_keys[to] = k; sorted_order[to] = """


def sort(plan: Plan, keys: Slot) -> tuple[Slot, Slot]:
    """Return the rows of uint32 keys in rising order, and their former positions.

    Each pass merges neighboring runs: a thread finds the rank of its key in the other
    run by bisection. Equal keys keep their order.
    """
    n = keys.shape[-1]
    order: Slot | None = None
    width = 1
    while width < n or order is None:
        new_keys = plan.new(keys.shape, UINT32)
        new_order = plan.new(keys.shape, UINT32)
        uses = {
            "keys": Use(keys),
            "sorted_keys": Use(new_keys, write=True),
            "sorted_order": Use(new_order, write=True),
        }
        if order is not None:
            uses["order"] = Use(order)
        body = MERGE + ("i;" if order is None else "order[id];")
        plan.run("Sort", uses, {"n": n, "width": width}, body, keys.size)
        keys, order = new_keys, new_order
        width *= 2
    return keys, order


def top_k(plan: Plan, x: Slot, *, k: int, sorted: bool) -> tuple[Slot, Slot] | None:
    """Return the largest elements of each row and their positions, in falling order.

    Unsorted results are in the order of the row.
    """
    n = x.shape[-1]
    shape = (*x.shape[:-1], k)
    values, places = plan.new(shape, x.dtype), plan.new(shape, INT32)
    if not values.size:
        return values, places
    keys = plan.new((x.size // n, n), UINT32)
    body = f"let v = {loaded(x.kind, 'x[id]')}; keys[id] = {FALLING[x.kind]};"
    uses = {"x": Use(x), "keys": Use(keys, write=True)}
    more = FLOAT_KEY if x.kind in "fh" else ""
    plan.run("TopK", uses, {}, body, x.size, more=more)
    _, order = sort(plan, keys)
    if not sorted:
        order = _first(plan, order, k)
        _, by_place = sort(plan, order)
        order = _chosen(plan, order, by_place)
    uses = {
        "x": Use(x),
        "order": Use(order),
        "values": Use(values, write=True),
        "places": Use(places, write=True),
    }
    body = """let row = id / p.k; let i = order[row * p.width + id - row * p.k];
values[id] = x[row * p.n + i]; places[id] = i32(i);"""
    params = {"n": n, "k": k, "width": order.shape[-1]}
    plan.run("TopK", uses, params, body, values.size)
    return values, places


def _first(plan: Plan, order: Slot, k: int) -> Slot:
    """Return the first ``k`` numbers of each row."""
    rows, n = order.shape
    first = plan.new((rows, k), UINT32)
    body = "let row = id / p.k; first[id] = order[row * p.n + id - row * p.k];"
    uses = {"order": Use(order), "first": Use(first, write=True)}
    plan.run("TopK", uses, {"n": n, "k": k}, body, first.size)
    return first


def _chosen(plan: Plan, values: Slot, order: Slot) -> Slot:
    """Return the numbers of each row in an order."""
    rows, k = values.shape
    found = plan.new((rows, k), UINT32)
    body = "let row = id / p.k * p.k; found[id] = values[row + order[id]];"
    uses = {
        "values": Use(values),
        "order": Use(order),
        "found": Use(found, write=True),
    }
    plan.run("TopK", uses, {"k": k}, body, found.size)
    return found


PLANNERS: dict[str, Planner] = {"TopK": top_k}
