"""Kernels that normalize rows: softmax and layer normalization.

On a CPU, a thread computes a row. On a GPU, a workgroup shares a long row.
"""

from __future__ import annotations

import math
from typing import Any

from ..arrays import Shape
from ..plans import Plan, Planner, Slot, Use
from ..source import LOOP_TURNS, Number, bits, loaded, stored

GROUP_THREADS = 128
GROUPED_FROM = 256  # the elements of a row from which threads share it
PASSES = 3  # loops over a row


class Row:
    """Code for loops over a row, by one thread or by a workgroup."""

    def __init__(self, plan: Plan, x: Slot, n: int, inner: int) -> None:
        """Begin for rows of ``n`` elements that are ``inner`` apart."""
        self.grouped = not plan.device.is_cpu and n >= GROUPED_FROM
        self.lanes = 4 if inner == 1 and n % 4 == 0 else 1
        self.count = x.size // n
        self.kind = x.kind
        self.params: dict[str, Number] = {"n": n // self.lanes, "inner": inner}
        self.size = n

    def fits(self) -> bool:
        """Return whether llvmpipe can finish the loops of a thread."""
        share = GROUP_THREADS if self.grouped else 1
        return self.size // (self.lanes * share) * PASSES < LOOP_TURNS

    @property
    def type(self) -> str:
        """The type of a value in a loop."""
        return "vec4<f32>" if self.lanes == 4 else "f32"

    def begin(self) -> str:
        """Return code for where the row begins."""
        return "let at = id / p.inner * p.inner * p.n + id % p.inner;"

    def loop(self, body: str) -> str:
        """Return a loop that sets ``i``, the place of an element, or of four."""
        first, by = ("lid", f"{GROUP_THREADS}u") if self.grouped else ("0u", "1u")
        return f"""for (var j = {first}; j < p.n; j += {by}) {{
let i = at + j * p.inner; {body} }}"""

    def read(self, name: str, at: str = "i") -> str:
        """Return the value of a buffer of the row's dtype."""
        return loaded(self.kind, f"{name}[{at}]", self.lanes)

    def write(self, name: str, value: str) -> str:
        """Return code that stores a value."""
        return f"{name}[i] = {stored(self.kind, value, self.lanes)};"

    def total(self, name: str, value: str, fold: str) -> str:
        """Return code that combines a value over its lanes and threads."""
        lines = [f"var {name} = {value};"]
        if self.lanes == 4:
            texts = [f"{value}.{c}" for c in "xyzw"]
            pairs = [fold.format(*texts[:2]), fold.format(*texts[2:])]
            lines = [f"var {name} = {fold.format(*pairs)};"]
        if self.grouped:
            both = fold.format("shared_[lid]", "shared_[lid + h]")
            lines.append(f"""shared_[lid] = {name}; workgroupBarrier();
for (var h = {GROUP_THREADS // 2}u; h > 0u; h = h / 2u) {{
if (lid < h) {{ shared_[lid] = {both}; }}
workgroupBarrier(); }}
{name} = shared_[0]; workgroupBarrier();""")
        return "\n".join(lines)

    def run(self, plan: Plan, name: str, uses: dict[str, Use], body: str) -> None:
        """Record the kernel."""
        more = LIBRARY
        if self.grouped:
            more += f"\nvar<workgroup> shared_: array<f32, {GROUP_THREADS}>;"
        plan.run(
            name,
            uses,
            self.params,
            body,
            self.count,
            threads=GROUP_THREADS if self.grouped else 32,
            grouped=self.grouped,
            more=more,
        )


LIBRARY = """fn exp4(x: vec4<f32>) -> vec4<f32> {
return vec4<f32>(exp_(x.x), exp_(x.y), exp_(x.z), exp_(x.w)); }
fn exp1(x: f32) -> f32 { return exp_(x); }
fn most4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
return vec4<f32>(fmax_(a.x, b.x), fmax_(a.y, b.y), fmax_(a.z, b.z), fmax_(a.w, b.w)); }
fn most1(a: f32, b: f32) -> f32 { return fmax_(a, b); }"""


def softmax(name: str) -> Planner:
    """Return the planner of the softmax, or of its logarithm."""
    logarithm = name == "LogSoftmax"

    def plan_one(plan: Plan, logits: Slot, *, axis: int) -> Slot | None:
        x = logits
        y = plan.new(x.shape, x.dtype)
        if not y.size:
            return y
        n = x.shape[axis]
        row = Row(plan, x, n, math.prod(x.shape[axis + 1 :]))
        if not row.fits():
            return None
        t, w = row.type, row.lanes
        power = f"exp{w}({row.read('x')} - m)"
        keep = "" if logarithm or row.kind == "h" else row.write("y", "e")
        last = f"{power} * k" if row.kind == "h" else f"{row.read('y')} * k"
        last = f"{row.read('x')} - m - l" if logarithm else last
        body = f"""{row.begin()}
var most = {t}(fneg_(inf_()));
{row.loop(f"most = most{w}(most, {row.read('x')});")}
{row.total("m", "most", "fmax_({}, {})")}
var sum = {t}(0.0);
{row.loop(f"let e = {power}; {keep} sum += e;")}
{row.total("s", "sum", "({} + {})")}
if (!isfin_(m)) {{ s = nan_(); }}
let l = log_(s); let k = 1.0 / s;
{row.loop(row.write("y", last))}"""
        uses = {"x": Use(x, w), "y": Use(y, w, write=True)}
        row.run(plan, name, uses, body)
        return y

    return plan_one


def layer_norm(
    plan: Plan,
    x: Slot,
    scale: Slot | None = None,
    offset: Slot | None = None,
    *,
    axis: Shape,
    epsilon: float,
) -> Slot | None:
    """Normalize the last axes to mean 0 and variance 1, then scale and shift them."""
    n = _row_size(x.shape, axis, scale, offset)
    if n is None:
        return None
    y = plan.new(x.shape, x.dtype)
    if not y.size:
        return y
    row = Row(plan, x, n, 1)
    if not row.fits():
        return None
    row.params["epsilon"] = bits(epsilon, "f")
    row.params["size"] = bits(n, "f")
    uses: dict[str, Any] = {"x": Use(x, row.lanes), "y": Use(y, row.lanes, write=True)}
    last = f"({row.read('x')} - mu - d) * k"
    for name, slot, operator in (("scale", scale, "*"), ("offset", offset, "+")):
        if slot is not None:
            uses[name] = Use(slot, row.lanes)
            last = f"({last}) {operator} {row.read(name, 'j')}"
    body = f"{row.begin()}\n{_statistics(row)}\n{row.loop(row.write('y', last))}"
    row.run(plan, "LayerNorm", uses, body)
    return y


def _statistics(row: Row) -> str:
    """Return code for the mean ``mu + d`` of a row, and ``k``, 1 / its deviation.

    ``mu`` is the rounded mean, and ``d`` its error.
    """
    return f"""var sum = {row.type}(0.0);
{row.loop(f"sum += {row.read('x')};")}
{row.total("s", "sum", "({} + {})")}
let mu = s / p.size;
var squares = {row.type}(0.0);
var rest = {row.type}(0.0);
{row.loop(f"let q = {row.read('x')} - mu; squares += q * q; rest += q;")}
{row.total("v", "squares", "({} + {})")}
{row.total("r", "rest", "({} + {})")}
let d = r / p.size;
let w = v / p.size;
let variance = select(w, fmax_(w - d * d, 0.0), isfin_(w));
let k = 1.0 / sqrt_(variance + p.epsilon);"""


def _row_size(shape: Shape, axis: Shape, *given: Slot | None) -> int | None:
    """Return the elements of the last axes; None for other axes or other scales."""
    rank = len(shape)
    if not axis or tuple(axis) != tuple(range(rank - len(axis), rank)):
        return None
    own = shape[rank - len(axis) :]
    n = math.prod(own)
    fits = [
        v.size == n and v.shape[-len(axis) :] == own for v in given if v is not None
    ]
    return n if all(fits) else None


PLANNERS: dict[str, Planner] = {
    "LayerNorm": layer_norm,
    "LogSoftmax": softmax("LogSoftmax"),
    "Softmax": softmax("Softmax"),
}
