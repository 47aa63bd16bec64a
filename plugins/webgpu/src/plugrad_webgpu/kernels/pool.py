"""Pooling over windows, and its gradients. A thread computes one element."""

from __future__ import annotations

import numpy as np
from plugrad.geometry import Windows

from ..plans import Plan, Planner, Slot, Use
from ..source import LOOP_TURNS, VALUE, loaded, stored
from .reduce import FOLDS
from .windows import Geometry, turns

UINT32 = np.dtype("uint32")
OUTSIDE = "0xffffffffu"  # the position of the maximum of a window without elements


def pool(name: str) -> Planner:
    """Return the planner of the maximum or the average over windows."""
    largest = name.startswith("Max")

    def plan_one(plan: Plan, x: Slot, *, geometry: Windows) -> Slot | None:
        g = geometry
        if turns(g.window) > LOOP_TURNS or x.kind not in ("fhiu" if largest else "fh"):
            return None
        y = plan.new(g.out_shape, x.dtype)
        own = Geometry(g)
        value = loaded(x.kind, f"x[{own.number('e', 'in', 'qn')} * p.channels + c]")
        begin = FOLDS["Max"][x.kind].neutral if largest else f"{VALUE[x.kind]}(0)"
        higher = "v > s && !isnan_(v)" if x.kind in "fh" else "v > s"
        add = f"if ({higher}) {{ s = v; }}" if largest else "s += v; n++;"
        body = f"""let c = id % p.channels; let pixel = id / p.channels;
var n = 0u; var s = {begin};
{own.split("pixel", "out", "q")}
{own.loops(own.read("q", "h", "e") + f"if (eok) {{ let v = {value}; {add} }}")}
{"" if largest else "if (n == 0u) { s = nan_(); } else { s = s / f32(n); }"}
y[id] = {stored(y.kind, "s")};"""
        params = own.params | {"channels": g.in_shape[-1]}
        uses = {"x": Use(x), "y": Use(y, write=True)}
        plan.run(name, uses, params, body, y.size, threads=64)
        return y

    return plan_one


def average_grad(
    plan: Plan, dy: Slot, input: Slot | None = None, *, geometry: Windows
) -> Slot | None:
    """Return the gradient of the average: each window shares its cotangent evenly."""
    g = geometry
    if turns(g.window) > LOOP_TURNS or dy.kind not in "fh":
        return None
    dx = plan.new(g.in_shape, dy.dtype)
    own = Geometry(g)
    count = "var n = 1;\n"
    for a in range(own.rank):  # the elements of the window that are inside
        count += f"""{{ let begin = q{a} * i32(p.stride_{a}) - i32(p.pad_{a});
let step = i32(p.dilation_{a});
let low = (max(0, -begin) + step - 1) / step;
let high = min((i32(p.in_{a}) - 1 - begin) / step, i32(p.window_{a}) - 1);
n *= high - low + 1; }}
"""
    read = loaded(dy.kind, f"d[{own.number('q', 'out', 'en')} * p.channels + c]")
    inner = own.readers("e", "h", "q")
    inner += f"if (qok) {{ {count} s += {read} / f32(n); }}"
    body = f"""let c = id % p.channels; let pixel = id / p.channels; var s = 0.0;
{own.split("pixel", "in", "e")}
{own.loops(inner)}
dx[id] = {stored(dx.kind, "s")};"""
    params = own.params | {"channels": g.in_shape[-1]}
    uses = {"d": Use(dy), "dx": Use(dx, write=True)}
    plan.run("AvgPoolGrad", uses, params, body, dx.size, threads=64)
    return dx


def max_grad(
    plan: Plan, dy: Slot, input: Slot, output: Slot, *, geometry: Windows
) -> Slot | None:
    """Return the gradient of the maximum: the first one in a window gets it all."""
    g = geometry
    if turns(g.window) > LOOP_TURNS or dy.kind not in "fh":
        return None
    dx = plan.new(g.in_shape, dy.dtype)
    where = _first_maximum(plan, input, output, g)
    own = Geometry(g)
    at = f"{own.number('q', 'out', 'en')} * p.channels + c"
    inner = own.readers("e", "h", "q")
    inner += f"""if (qok) {{ let o = {at};
if (where_[o] == {own.number("h", "window")}) {{
s += {loaded(dy.kind, "d[o]")}; }} }}"""
    body = f"""let c = id % p.channels; let pixel = id / p.channels; var s = 0.0;
{own.split("pixel", "in", "e")}
{own.loops(inner)}
dx[id] = {stored(dx.kind, "s")};"""
    params = own.params | {"channels": g.in_shape[-1]}
    uses = {"d": Use(dy), "where_": Use(where), "dx": Use(dx, write=True)}
    plan.run("MaxPoolGrad", uses, params, body, dx.size, threads=64)
    return dx


def _first_maximum(plan: Plan, x: Slot, y: Slot, g: Windows) -> Slot:
    """Return the position in each window of the first element that is the maximum."""
    where = plan.new(g.out_shape, UINT32)
    own = Geometry(g)
    value = loaded(x.kind, f"x[{own.number('e', 'in', 'qn')} * p.channels + c]")
    inner = own.read("q", "h", "e")
    inner += f"""if (eok && found == {OUTSIDE} && eq_({value}, most)) {{
found = {own.number("h", "window")}; }}"""
    body = f"""let c = id % p.channels; let pixel = id / p.channels;
let most = {loaded(y.kind, "y[id]")}; var found = {OUTSIDE};
{own.split("pixel", "out", "q")}
{own.loops(inner)}
where_[id] = found;"""
    params = own.params | {"channels": g.in_shape[-1]}
    uses = {"x": Use(x), "y": Use(y), "where_": Use(where, write=True)}
    plan.run("MaxPoolGrad", uses, params, body, where.size, threads=64)
    return where


PLANNERS: dict[str, Planner] = {
    **{name: pool(name) for name in ("AvgPool", "AvgPool3D", "MaxPool", "MaxPool3D")},
    "AvgPool3DGrad": average_grad,
    "AvgPoolGrad": average_grad,
    "MaxPool3DGrad": max_grad,
    "MaxPoolGrad": max_grad,
}
