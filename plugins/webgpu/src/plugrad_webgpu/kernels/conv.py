"""Convolutions and their gradients as implicit products of matrices.

A thread computes 8 rows (pixels) and 8 columns (channels), as in ``products``. The rows
of the left matrix are never stored: each is read where the window begins.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from plugrad.geometry import Shape, Windows

from ..plans import Plan, Planner, Slot, Use
from ..source import AXIS_GROUPS, LOOP_TURNS, VALUE, XYZW, Number, loaded
from .products import TILE, Tile, tile_head
from .reduce import reduce
from .windows import Geometry, turns

FLOAT32 = np.dtype("float32")
FILTER_PARTS = 64  # parts into which the pixels of a filter's gradient are split


class Channels(NamedTuple):
    """The channels of a group: those that are added up (depth) and the results."""

    depth: int
    columns: int
    groups: int

    @property
    def vectors(self) -> bool:
        """Whether four neighbors can be read and written together."""
        return self.depth % 4 == 0 and self.columns % 4 == 0


def conv(plan: Plan, x: Slot, filter: Slot, *, geometry: Windows) -> Slot | None:
    """Return the convolution of ``x`` with a filter."""
    g = geometry
    y = plan.new(g.out_shape, x.dtype)
    own = Channels(g.in_shape[-1] // g.groups, g.out_shape[-1] // g.groups, g.groups)
    return _pixels(plan, "Conv", x, filter, y, g, own, back=False)


def conv_input(plan: Plan, dy: Slot, filter: Slot, *, geometry: Windows) -> Slot | None:
    """Return the gradient with respect to the input."""
    g = geometry
    dx = plan.new(g.in_shape, dy.dtype)
    own = Channels(g.out_shape[-1] // g.groups, g.in_shape[-1] // g.groups, g.groups)
    return _pixels(plan, "ConvInput", dy, filter, dx, g, own, back=True)


def _pixels(
    plan: Plan,
    name: str,
    x: Slot,
    filter: Slot,
    y: Slot,
    g: Windows,
    own: Channels,
    *,
    back: bool,
) -> Slot | None:
    """Record the product whose rows are the pixels of ``y``."""
    pixels = y.size // max(y.shape[-1], 1)
    if not _fits(x, g, own, pixels):
        return None
    if not y.size:
        return y
    if not x.size or not filter.size:
        from .shape import fill

        return fill(plan, shape=y.shape, value=0, dtype=y.dtype)
    width = 8 if own.columns > TILE else 1
    grid = (
        -(-own.columns // (TILE * width)),
        -(-pixels // (TILE * (64 // width))),
        own.groups,
    )
    lanes = 4 if own.vectors else 1
    uses = {"x": Use(x, lanes), "f": Use(filter, lanes), "y": Use(y, lanes, write=True)}
    geometry = Geometry(g)
    params = geometry.params | _sizes(g, own, x, y, pixels)
    body = _pixels_body(geometry, x.kind, own.vectors, back)
    head = tile_head(width, 64 // width)
    plan.run(name, uses, params, body, y.size, head=head, grid=grid)
    return y


def _fits(x: Slot, g: Windows, own: Channels, pixels: int) -> bool:
    """Return whether the loops and the grid of the product are short enough."""
    inner = own.depth // 4 if own.vectors else own.depth
    return (
        x.kind != "b"
        and turns([*g.window, inner]) <= LOOP_TURNS
        and own.groups <= AXIS_GROUPS
        and pixels <= TILE * 8 * AXIS_GROUPS
    )


def _sizes(
    g: Windows, own: Channels, x: Slot, y: Slot, pixels: int
) -> dict[str, Number]:
    """Return the parameters of the product, besides those of the windows."""
    return {
        "m": pixels,
        "n": own.columns,
        "depth": own.depth,
        "filters": g.out_shape[-1],
        "per_group": g.in_shape[-1] // g.groups,
        "x_channels": x.shape[-1],
        "y_channels": y.shape[-1],
    }


def _pixels_body(geometry: Geometry, kind: str, vectors: bool, back: bool) -> str:
    """Return the statements of a thread: its pixels, the loops, and the stores."""
    tile = Tile(kind)
    stores = (
        tile.vector_store("y", "yo / 4u", "(p.y_channels / 4u)")
        if vectors
        else tile.scalar_store("y", "yo", "p.y_channels")
    )
    lines = [
        f"let i = ty * {TILE}u; let j = tx * {TILE}u;",
        "if (i >= p.m || j >= p.n) { return; }",
        tile.begin(),
        *[_pixel(geometry, q, back) for q in range(TILE)],
        "var hh = 0u;",
        geometry.loops(_position(geometry, kind, vectors, back)),
        "let yo = tz * p.n + j;",
        stores,
    ]
    return "\n".join(lines)


def _pixel(geometry: Geometry, q: int, back: bool) -> str:
    """Return code for the coordinates of a row."""
    code = f"let pixel{q} = min(i + {q}u, p.m - 1u);\n"
    return code + geometry.split(f"pixel{q}", "in" if back else "out", f"q{q}_")


def _position(geometry: Geometry, kind: str, vectors: bool, back: bool) -> str:
    """Return code that adds the products of one position in the window."""
    what = "out" if back else "in"
    lines = []
    find = geometry.readers if back else geometry.read
    lanes = 4 if vectors else 1
    for q in range(TILE):
        lines.append(find(f"q{q}_", "h", f"i{q}_"))
        at = geometry.number(f"i{q}_", what, f"q{q}_n")
        start = f"({at} * p.x_channels + tz * p.depth) / {lanes}u"
        lines.append(f"let r{q} = select(0u, {start}, i{q}_ok);")
    group = "tz * p.depth" if back else "tz * p.n"
    lines.append(f"let fo = hh * p.per_group * p.filters + {group}; hh++;")
    lines.append(f"for (var l = 0u; l < p.depth / {lanes}u; l++) {{")
    t = f"vec4<{VALUE[kind]}>" if vectors else VALUE[kind]
    for q in range(TILE):
        value = loaded(kind, f"x[r{q} + l]", lanes)
        zero = f"{t}()" if vectors else f"{t}(0)"
        lines.append(f"let a{q} = select({zero}, {value}, i{q}_ok);")
    lines.append(_filter_reads(kind, vectors, back))
    tile = Tile(kind)
    for d in range(lanes):
        lines.append(_filter_columns(kind, vectors, back, d))
        lines.append(tile.add(f"a#.{XYZW[d]}" if vectors else "a#", f"b{d}_#"))
    return "\n".join([*lines, "}"])


def _filter_reads(kind: str, vectors: bool, back: bool) -> str:
    """Return code that reads the filter along its last axis, for gradients."""
    if not (vectors and back):
        return ""
    return "\n".join(
        [
            f"let t{q} = "
            + loaded(kind, f"f[(fo + min(j + {q}u, p.n - 1u) * p.filters) / 4u + l]", 4)
            + ";"
            for q in range(TILE)
        ]
    )


def _filter_columns(kind: str, vectors: bool, back: bool, d: int) -> str:
    """Return code for the columns of the filter at the step ``d``."""
    lines = []
    for h in (0, 1):
        if vectors and back:
            values = [f"t{4 * h + q}.{XYZW[d]}" for q in range(4)]
        elif vectors:
            column = f"min(j + {4 * h}u, p.n - 4u)"
            at = f"f[(fo + (4u * l + {d}u) * p.filters + {column}) / 4u]"
            lines.append(f"let b{d}_{h} = {loaded(kind, at, 4)};")
            continue
        else:
            values = []
            for q in range(4):
                column = f"min(j + {4 * h + q}u, p.n - 1u)"
                at = (
                    f"{column} * p.filters + l" if back else f"l * p.filters + {column}"
                )
                values.append(loaded(kind, f"f[fo + {at}]"))
        lines.append(f"let b{d}_{h} = vec4<{VALUE[kind]}>({', '.join(values)});")
    return "\n".join(lines)


def conv_filter(
    plan: Plan, x: Slot, dy: Slot, *, geometry: Windows, shape: Shape | None = None
) -> Slot | None:
    """Return the gradient with respect to the filter."""
    g = geometry
    shape = shape or g.filter_shape
    n = math.prod(shape)
    columns = g.out_shape[-1] // g.groups
    depth = g.in_shape[-1] // g.groups
    if x.kind == "b" or not n or not x.size or not dy.size:
        from .shape import fill

        return (
            None if x.kind == "b" else fill(plan, shape=shape, value=0, dtype=x.dtype)
        )
    rows = g.out_shape[0] * g.out_shape[1]  # of pixels
    inner = turns(g.out_shape[2:-1]) or 1
    parts = max(1, min(FILTER_PARTS, AXIS_GROUPS // g.groups))
    per_part = max(1, min(-(-rows // parts), LOOP_TURNS // (inner + 1)))
    count = -(-rows // per_part)
    if (
        inner > LOOP_TURNS
        or count * n * 4 > plan.device.max_nbytes
        or count * g.groups > AXIS_GROUPS
    ):
        return None
    vectors = columns % 4 == 0 and depth % 4 == 0
    sums = plan.new((count, *shape), FLOAT32 if x.kind == "h" else x.dtype)
    _filter_tiles(
        plan, x, dy, sums, g, Channels(depth, columns, g.groups), vectors, per_part
    )
    return reduce(plan, "Sum", sums, (0,), shape, dtype=x.dtype)


def _filter_tiles(
    plan: Plan,
    x: Slot,
    dy: Slot,
    sums: Slot,
    g: Windows,
    own: Channels,
    vectors: bool,
    per_part: int,
) -> None:
    """Record products whose rows are channels of x, and columns those of dy."""
    geometry = Geometry(g)
    window = math.prod(g.window)
    count = sums.shape[0]
    blocks = -(-own.depth // TILE)
    params = geometry.params | {
        "m": own.depth,
        "n": own.columns,
        "channels": g.in_shape[-1],
        "filters": g.out_shape[-1],
        "rows": g.out_shape[0] * g.out_shape[1],
        "part": per_part,
        "blocks": blocks,
        "positions": window,
        "groups": g.groups,
        "size": window * own.depth * g.out_shape[-1],
    }
    lanes = 4 if vectors else 1
    uses = {"x": Use(x, lanes), "d": Use(dy, lanes), "y": Use(sums, lanes, write=True)}
    few = own.columns <= TILE and window * blocks < 4
    width, height = (1, 1) if few else (2, 16)
    grid = (
        -(-own.columns // (TILE * width)),
        -(-window * blocks // height),
        count * own.groups,
    )
    body = _filter_body(geometry, x.kind, sums.kind, vectors)
    head = tile_head(width, height)
    plan.run("ConvFilter", uses, params, body, sums.size, head=head, grid=grid)


def _filter_body(geometry: Geometry, kind: str, sum_kind: str, vectors: bool) -> str:
    """Return the statements of a thread: its channels, the loops, and the stores."""
    inner = _filter_step(geometry, kind, vectors)
    for a in range(geometry.rank - 1, 0, -1):
        inner = f"for (var q{a} = 0; q{a} < i32(p.out_{a}); q{a}++) {{\n{inner}\n}}"
    tile = Tile(sum_kind)
    stores = (
        tile.vector_store("y", "yo / 4u", "(p.filters / 4u)")
        if vectors
        else tile.scalar_store("y", "yo", "p.filters")
    )
    lines = [
        f"let position = ty / p.blocks; let i = ty % p.blocks * {TILE}u;",
        f"let j = tx * {TILE}u;",
        "let group = tz % p.groups; let part = tz / p.groups;",
        "if (position >= p.positions || j >= p.n) { return; }",
        geometry.split("position", "window", "h"),
        tile.begin(),
        "let end = min(p.rows, (part + 1u) * p.part);",
        "for (var row = part * p.part; row < end; row++) {",
        "let n = row / p.out_0; let q0 = i32(row % p.out_0);",
        inner,
        "}",
        "let yo = part * p.size + position * p.m * p.filters + group * p.n + j;",
        stores,
    ]
    return "\n".join(lines)


def _filter_step(geometry: Geometry, kind: str, vectors: bool) -> str:
    """Return code that adds the products of one pixel."""
    tile = Tile(kind)
    at_x = geometry.number("e", "in", "n")
    at_d = geometry.number("q", "out", "n")
    lines = [
        geometry.read("q", "h", "e"),
        "if (eok) {",
        f"let r = {at_x} * p.channels + group * p.m;",
        f"let s = {at_d} * p.filters + group * p.n;",
    ]
    for h in (0, 1):
        if vectors:
            read = loaded(kind, f"x[(r + min(i + {4 * h}u, p.m - 4u)) / 4u]", 4)
            lines.append(f"let a_{h} = {read};")
            read = loaded(kind, f"d[(s + min(j + {4 * h}u, p.n - 4u)) / 4u]", 4)
            lines.append(f"let b{h} = {read};")
            continue
        for letter, name, source, first, end in (
            ("a_", "x", "r", "i", "p.m"),
            ("b", "d", "s", "j", "p.n"),
        ):
            values = [
                loaded(
                    kind, f"{name}[{source} + min({first} + {4 * h + q}u, {end} - 1u)]"
                )
                for q in range(4)
            ]
            vector = f"vec4<{VALUE[kind]}>({', '.join(values)})"
            lines.append(f"let {letter}{h} = {vector};")
    lines.append(tile.add("a_%", "b#"))
    return "\n".join([*lines, "}"])


def depthwise_filter(
    plan: Plan, x: Slot, dy: Slot, *, geometry: Windows
) -> Slot | None:
    """Return the gradient of a depthwise convolution with respect to the filter."""
    g = geometry
    c = g.in_shape[-1]
    shape = (*g.window, c, g.out_shape[-1] // c)
    return conv_filter(plan, x, dy, geometry=g, shape=shape)


PLANNERS: dict[str, Planner] = {
    "Conv2D": conv,
    "Conv2DBackpropFilter": conv_filter,
    "Conv2DBackpropInput": conv_input,
    "Conv3D": conv,
    "Conv3DBackpropFilterV2": conv_filter,
    "Conv3DBackpropInputV2": conv_input,
    "DepthwiseConv2dNative": conv,
    "DepthwiseConv2dNativeBackpropFilter": depthwise_filter,
    "DepthwiseConv2dNativeBackpropInput": conv_input,
}
