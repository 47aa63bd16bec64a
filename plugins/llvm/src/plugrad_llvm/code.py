"""Writes LLVM IR with llvmlite's IRBuilder: modules, functions, and vectors.

``Code.builder`` is the builder of a function, as the documentation of llvmlite
describes it. The operators of ``Vector`` write one instruction each, in the order in
which they are evaluated. No instruction has fast-math flags, and none is contracted or
reordered, so every bit of a result is known.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

VOID = ir.VoidType()
POINTER = ir.PointerType()
BIT = ir.IntType(1)
BYTE = ir.IntType(8)
INT32 = ir.IntType(32)
INDEX = ir.IntType(64)
FLOAT = ir.FloatType()
DOUBLE = ir.DoubleType()
# Types by kind: float32, float64, bool in registers, int32, bool in memory.
ELEMENTS = {"f": FLOAT, "d": DOUBLE, "?": BIT, "i": INT32, "b": BYTE}
SIZES = {"f": 4, "d": 8, "b": 1}
ALIGNMENT = 64  # alignment of stack memory in bytes
# A function attribute: use vectors as wide as a register, although some processors
# prefer narrower ones. It is a string, so llvmlite has no name for it.
WIDE_VECTORS = '"prefer-vector-width"="512"'
MAX_SHARED_CONSTANTS = 1024  # modules share them, so that each is formatted only once
Number = float | int
Far = Callable[["Vector", "Vector"], "Vector"]


class VectorType(ir.VectorType):  # type: ignore[misc]
    """A vector type that has intrinsics, and writes a splat constant as one number.

    llvmlite would write the number once per lane, which takes LLVM longer to read.
    """

    def wrap_constant_value(self, value: Any) -> Sequence[Any]:
        """Return the elements of a constant; only one if all lanes are equal."""
        elements: Sequence[Any] = super().wrap_constant_value(value)
        return elements if isinstance(value, list) else elements[:1]

    def format_constant(self, value: Sequence[Any]) -> str:
        """Return a constant as text."""
        texts = [f"{x.type} {x.get_reference()}" for x in value]
        return f"<{', '.join(texts)}>" if len(texts) > 1 else f"splat ({texts[0]})"

    @property
    def intrinsic_name(self) -> str:
        """The suffix that llvmlite appends to the names of intrinsics of this type."""
        return f"v{self.count}{self.element.intrinsic_name}"


@functools.cache
def vector_type(kind: str, lanes: int) -> VectorType:
    """Return the type of vectors of a kind."""
    return VectorType(ELEMENTS[kind], lanes)


@functools.lru_cache(MAX_SHARED_CONSTANTS)
def index(i: int) -> ir.Constant:
    """Return a constant index."""
    return ir.Constant(INDEX, i)


@functools.lru_cache(MAX_SHARED_CONSTANTS)
def constant_vector(number: bytes | int, kind: str, lanes: int) -> ir.Constant:
    """Return a constant vector with an integer or the bytes of a float in all lanes.

    Bytes distinguish -0.0 from 0.0, and NaNs from each other.
    """
    value = struct.unpack("d", number)[0] if isinstance(number, bytes) else number
    return ir.Constant(vector_type(kind, lanes), value)


@functools.cache
def neighbors(first: int, count: int) -> ir.Constant:
    """Return the mask with which a shuffle selects adjacent lanes."""
    return ir.Constant(vector_type("i", count), [*range(first, first + count)])


@functools.cache
def poison(kind: str, lanes: int) -> ir.Constant:
    """Return a vector whose elements are never used."""
    type = vector_type(kind, lanes)
    return ir.Constant(type, ir.FormattedConstant(type.element, "poison"))


def in_memory(kind: str) -> str:
    """Return the kind of a value in memory."""
    return "b" if kind == "?" else kind


class Module:
    """Functions, and the declarations that they need.

    Attributes:
        lanes: The number of float32 elements in a register of the processor.
        fused: Whether the processor has fused multiply-add.
        ir: The module of llvmlite.

    """

    def __init__(self, lanes: int, fused: bool) -> None:
        self.lanes, self.fused = lanes, fused
        self.ir = ir.Module()
        self.ir.triple = ""  # the target of the machine that compiles it

    def __str__(self) -> str:
        return str(self.ir)

    def define(
        self,
        name: str,
        result: ir.Type,
        parameters: Mapping[str, ir.Type],
        lanes: int = 1,
    ) -> Code:
        """Add a function, and return the ``Code`` that writes it.

        Args:
            name: The name of the function.
            result: The type of its result.
            parameters: The types of its parameters, by name.
            lanes: The number of elements of most of its vectors.

        """
        signature = ir.FunctionType(result, parameters.values())
        function = ir.Function(self.ir, signature, name)
        for argument, parameter in zip(function.args, parameters, strict=True):
            argument.name = parameter
        function.attributes.add("nounwind")
        set.add(function.attributes, WIDE_VECTORS)  # llvmlite's ``add`` rejects strings
        return Code(self, lanes, function)

    def declare(self, name: str, result: ir.Type, *parameters: ir.Type) -> ir.Function:
        """Return a function that is defined elsewhere."""
        found = self.ir.globals.get(name)
        if found is None:
            found = ir.Function(self.ir, ir.FunctionType(result, parameters), name)
        return found

    def intrinsic(self, name: str, result: ir.Type, *types: ir.Type) -> ir.Function:
        """Return an LLVM intrinsic; llvmlite adds the first type to its name."""
        signature = ir.FunctionType(result, types)
        return self.ir.declare_intrinsic(f"llvm.{name}", types[:1], signature)


class Code:
    """Writes a function; most of its vectors have ``lanes`` elements.

    Attributes:
        module: The module of the function.
        lanes: The number of elements of most vectors.
        arguments: The values of the parameters.
        builder: llvmlite's builder, at the end of the block that is being written.

    """

    def __init__(self, module: Module, lanes: int, function: ir.Function) -> None:
        self.module, self.lanes = module, lanes
        self.arguments: tuple[ir.Argument, ...] = function.args
        self.builder = ir.IRBuilder(function.append_basic_block("entry"))

    # --- vectors -----------------------------------------------------------------

    def constant(self, value: Number, kind: str = "f", lanes: int = 0) -> Vector:
        """Return a vector with a constant in all lanes."""
        lanes = lanes or self.lanes
        number = struct.pack("d", value) if kind in "fd" else int(value)
        return Vector(self, constant_vector(number, kind, lanes), kind, lanes)

    def splat(self, scalar: ir.Value, kind: str, lanes: int = 0) -> Vector:
        """Return a vector with a scalar in all lanes."""
        lanes = lanes or self.lanes
        unused = poison(kind, lanes)
        first = self.builder.insert_element(unused, scalar, index(0))
        zeros = constant_vector(0, "i", lanes)
        all_lanes = self.builder.shuffle_vector(first, unused, zeros)
        return Vector(self, all_lanes, kind, lanes)

    # --- memory ------------------------------------------------------------------

    def allocate(self, type: ir.Type, align: int = ALIGNMENT) -> ir.Value:
        """Return the address of memory on the stack for a value of a type."""
        address = self.builder.alloca(type)
        address.align = align
        address.type = POINTER  # otherwise only values of ``type`` may be stored there
        return address

    def at(self, pointer: ir.Value, kind: str, i: ir.Value) -> ir.Value:
        """Return the address of an element."""
        memory = ELEMENTS[in_memory(kind)]
        return self.builder.gep(pointer, [i], source_etype=memory)

    def at_pointer(self, pointer: ir.Value, i: ir.Value) -> ir.Value:
        """Return the address of an element of an array of pointers."""
        return self.builder.gep(pointer, [i], source_etype=POINTER)

    def load(self, address: ir.Value, kind: str, lanes: int = 0) -> Vector:
        """Load adjacent elements."""
        stored = in_memory(kind)
        lanes = lanes or self.lanes
        value = self.builder.load(
            address, align=SIZES[stored], typ=vector_type(stored, lanes)
        )
        loaded = Vector(self, value, stored, lanes)
        return loaded.truth() if kind == "?" else loaded

    def load_one(self, address: ir.Value, kind: str) -> Vector:
        """Load one element into all lanes."""
        stored = in_memory(kind)
        loaded = self.splat(self.builder.load(address, typ=ELEMENTS[stored]), stored)
        return loaded.truth() if kind == "?" else loaded

    def store(self, address: ir.Value, x: Vector) -> None:
        """Store adjacent elements."""
        stored = x.converted(self.builder.zext, "b") if x.kind == "?" else x
        self.builder.store(stored.value, address, align=SIZES[stored.kind])

    # --- calls -------------------------------------------------------------------

    def call(self, function: str, *xs: Vector) -> Vector:
        """Call an LLVM intrinsic whose operands and result are of one kind."""
        type = xs[0].type
        called = self.module.intrinsic(function, type, *[type] * len(xs))
        value = self.builder.call(called, [x.value for x in xs])
        return Vector(self, value, xs[0].kind, xs[0].lanes)

    def fma(self, a: Vector, b: Vector | Number, c: Vector | Number) -> Vector:
        """Return ``a * b + c`` with one rounding."""
        b = a.like(b)
        c = a.like(c)
        if self.module.fused:
            return self.call("fma", a, b, c)
        wide = a.to("d") * b.to("d") + c.to("d")  # the product is exact
        return wide.to("f")

    def where(self, mask: Vector, a: Vector | Number, b: Vector | Number) -> Vector:
        """Return the elements of ``a`` where the mask is true, else those of ``b``."""
        vector = a if isinstance(a, Vector) else b
        if not isinstance(vector, Vector):
            vector = self.constant(vector, "f", mask.lanes)
        a = vector.like(a)
        b = vector.like(b)
        selected = self.builder.select(mask.value, a.value, b.value)
        return Vector(self, selected, a.kind, a.lanes)

    def all_true(self, mask: Vector) -> ir.Value:
        """Return whether a mask is true in all lanes, as one bit."""
        reduce = self.module.intrinsic("vector.reduce.and", BIT, mask.type)
        return self.builder.call(reduce, [mask.value])

    def unless(self, near: Vector, y: Vector, x: Vector, name: str, far: Far) -> Vector:
        """Return ``y`` if ``near`` is true in all lanes, else call function ``name``.

        Args:
            near: A mask: whether ``y`` is accurate.
            y: The result where ``x`` is in the usual range.
            x: The vector from which ``y`` was computed.
            name: The name of a function of ``x`` and ``y``.
            far: Writes the body of this function, and returns its result.

        """
        function = self.module.ir.globals.get(name) or self._define_far(name, far)
        builder = self.builder
        before = builder.block
        rare = builder.append_basic_block("rare")
        after = builder.append_basic_block("after")
        builder.cbranch(self.all_true(near), after, rare)
        builder.position_at_end(rare)
        far_result = builder.call(function, [x.value, y.value])
        builder.branch(after)
        builder.position_at_end(after)
        result = builder.phi(y.type)
        result.add_incoming(y.value, before)
        result.add_incoming(far_result, rare)
        return Vector(self, result, "f", self.lanes)

    def _define_far(self, name: str, far: Far) -> ir.Function:
        """Add a function of two vectors that is rarely called."""
        type = vector_type("f", self.lanes)
        code = self.module.define(name, type, {"x": type, "y": type}, self.lanes)
        x, y = (Vector(code, value, "f", self.lanes) for value in code.arguments)
        code.builder.ret(far(x, y).value)
        function = code.builder.function
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("cold")
        return function


@dataclass(slots=True)
class Vector:
    """A vector in a function: an llvmlite value, its kind and its number of lanes."""

    code: Code
    value: ir.Value
    kind: str
    lanes: int

    @property
    def type(self) -> VectorType:
        """The type of the value."""
        return vector_type(self.kind, self.lanes)

    @property
    def builder(self) -> ir.IRBuilder:
        """The builder of the function."""
        return self.code.builder

    def like(self, other: Vector | Number) -> Vector:
        """Return an operand as a vector; a number is repeated in all lanes."""
        if isinstance(other, Vector):
            return other
        return self.code.constant(other, self.kind, self.lanes)

    def binary(self, method: Callable[..., ir.Value], other: Vector | Number) -> Vector:
        """Call a builder method that writes an instruction with two operands."""
        value = method(self.value, self.like(other).value)
        return Vector(self.code, value, self.kind, self.lanes)

    def compared(
        self, method: Callable[..., ir.Value], sign: str, other: Vector | Number
    ) -> Vector:
        """Call a builder method that writes a comparison, and return its mask."""
        value = method(sign, self.value, self.like(other).value)
        return Vector(self.code, value, "?", self.lanes)

    def converted(self, method: Callable[..., ir.Value], kind: str) -> Vector:
        """Call a builder method that converts to another kind."""
        value = method(self.value, vector_type(kind, self.lanes))
        return Vector(self.code, value, kind, self.lanes)

    def truth(self) -> Vector:
        """Convert bools from memory to bools in registers."""
        return self.compared(self.builder.icmp_signed, "!=", 0)

    def __add__(self, other: Vector | Number) -> Vector:
        builder = self.builder
        return self.binary(builder.add if self.kind == "i" else builder.fadd, other)

    def __sub__(self, other: Vector | Number) -> Vector:
        builder = self.builder
        return self.binary(builder.sub if self.kind == "i" else builder.fsub, other)

    def __rsub__(self, other: Number) -> Vector:
        return self.like(other) - self

    def __mul__(self, other: Vector | Number) -> Vector:
        return self.binary(self.builder.fmul, other)

    def __truediv__(self, other: Vector | Number) -> Vector:
        return self.binary(self.builder.fdiv, other)

    def __rtruediv__(self, other: Number) -> Vector:
        return self.like(other) / self

    def __neg__(self) -> Vector:
        return Vector(self.code, self.builder.fneg(self.value), self.kind, self.lanes)

    def __abs__(self) -> Vector:
        return self.code.call("fabs", self)

    def __and__(self, other: Vector | Number) -> Vector:
        return self.binary(self.builder.and_, other)

    def __or__(self, other: Vector | Number) -> Vector:
        return self.binary(self.builder.or_, other)

    def __xor__(self, other: Vector | Number) -> Vector:
        return self.binary(self.builder.xor, other)

    def __lshift__(self, count: int) -> Vector:
        return self.binary(self.builder.shl, count)

    def __rshift__(self, count: int) -> Vector:
        return self.binary(self.builder.ashr, count)

    def __lt__(self, other: Vector | Number) -> Vector:
        return self.compared(self.builder.fcmp_ordered, "<", other)

    def __le__(self, other: Vector | Number) -> Vector:
        return self.compared(self.builder.fcmp_ordered, "<=", other)

    def __gt__(self, other: Vector | Number) -> Vector:
        return self.compared(self.builder.fcmp_ordered, ">", other)

    def __ge__(self, other: Vector | Number) -> Vector:
        return self.compared(self.builder.fcmp_ordered, ">=", other)

    def equal(self, other: Vector | Number) -> Vector:
        """Return a mask: whether both are equal, and not NaN."""
        return self.compared(self.builder.fcmp_ordered, "==", other)

    def unequal(self, other: Vector | Number) -> Vector:
        """Return a mask: whether they are unequal, or one is NaN."""
        return self.compared(self.builder.fcmp_unordered, "!=", other)

    def is_nan(self) -> Vector:
        """Return a mask: whether a value is NaN."""
        return self.compared(self.builder.fcmp_unordered, "uno", self)

    def is_negative(self) -> Vector:
        """Return a mask: whether an int32 is below 0."""
        return self.compared(self.builder.icmp_signed, "<", 0)

    def bits(self) -> Vector:
        """Return the bits of float32 as int32."""
        return self.converted(self.builder.bitcast, "i")

    def floats(self) -> Vector:
        """Return the bits of int32 as float32."""
        return self.converted(self.builder.bitcast, "f")

    def to(self, kind: str) -> Vector:
        """Return the values as another kind."""
        builder = self.builder
        if kind == self.kind:
            return self
        if kind == "?":
            return self.unequal(0.0)
        if self.kind in "?i":
            convert = builder.uitofp if self.kind == "?" else builder.sitofp
        else:
            convert = builder.fpext if self.kind == "f" else builder.fptrunc
        return self.converted(convert, kind)

    def integers(self) -> Vector:
        """Return float32 truncated to int32; NaN becomes 0."""
        numbers = self.code.where(self.is_nan(), 0.0, self)
        return numbers.converted(self.builder.fptosi, "i")

    def sqrt(self) -> Vector:
        """Return the square root."""
        return self.code.call("sqrt", self)

    def rounded(self, mode: str) -> Vector:
        """Round to integers by ``rint``, ``floor``, ``ceil`` or ``trunc``."""
        return self.code.call(mode, self)
