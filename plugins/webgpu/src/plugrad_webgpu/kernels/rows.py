"""Kernels that normalize rows: softmax and layer normalization.

Threads of a workgroup share a long row, and keep their elements in registers if these
are few enough. Otherwise a thread computes a row on a CPU, and reads it in each loop.
"""

from __future__ import annotations

import math
from typing import Any

from ..arrays import Shape
from ..plans import Plan, Planner, Slot, Use
from ..source import LOOP_TURNS, Number, bits, loaded, stored

GPU_THREADS = 128
CPU_THREADS = 8  # as many as llvmpipe has lanes, so that barriers cost little
GROUPED_FROM = 256  # the elements of a row from which threads share it
KEPT_ON_GPU = 8  # vectors that a thread keeps in registers
KEPT_ON_CPU = 32
PASSES = 3  # loops over a row


class Row:
    """Code for loops over a row, by one thread or by a workgroup.

    Attributes:
        grouped: Whether a workgroup shares the row.
        kept: The vectors that each of its threads keeps; 0 if loops read them again.

    """

    def __init__(self, plan: Plan, x: Slot, n: int, inner: int) -> None:
        """Begin for rows of ``n`` elements that are ``inner`` apart."""
        on_cpu = plan.device.is_cpu
        self.lanes = 4 if inner == 1 and n % 4 == 0 else 1
        self.count = x.size // n
        self.kind = x.kind
        self.turns = n // self.lanes
        self.params: dict[str, Number] = {"n": self.turns, "inner": inner}
        self.threads = CPU_THREADS if on_cpu else GPU_THREADS
        share = -(-self.turns // self.threads)
        fits = share <= (KEPT_ON_CPU if on_cpu else KEPT_ON_GPU)
        self.kept = share if fits and n >= GROUPED_FROM and self.lanes == 4 else 0
        self.grouped = bool(self.kept) or (n >= GROUPED_FROM and not on_cpu)

    def fits(self) -> bool:
        """Return whether llvmpipe can finish the loops of a thread."""
        share = self.threads if self.grouped else 1
        return self.turns // share * PASSES < LOOP_TURNS

    @property
    def type(self) -> str:
        """The type of a value in a loop."""
        return "vec4<f32>" if self.lanes == 4 else "f32"

    def begin(self) -> str:
        """Return code for where the row begins."""
        registers = f"var kept: array<vec4<f32>, {self.kept}>;" if self.kept else ""
        return f"let at = id / p.inner * p.inner * p.n + id % p.inner; {registers}"

    def loop(self, body: str, *, first: bool = False) -> str:
        """Return a loop over the elements ``v`` of x, or vectors of four of them.

        ``j`` is the number of an element in its row, and ``i`` its place. The first
        loop over a row keeps the elements for the others.
        """
        read = f"let v = {self.read('x')};"
        if self.kept:
            read = f"{read} kept[t] = v;" if first else "let v = kept[t];"
            inside = f"let i = at + j; {read} {body}"
            if self.turns % self.threads:
                inside = f"if (j < p.n) {{ {inside} }}"
            return f"""for (var t = 0u; t < {self.kept}u; t++) {{
let j = lid + t * {self.threads}u; {inside} }}"""
        start, by = ("lid", f"{self.threads}u") if self.grouped else ("0u", "1u")
        return f"""for (var j = {start}; j < p.n; j += {by}) {{
let i = at + j * p.inner; {read} {body} }}"""

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
for (var h = {self.threads // 2}u; h > 0u; h = h / 2u) {{
if (lid < h) {{ shared_[lid] = {both}; }}
workgroupBarrier(); }}
{name} = shared_[0]; workgroupBarrier();""")
        return "\n".join(lines)

    def run(self, plan: Plan, name: str, uses: dict[str, Use], body: str) -> None:
        """Record the kernel."""
        more = LIBRARY
        if self.grouped:
            more += f"\nvar<workgroup> shared_: array<f32, {self.threads}>;"
        plan.run(
            name,
            uses,
            self.params,
            body,
            self.count,
            threads=self.threads if self.grouped else 32,
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
        power = f"exp{w}(v - m)"
        keep, last = _powers(row, power)
        if logarithm:
            keep, last = "", "v - m - l"
        body = f"""{row.begin()}
var most = {t}(fneg_(inf_()));
{row.loop(f"most = most{w}(most, v);", first=True)}
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


def _powers(row: Row, power: str) -> tuple[str, str]:
    """Return code that keeps the powers ``e``, and the softmax from them."""
    if row.kept:
        return "kept[t] = e;", "v * k"
    if row.kind == "h":  # y would round them
        return "", f"{power} * k"
    return row.write("y", "e"), f"{row.read('y')} * k"


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
    last = "(v - mu - d) * k"
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
{row.loop("sum += v;", first=True)}
{row.total("s", "sum", "({} + {})")}
let mu = s / p.size;
var squares = {row.type}(0.0);
var rest = {row.type}(0.0);
{row.loop("let q = v - mu; squares += q * q; rest += q;")}
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
