"""WGSL for the positions of windows: which elements a window reads, and the reverse."""

from __future__ import annotations

from collections.abc import Sequence

from plugrad.geometry import Windows

from ..source import Number

WHAT = ("in", "out", "window", "stride", "dilation", "pad")


class Geometry:
    """The numbers of windows as parameters, and code that uses them.

    Coordinates are i32 variables with the number of the axis at the end: q0, q1.
    """

    def __init__(self, windows: Windows) -> None:
        self.rank = len(windows.window)
        self.params: dict[str, Number] = {}
        for a in range(self.rank):
            values = (
                windows.in_shape[a + 1],
                windows.out_shape[a + 1],
                windows.window[a],
                windows.strides[a],
                windows.dilations[a],
                windows.padding[a][0],
            )
            self.params |= {f"{k}_{a}": v for k, v in zip(WHAT, values, strict=True)}

    def split(self, index: str, what: str, name: str) -> str:
        """Return code that splits a number into coordinates and a batch."""
        lines, left = [], index
        for a in range(self.rank - 1, -1, -1):
            lines.append(f"let {name}left{a} = {left} / p.{what}_{a};")
            lines.append(f"let {name}{a} = i32({left} % p.{what}_{a});")
            left = f"{name}left{a}"
        return "\n".join([*lines, f"let {name}n = {left};\n"])

    def loops(self, inner: str, what: str = "window", name: str = "h") -> str:
        """Return loops over coordinates, row by row."""
        heads = [
            f"for (var {name}{a} = 0; {name}{a} < i32(p.{what}_{a}); {name}{a}++) {{"
            for a in range(self.rank)
        ]
        return "\n".join([*heads, inner, "}" * self.rank + "\n"])

    def number(self, name: str, what: str, batch: str = "") -> str:
        """Return the number of coordinates, row by row, in a batch."""
        text = batch or "0u"
        for a in range(self.rank):
            text = f"({text} * p.{what}_{a} + u32({name}{a}))"
        return text

    def read(self, window: str, position: str, name: str) -> str:
        """Return code for the element that a window reads, and whether it is inside."""
        lines = [
            f"let {name}{a} = {window}{a} * i32(p.stride_{a}) + {position}{a} * "
            f"i32(p.dilation_{a}) - i32(p.pad_{a});"
            for a in range(self.rank)
        ]
        return "\n".join([*lines, f"let {name}ok = {self._inside(name)};\n"])

    def _inside(self, name: str) -> str:
        checks = [
            f"{name}{a} >= 0 && {name}{a} < i32(p.in_{a})" for a in range(self.rank)
        ]
        return " && ".join(checks)

    def readers(self, element: str, position: str, name: str) -> str:
        """Return code for the window that reads an element, if there is one."""
        lines, checks = [], []
        for a in range(self.rank):
            lines.append(
                f"let {name}way{a} = {element}{a} + i32(p.pad_{a}) - {position}{a} * "
                f"i32(p.dilation_{a});"
            )
            lines.append(f"let {name}{a} = {name}way{a} / i32(p.stride_{a});")
            checks += [
                f"{name}way{a} >= 0",
                f"{name}{a} * i32(p.stride_{a}) == {name}way{a}",
                f"{name}{a} < i32(p.out_{a})",
            ]
        return "\n".join([*lines, f"let {name}ok = {' && '.join(checks)};\n"])


def turns(sizes: Sequence[int]) -> int:
    """Return the turns of nested loops, those of the outer ones included."""
    total, count = 0, 1
    for size in sizes:
        count *= size
        total += count
    return total
