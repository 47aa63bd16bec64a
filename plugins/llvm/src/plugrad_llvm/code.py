"""Writes LLVM IR: a module, the lines of a function, and vectors with operators.

The operators of ``Vector`` write one instruction each, in the order in which they are
evaluated. No instruction is contracted or reordered, so every bit of a result is known.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

# LLVM types by kind: float32, float64, bool in registers, int32, bool in memory.
ELEMENTS = {"f": "float", "d": "double", "?": "i1", "i": "i32", "b": "i8"}
SIZES = {"f": 4, "d": 8, "b": 1}
SUFFIXES = {"f": "f32", "d": "f64"}
# Use vectors as wide as a register; on some processors LLVM prefers narrower vectors.
ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'
Number = float | int


@dataclass
class Module:
    """Functions, and the declarations that they need.

    Attributes:
        lanes: The number of float32 elements in a register of the processor.
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
        """Add a function with a ``head`` such as ``void @run(ptr %x)``."""
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
        """Jump to a block, and begin it."""
        self.do(f"br label %{label}")
        self.place(label)

    # --- vectors -----------------------------------------------------------------

    def type(self, kind: str, lanes: int = 0) -> str:
        """Return the type of vectors."""
        return f"<{lanes or self.lanes} x {ELEMENTS[kind]}>"

    def constant(self, value: Number, kind: str = "f", lanes: int = 0) -> Vector:
        """Return a vector with a constant in all lanes."""
        text = f"splat ({ELEMENTS[kind]} {literal(value, kind)})"
        return Vector(self, text, kind, lanes or self.lanes)

    def splat(self, scalar: str, kind: str, lanes: int = 0) -> Vector:
        """Return a vector with a scalar in all lanes."""
        lanes = lanes or self.lanes
        type = self.type(kind, lanes)
        element = ELEMENTS[kind]
        first = self.put(f"insertelement {type} poison, {element} {scalar}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        all_lanes = self.put(f"shufflevector {type} {first}, {type} poison, {zeros}")
        return Vector(self, all_lanes, kind, lanes)

    def at(self, pointer: str, kind: str, index: str) -> str:
        """Return the address of an element."""
        memory = ELEMENTS["b" if kind == "?" else kind]
        return self.put(f"getelementptr {memory}, ptr {pointer}, i64 {index}")

    def load(self, address: str, kind: str, lanes: int = 0) -> Vector:
        """Load neighbouring elements."""
        stored = "b" if kind == "?" else kind
        lanes = lanes or self.lanes
        type = self.type(stored, lanes)
        size = SIZES[stored]
        loaded = Vector(
            self, self.put(f"load {type}, ptr {address}, align {size}"), stored, lanes
        )
        return loaded.truth() if kind == "?" else loaded

    def load_one(self, address: str, kind: str) -> Vector:
        """Load one element into all lanes."""
        stored = "b" if kind == "?" else kind
        loaded = self.splat(self.put(f"load {ELEMENTS[stored]}, ptr {address}"), stored)
        return loaded.truth() if kind == "?" else loaded

    def store(self, address: str, x: Vector) -> None:
        """Store neighbouring elements."""
        stored = x.converted("zext", "b") if x.kind == "?" else x
        size = SIZES[stored.kind]
        self.do(f"store {stored.type} {stored.name}, ptr {address}, align {size}")

    # --- calls -------------------------------------------------------------------

    def call(self, function: str, result: str, *xs: Vector) -> Vector:
        """Call an LLVM intrinsic on vectors of one kind."""
        type = xs[0].type
        name = f"@llvm.{function}.v{xs[0].lanes}{SUFFIXES[xs[0].kind]}"
        self.module.declarations.add(f"{type} {name}({', '.join([type] * len(xs))})")
        arguments = ", ".join(f"{type} {x.name}" for x in xs)
        called = self.put(f"call {type} {name}({arguments})")
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
        """Return the elements of ``a`` where the mask is true, else those of ``b``."""
        vector = a if isinstance(a, Vector) else b
        if not isinstance(vector, Vector):
            vector = self.constant(vector, "f", mask.lanes)
        a = vector.like(a)
        b = vector.like(b)
        text = f"select {mask.type} {mask.name}, {a.type} {a.name}, {b.type} {b.name}"
        return Vector(self, self.put(text), a.kind, a.lanes)

    def all_true(self, mask: Vector) -> str:
        """Return whether a mask is true in all lanes, as one bit."""
        name = f"@llvm.vector.reduce.and.v{mask.lanes}i1"
        self.module.declarations.add(f"i1 {name}({mask.type})")
        return self.put(f"call i1 {name}({mask.type} {mask.name})")

    def unless(
        self, near: Vector, y: Vector, x: Vector, name: str, far: Callable[[Code], None]
    ) -> Vector:
        """Return ``y``; if ``near`` is false in a lane, call the function ``name``.

        Args:
            near: A mask: whether ``y`` is accurate.
            y: A vector.
            x: The vector from which ``y`` was computed.
            name: The name of a function of ``x`` and ``y``.
            far: Writes the body of this function; its parameters are ``%x`` and ``%y``.

        """
        type = self.type("f")
        if name not in self.module.functions:
            code = Code(self.module, self.lanes)
            far(code)
            head = f"internal {type} @{name}({type} %x, {type} %y) noinline cold"
            self.module.define(name, head, code)
        rare = self.name("rare")
        after = self.name("after")
        all_near = self.all_true(near)
        before = self.label
        self.do(f"br i1 {all_near}, label %{after}, label %{rare}")
        self.place(rare)
        called = f"call {type} @{name}({type} {x.name}, {type} {y.name})"
        far_result = self.put(called)
        self.goto(after)
        pair = f"[ {y.name}, %{before} ], [ {far_result}, %{rare} ]"
        return Vector(self, self.put(f"phi {type} {pair}"), "f", self.lanes)


def literal(value: Number, kind: str) -> str:
    """Return a number in LLVM IR; a float32 is written like a float64."""
    if kind in "?ib":
        return str(int(value))
    if kind == "f":
        (value,) = struct.unpack("f", struct.pack("f", value))
    return "0x" + struct.pack(">d", value).hex().upper()


@dataclass(slots=True)
class Vector:
    """A vector in a function: the name of a value, its kind and its lanes."""

    code: Code
    name: str
    kind: str
    lanes: int

    @property
    def type(self) -> str:
        """The type in LLVM IR."""
        return self.code.type(self.kind, self.lanes)

    def like(self, other: Vector | Number) -> Vector:
        """Return the other operand of an operator as a vector."""
        if isinstance(other, Vector):
            return other
        return self.code.constant(other, self.kind, self.lanes)

    def by(self, operation: str, other: Vector | Number, kind: str = "") -> Vector:
        """Return the result of an instruction with two operands."""
        text = f"{operation} {self.type} {self.name}, {self.like(other).name}"
        return Vector(self.code, self.code.put(text), kind or self.kind, self.lanes)

    def converted(self, operation: str, kind: str) -> Vector:
        """Return the vector converted to another kind by an instruction."""
        text = f"{operation} {self.type} {self.name} to "
        name = self.code.put(text + self.code.type(kind, self.lanes))
        return Vector(self.code, name, kind, self.lanes)

    def truth(self) -> Vector:
        """Convert bools from memory to bools in registers."""
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
        """Return a mask: whether both are equal, and not NaN."""
        return self.by("fcmp oeq", other, "?")

    def unequal(self, other: Vector | Number) -> Vector:
        """Return a mask: whether they are unequal, or one is NaN."""
        return self.by("fcmp une", other, "?")

    def is_nan(self) -> Vector:
        """Return a mask: whether a value is NaN."""
        return self.by("fcmp uno", self, "?")

    def bits(self) -> Vector:
        """Return the bits of float32 as int32."""
        return self.converted("bitcast", "i")

    def floats(self) -> Vector:
        """Return the bits of int32 as float32."""
        return self.converted("bitcast", "f")

    def to(self, kind: str) -> Vector:
        """Return the values as another kind."""
        if kind == self.kind:
            return self
        if kind == "?":
            return self.unequal(0.0)
        operation = {"?": "uitofp", "i": "sitofp", "f": "fpext", "d": "fptrunc"}
        return self.converted(operation[self.kind], kind)

    def integers(self) -> Vector:
        """Return float32 truncated to int32; NaN becomes 0."""
        return self.code.where(self.is_nan(), 0.0, self).converted("fptosi", "i")

    def sqrt(self) -> Vector:
        """Return the square root."""
        return self.code.call("sqrt", self.kind, self)

    def rounded(self, mode: str) -> Vector:
        """Round to integers by ``rint``, ``floor``, ``ceil`` or ``trunc``."""
        return self.code.call(mode, self.kind, self)
