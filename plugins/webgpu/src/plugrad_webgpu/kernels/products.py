"""Products of matrices: each thread computes a tile of the result in registers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from plugrad.geometry import broadcast_strides, collapse_axes

from ..plans import Plan, Planner, Slot, Use
from ..source import (
    AXIS_GROUPS,
    LOOP_TURNS,
    VALUE,
    XYZW,
    Number,
    loaded,
    offsets,
    stored,
)

TILE = 8  # rows and columns of a thread
THREADS = 8  # along rows and columns, in a work group
TILED_MIN_ELEMENTS = 1024  # smaller results have a thread for each element


def tile_head(x: int, y: int) -> str:
    """Return an entry point with columns ``tx``, rows ``ty`` and batches ``tz``."""
    return f"""@compute @workgroup_size({x}, {y})
fn main(@builtin(global_invocation_id) gid: vec3<u32>) {{
let tx = gid.x; let ty = gid.y; let tz = gid.z;"""


class Tile(NamedTuple):
    """The code of a tile of 8x8 elements; c0_1 has columns 4 to 7 of row 0."""

    kind: str

    def begin(self) -> str:
        """Return code that sets the accumulators to zero."""
        t = f"vec4<{VALUE[self.kind]}>"
        return "\n".join(
            [f"var c{q}_{h} = {t}();" for q in range(TILE) for h in (0, 1)]
        )

    def add(self, row: str, column: str) -> str:
        """Return code that adds the products of row values and two column vectors.

        ``row`` is the expression of a row's number, with ``#`` for the row; ``column``
        that of a vector of four columns, with ``#`` for 0 or 1.
        """
        lines = []
        for q in range(TILE):
            for h in (0, 1):
                a = row.replace("#", str(q)).replace("%", f"{q // 4}.{XYZW[q % 4]}")
                lines.append(f"c{q}_{h} += {a} * {column.replace('#', str(h))};")
        return "\n".join(lines)

    def vector_store(self, out: str, start: str, row: str) -> str:
        """Return code that stores rows of vectors."""
        lines = []
        for q in range(TILE):
            at = f"{start} + (i + {q}u) * {row}"
            one = f"{out}[{at}] = {stored(self.kind, f'c{q}_0', 4)};"
            two = f"{out}[{at} + 1u] = {stored(self.kind, f'c{q}_1', 4)};"
            lines.append(
                f"if (i + {q}u < p.m) {{ {one} if (j + 4u < p.n) {{ {two} }} }}"
            )
        return "\n".join(lines)

    def scalar_store(self, out: str, start: str, row: str) -> str:
        """Return code that stores single elements."""
        lines = []
        for q in range(TILE):
            for c in range(TILE):
                value = stored(self.kind, f"c{q}_{c // 4}.{XYZW[c % 4]}")
                lines.append(
                    f"if (i + {q}u < p.m && j + {c}u < p.n) "
                    f"{{ {out}[{start} + (i + {q}u) * {row} + {c}u] = {value}; }}"
                )
        return "\n".join(lines)


class Sizes(NamedTuple):
    """The sizes of a product, and the axes of its batch with strides of a and b."""

    m: int
    n: int
    k: int
    ta: bool
    tb: bool
    axes: tuple[tuple[int, ...], ...]
    batch: int


def batch_matmul(
    plan: Plan, a: Slot, b: Slot, *, transpose_a: bool, transpose_b: bool
) -> Slot | None:
    """Multiply matrices."""
    m, k = a.shape[-2:][::-1] if transpose_a else a.shape[-2:]
    n = b.shape[-2] if transpose_b else b.shape[-1]
    from ..elementwise import broadcast

    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    y = plan.new((*batch, m, n), a.dtype)
    if a.kind == "b":
        return None
    if not y.size:
        return y
    steps_a = [s * m * k for s in broadcast_strides(a.shape[:-2], len(batch))]
    steps_b = [s * k * n for s in broadcast_strides(b.shape[:-2], len(batch))]
    axes = collapse_axes(batch, steps_a, steps_b)
    sizes = Sizes(m, n, k, transpose_a, transpose_b, axes, math.prod(batch))
    many = max(m, n) > TILE * THREADS * AXIS_GROUPS or sizes.batch > AXIS_GROUPS
    if m * n < TILED_MIN_ELEMENTS or many or k > LOOP_TURNS:
        _small(plan, a, b, y, sizes)
    elif k % 4 == 0 and n % 4 == 0 and not (transpose_a and m % 4):
        _vectors(plan, a, b, y, sizes)
    else:
        _scalars(plan, a, b, y, sizes)
    return y


def _params(sizes: Sizes) -> dict[str, Number]:
    m, n, k, ta, tb, axes, _ = sizes
    params: dict[str, Number] = {"m": m, "n": n, "k": k}
    params |= {"am": 1 if ta else k, "ak": m if ta else 1}
    params |= {"bk": 1 if tb else n, "bn": k if tb else 1}
    for i, (size, step_a, step_b) in enumerate(axes):
        params |= {f"n{i}": size, f"a{i}": step_a, f"b{i}": step_b}
    return params


def _places(sizes: Sizes, index: str) -> str:
    """Return code that sets ``ao`` and ``bo``, where the matrices of a batch begin."""
    names = range(len(sizes.axes))
    steps = {"ao": [f"p.a{i}" for i in names], "bo": [f"p.b{i}" for i in names]}
    code = offsets([f"p.n{i}" for i in names], index, steps)
    return "var ao = 0u; var bo = 0u;\n" + code


def _small(plan: Plan, a: Slot, b: Slot, y: Slot, sizes: Sizes) -> None:
    """Compute each element in a thread, in blocks that loops of llvmpipe can finish."""
    if sizes.k > LOOP_TURNS // 2:
        _split(plan, a, b, y, sizes)
        return
    read_a = loaded(a.kind, "a[ao + l * p.ak]")
    read_b = loaded(b.kind, "b[bo + l * p.bk]")
    body = f"""let j = id % p.n; let left = id / p.n; let i = left % p.m;
{_places(sizes, "(left / p.m)")}
ao += i * p.am; bo += j * p.bn;
var s = {VALUE[a.kind]}(0);
for (var l = 0u; l < p.k; l++) {{ s += {read_a} * {read_b}; }}
y[id] = {stored(y.kind, "s")};"""
    uses = {"a": Use(a), "b": Use(b), "y": Use(y, write=True)}
    plan.run("BatchMatMul", uses, _params(sizes), body, y.size, threads=64)


def _split(plan: Plan, a: Slot, b: Slot, y: Slot, sizes: Sizes) -> None:
    """Add up products of parts of the inner axis."""
    from .reduce import PART_TURNS, _launch, layout

    count = -(-sizes.k // PART_TURNS)
    wide = np.dtype("float32") if y.kind == "h" else y.dtype
    partial = plan.new((count, y.size), wide)
    read_a = loaded(a.kind, "a[ao + l * p.ak]")
    read_b = loaded(b.kind, "b[bo + l * p.bk]")
    body = f"""let inner = id % p.size; let part = id / p.size;
let j = inner % p.n; let left = inner / p.n; let i = left % p.m;
{_places(sizes, "(left / p.m)")}
ao += i * p.am; bo += j * p.bn;
var s = {VALUE[a.kind]}(0);
for (var l = part * p.part; l < min(p.k, (part + 1u) * p.part); l++) {{
s += {read_a} * {read_b}; }}
sums[id] = s;"""
    uses = {"a": Use(a), "b": Use(b), "sums": Use(partial, write=True)}
    params = _params(sizes) | {"size": y.size, "part": PART_TURNS}
    plan.run("BatchMatMul", uses, params, body, partial.size, threads=64)
    _launch(plan, "Sum", partial, y, layout(partial.shape, (0,)), 1, 0)


def _run_tiles(
    plan: Plan, a: Slot, b: Slot, y: Slot, sizes: Sizes, lines: list[str], *, lanes: int
) -> None:
    """Record a kernel whose threads each compute a tile of ``y``."""
    uses = {"a": Use(a, lanes), "b": Use(b, lanes), "y": Use(y, lanes, write=True)}
    tiles = -(-sizes.n // (TILE * THREADS)), -(-sizes.m // (TILE * THREADS))
    plan.run(
        "BatchMatMul",
        uses,
        _params(sizes),
        "\n".join(lines),
        y.size,
        head=tile_head(THREADS, THREADS),
        grid=(*tiles, sizes.batch),
    )


def _vectors(plan: Plan, a: Slot, b: Slot, y: Slot, sizes: Sizes) -> None:
    """Compute tiles; all reads and writes are of four neighbors."""
    tile = Tile(a.kind)
    lines = [
        f"let i = ty * {TILE}u; let j = tx * {TILE}u;",
        "if (i >= p.m || j >= p.n) { return; }",
        _places(sizes, "tz"),
        "ao = ao / 4u; bo = bo / 4u; let k4 = p.k / 4u; let n4 = p.n / 4u;",
        tile.begin(),
        _starts(sizes),
        "for (var l = 0u; l < k4; l++) {",
        _reads(a.kind, sizes),
    ]
    for d in range(4):
        lines.append(_columns(a.kind, sizes, d))
        row = f"a{d}_%" if sizes.ta else f"a#.{XYZW[d]}"
        lines.append(tile.add(row, f"b{d}_#"))
    lines += ["}", "let yo = (tz * p.m * p.n + j) / 4u;"]
    lines.append(tile.vector_store("y", "yo", "n4"))
    _run_tiles(plan, a, b, y, sizes, lines, lanes=4)


def _starts(sizes: Sizes) -> str:
    """Return code for where the rows of a and the columns of b begin."""
    lines = []
    if sizes.ta:
        lines.append("let m4 = p.m / 4u; let i0 = ao + i / 4u;")
        lines.append("let i1 = ao + min(i / 4u + 1u, m4 - 1u);")
    else:
        for q in range(TILE):
            lines.append(f"let r{q} = ao + min(i + {q}u, p.m - 1u) * k4;")
    if sizes.tb:
        for q in range(TILE):
            lines.append(f"let s{q} = bo + min(j + {q}u, p.n - 1u) * k4;")
    else:
        lines.append("let j0 = bo + j / 4u; let j1 = bo + min(j / 4u + 1u, n4 - 1u);")
    return "\n".join(lines)


def _reads(kind: str, sizes: Sizes) -> str:
    """Return code that reads what is contiguous along the inner axis."""
    lines = []
    for q in range(TILE):
        if not sizes.ta:
            lines.append(f"let a{q} = {loaded(kind, f'a[r{q} + l]', 4)};")
        if sizes.tb:
            lines.append(f"let t{q} = {loaded(kind, f'b[s{q} + l]', 4)};")
    return "\n".join(lines)


def _columns(kind: str, sizes: Sizes, d: int) -> str:
    """Return code for the values of the step ``4 * l + d``, such as b0_0 and a0_0."""
    lines = []
    for h in (0, 1):
        if sizes.ta:
            read = loaded(kind, f"a[i{h} + (4u * l + {d}u) * m4]", 4)
            lines.append(f"let a{d}_{h} = {read};")
        if sizes.tb:
            values = ", ".join([f"t{4 * h + q}.{XYZW[d]}" for q in range(4)])
            lines.append(f"let b{d}_{h} = vec4<{VALUE[kind]}>({values});")
        else:
            read = loaded(kind, f"b[j{h} + (4u * l + {d}u) * n4]", 4)
            lines.append(f"let b{d}_{h} = {read};")
    return "\n".join(lines)


def _scalars(plan: Plan, a: Slot, b: Slot, y: Slot, sizes: Sizes) -> None:
    """Compute tiles of any size with reads of single elements."""
    tile = Tile(a.kind)
    lines = [
        f"let i = ty * {TILE}u; let j = tx * {TILE}u;",
        "if (i >= p.m || j >= p.n) { return; }",
        _places(sizes, "tz"),
        tile.begin(),
    ]
    for q in range(TILE):
        lines.append(f"let r{q} = ao + min(i + {q}u, p.m - 1u) * p.am;")
        lines.append(f"let s{q} = bo + min(j + {q}u, p.n - 1u) * p.bn;")
    lines.append("for (var l = 0u; l < p.k; l++) {")
    for q in range(TILE):
        lines.append(f"let a{q} = {loaded(a.kind, f'a[r{q} + l * p.ak]')};")
    for h in (0, 1):
        reads = [loaded(b.kind, f"b[s{4 * h + q} + l * p.bk]") for q in range(4)]
        lines.append(f"let b{h} = vec4<{VALUE[b.kind]}>({', '.join(reads)});")
    lines += [tile.add("a#", "b#"), "}", "let yo = tz * p.m * p.n + j;"]
    lines.append(tile.scalar_store("y", "yo", "p.n"))
    _run_tiles(plan, a, b, y, sizes, lines, lanes=1)


PLANNERS: dict[str, Planner] = {"BatchMatMul": batch_matmul}
