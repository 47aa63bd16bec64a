"""Writes LLVM IR: a module, the lines of a function, and vectors with operators.

The operators of ``Vector`` write one instruction each, in the order in which they are
evaluated. None is contracted or reordered, so what they compute is known to the bit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

# Elements by kind: float32, float64, bool in registers, int32, bool in memory.
ELEMENTS = {"f": "float", "d": "double", "?": "i1", "i": "i32", "b": "i8"}
SIZES = {"f": 4, "d": 8, "b": 1}
SUFFIXES = {"f": "f32", "d": "f64"}
# Vectors as wide as a register, although LLVM prefers narrower ones on some processors.
ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'
Number = float | int


@dataclass
class Module:
    """Functions, and the declarations that they need.

    Attributes:
        lanes: The elements of float32 that a register of the processor has.
        fused: Whether the processor has fused multiply-add.

    """

    lanes: int
    fused: bool
    functions: dict[str, str] = field(default_factory=dict)
    declarations: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        declared = sorted(f"declare {text}" for text in self.declarations)
        return "\n".join([*self.functions.values(), *declared, ATTRIBUTES])

    def define(self, name: str, head: str, code: Code) -> None:
        """Add a function: ``head`` is like ``void @run(ptr %x)``."""
        body = "\n  ".join(code.lines)
        self.functions[name] = f"define {head} #0 {{\nentry:\n  {body}\n}}"


class Code:
    """The lines of a function, most of whose vectors have ``lanes`` elements."""

    def __init__(self, module: Module, lanes: int) -> None:
        self.module, self.lanes = module, lanes
        self.lines: list[str] = []
        self.label, self.count = "entry", 0

    def name(self, prefix: str = "v") -> str:
        """Return a name that is not in use."""
        self.count += 1
        return f"{prefix}{self.count}"

    def put(self, text: str) -> str:
        """Add an instruction; return the name of its result."""
        name = "%" + self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Add an instruction without a result."""
        self.lines.append(text)

    def place(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def goto(self, label: str) -> None:
        """Begin the block that follows."""
        self.do(f"br label %{label}")
        self.place(label)

    # --- vectors -----------------------------------------------------------------

    def type(self, kind: str, lanes: int = 0) -> str:
        """Return the type of vectors."""
        return f"<{lanes or self.lanes} x {ELEMENTS[kind]}>"

    def constant(self, value: Number, kind: str = "f", lanes: int = 0) -> Vector:
        """Return a vector that has one value in all lanes."""
        text = f"splat ({ELEMENTS[kind]} {literal(value, kind)})"
        return Vector(self, text, kind, lanes or self.lanes)

    def splat(self, scalar: str, kind: str, lanes: int = 0) -> Vector:
        """Return a vector that has a scalar in all lanes."""
        lanes = lanes or self.lanes
        of = self.type(kind, lanes)
        element = ELEMENTS[kind]
        one = self.put(f"insertelement {of} poison, {element} {scalar}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        all_lanes = self.put(f"shufflevector {of} {one}, {of} poison, {zeros}")
        return Vector(self, all_lanes, kind, lanes)

    def at(self, pointer: str, kind: str, index: str) -> str:
        """Return the address of an element."""
        memory = ELEMENTS["b" if kind == "?" else kind]
        return self.put(f"getelementptr {memory}, ptr {pointer}, i64 {index}")

    def load(self, address: str, kind: str, lanes: int = 0) -> Vector:
        """Read neighbouring elements."""
        stored = "b" if kind == "?" else kind
        lanes = lanes or self.lanes
        of = self.type(stored, lanes)
        size = SIZES[stored]
        got = Vector(
            self, self.put(f"load {of}, ptr {address}, align {size}"), stored, lanes
        )
        return got.truth() if kind == "?" else got

    def load_one(self, address: str, kind: str) -> Vector:
        """Read one element into all lanes."""
        stored = "b" if kind == "?" else kind
        got = self.splat(self.put(f"load {ELEMENTS[stored]}, ptr {address}"), stored)
        return got.truth() if kind == "?" else got

    def store(self, address: str, x: Vector) -> None:
        """Write neighbouring elements."""
        stored = x.turned("zext", "b") if x.kind == "?" else x
        size = SIZES[stored.kind]
        self.do(f"store {stored.type} {stored.name}, ptr {address}, align {size}")

    # --- calls -------------------------------------------------------------------

    def call(self, function: str, result: str, *xs: Vector) -> Vector:
        """Call an intrinsic of LLVM on vectors of one kind."""
        of = xs[0].type
        name = f"@llvm.{function}.v{xs[0].lanes}{SUFFIXES[xs[0].kind]}"
        self.module.declarations.add(f"{of} {name}({', '.join([of] * len(xs))})")
        given = ", ".join(f"{of} {x.name}" for x in xs)
        called = self.put(f"call {of} {name}({given})")
        return Vector(self, called, result, xs[0].lanes)

    def fma(self, a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
        """Return ``a * b + c`` with one rounding."""
        b = a.like(b)
        c = a.like(c)
        if self.module.fused:
            return self.call("fma", a.kind, a, b, c)
        wide = a.to("d") * b.to("d") + c.to("d")  # the product is exact
        return wide.to("f")

    def where(self, mask: Vector, a: Vector | Number, b: Vector | Number) -> Vector:
        """Return ``a`` where the mask is true, else ``b``."""
        known = a if isinstance(a, Vector) else b
        if not isinstance(known, Vector):
            known = self.constant(known, "f", mask.lanes)
        a = known.like(a)
        b = known.like(b)
        text = f"select {mask.type} {mask.name}, {a.type} {a.name}, {b.type} {b.name}"
        return Vector(self, self.put(text), a.kind, a.lanes)

    def all_true(self, mask: Vector) -> str:
        """Return one bit: whether a mask is true in all lanes."""
        name = f"@llvm.vector.reduce.and.v{mask.lanes}i1"
        self.module.declarations.add(f"i1 {name}({mask.type})")
        return self.put(f"call i1 {name}({mask.type} {mask.name})")

    def unless(
        self, near: Vector, y: Vector, x: Vector, name: str, far: Callable[[Code], None]
    ) -> Vector:
        """Return ``y``; if ``near`` is false in a lane, call ``name`` instead.

        Args:
            near: Where ``y`` is right.
            y: A vector.
            x: What it was computed from.
            name: A function of ``x`` and ``y``.
            far: Writes its body, with the parameters ``%x`` and ``%y``.

        """
        of = self.type("f")
        if name not in self.module.functions:
            code = Code(self.module, self.lanes)
            far(code)
            head = f"internal {of} @{name}({of} %x, {of} %y) noinline cold"
            self.module.define(name, head, code)
        rare = self.name("rare")
        after = self.name("after")
        ok = self.all_true(near)
        before = self.label
        self.do(f"br i1 {ok}, label %{after}, label %{rare}")
        self.place(rare)
        called = f"call {of} @{name}({of} {x.name}, {of} {y.name})"
        other = self.put(called)
        self.goto(after)
        pair = f"[ {y.name}, %{before} ], [ {other}, %{rare} ]"
        return Vector(self, self.put(f"phi {of} {pair}"), "f", self.lanes)


def literal(value: Number, kind: str) -> str:
    """Return a number in LLVM's language; float32 is written as float64."""
    if kind in "?ib":
        return str(int(value))
    if kind == "f":
        (value,) = struct.unpack("f", struct.pack("f", value))
    return "0x" + struct.pack(">d", value).hex().upper()


@dataclass(slots=True)
class Vector:
    """A vector of a function."""

    code: Code
    name: str
    kind: str
    lanes: int

    @property
    def type(self) -> str:
        """The type in LLVM's language."""
        return self.code.type(self.kind, self.lanes)

    def like(self, other: Vector | Number) -> Vector:
        """Return the other operand of an operator."""
        if isinstance(other, Vector):
            return other
        return self.code.constant(other, self.kind, self.lanes)

    def by(self, operation: str, other: Vector | Number, kind: str = "") -> Vector:
        """Return the result of an instruction of two operands."""
        text = f"{operation} {self.type} {self.name}, {self.like(other).name}"
        return Vector(self.code, self.code.put(text), kind or self.kind, self.lanes)

    def turned(self, operation: str, kind: str) -> Vector:
        """Return the same as another kind."""
        text = f"{operation} {self.type} {self.name} to "
        name = self.code.put(text + self.code.type(kind, self.lanes))
        return Vector(self.code, name, kind, self.lanes)

    def truth(self) -> Vector:
        """Return bools from memory as they are in registers."""
        return self.by("icmp ne", 0, "?")

    def __add__(self, other: Vector | Number) -> Vector:
        return self.by("add" if self.kind == "i" else "fadd", other)

    def __sub__(self, other: Vector | Number) -> Vector:
        return self.by("sub" if self.kind == "i" else "fsub", other)

    def __rsub__(self, other: Number) -> Vector:
        return self.like(other) - self

    def __mul__(self, other: Vector | Number) -> Vector:
        return self.by("fmul", other)

    def __truediv__(self, other: Vector | Number) -> Vector:
        return self.by("fdiv", other)

    def __rtruediv__(self, other: Number) -> Vector:
        return self.like(other) / self

    def __neg__(self) -> Vector:
        name = self.code.put(f"fneg {self.type} {self.name}")
        return Vector(self.code, name, self.kind, self.lanes)

    def __abs__(self) -> Vector:
        return self.code.call("fabs", self.kind, self)

    def __and__(self, other: Vector | Number) -> Vector:
        return self.by("and", other)

    def __or__(self, other: Vector | Number) -> Vector:
        return self.by("or", other)

    def __xor__(self, other: Vector | Number) -> Vector:
        return self.by("xor", other)

    def __lshift__(self, count: int) -> Vector:
        return self.by("shl", count)

    def __rshift__(self, count: int) -> Vector:
        return self.by("ashr", count)

    def __lt__(self, other: Vector | Number) -> Vector:
        return self.by("fcmp olt", other, "?")

    def __le__(self, other: Vector | Number) -> Vector:
        return self.by("fcmp ole", other, "?")

    def __gt__(self, other: Vector | Number) -> Vector:
        return self.by("fcmp ogt", other, "?")

    def __ge__(self, other: Vector | Number) -> Vector:
        return self.by("fcmp oge", other, "?")

    def equal(self, other: Vector | Number) -> Vector:
        """Return where both are equal; NaN is not."""
        return self.by("fcmp oeq", other, "?")

    def unequal(self, other: Vector | Number) -> Vector:
        """Return where they are not equal, or either is NaN."""
        return self.by("fcmp une", other, "?")

    def is_nan(self) -> Vector:
        """Return where a value is NaN."""
        return self.by("fcmp uno", self, "?")

    def bits(self) -> Vector:
        """Return the bits of float32 as int32."""
        return self.turned("bitcast", "i")

    def floats(self) -> Vector:
        """Return the bits of int32 as float32."""
        return self.turned("bitcast", "f")

    def to(self, kind: str) -> Vector:
        """Return the values as another kind."""
        if kind == self.kind:
            return self
        if kind == "?":
            return self.unequal(0.0)
        operation = {"?": "uitofp", "i": "sitofp", "f": "fpext", "d": "fptrunc"}
        return self.turned(operation[self.kind], kind)

    def integers(self) -> Vector:
        """Return float32 cut to int32; NaN is 0."""
        return self.code.where(self.is_nan(), 0.0, self).turned("fptosi", "i")

    def sqrt(self) -> Vector:
        """Return the square root."""
        return self.code.call("sqrt", self.kind, self)

    def rounded(self, how: str) -> Vector:
        """Return the integer by ``rint``, ``floor``, ``ceil`` or ``trunc``."""
        return self.code.call(how, self.kind, self)
