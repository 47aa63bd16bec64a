"""The function that Python calls: it checks the arguments, and runs a region.

``call(self, args, count)`` is a function of CPython's C interface with the calling
convention FASTCALL. ``self`` is a bytes object that contains a structure of ``FIELDS``.
If threads share the region, each calls ``piece``, which runs some units.

The code reads objects by offsets. ``plugin.knows_objects`` compares them with real
objects, and the module ``native`` says what happens if they differ.
"""

from __future__ import annotations

import functools

from llvmlite import ir  # type: ignore[import-untyped]

from .code import BYTE, INDEX, INT32, POINTER, VOID, Code, Module, index
from .loops import Loop

# Offsets in bytes.
BYTES_CONTENT = 32  # in a bytes object: its contents
OBJECT_TYPE = 8  # in any object: the address of its type
ARRAY_DATA = 16  # in an array: the address of its elements
ARRAY_FLAGS = 64
ROW_MAJOR_AND_ALIGNED = 257  # flags of an array
MAX_ARRAYS = 128  # the address of the structure is stored behind those of the arrays

# llvmlite only calls pointers that know the type of their function. LLVM forgets it.
RUN = ir.FunctionType(VOID, [POINTER, INDEX, INDEX])
PARALLEL_FOR = ir.FunctionType(VOID, [POINTER, POINTER, INT32, INT32])
FIELDS = {
    "run": RUN.as_pointer(),  # run(addresses, begin, end)
    "array_type": POINTER,
    "release": INDEX,  # whether to release the GIL
    "parallel_for": PARALLEL_FOR.as_pointer(),  # or 0
    "items": INDEX,
    "unit": INDEX,  # the items of a unit
    "units": INT32,
    "grain": INT32,  # the units that a thread runs at once
}
FORMAT = "PPqPqqII"  # the same for ``struct.pack``
STRUCTURE = ir.LiteralStructType(FIELDS.values())


@functools.cache
def text() -> str:
    """Return the LLVM IR of the module with ``call`` and ``piece``."""
    module = Module(lanes=1, fused=False)
    piece = _write_piece(module)
    _write_call(module, piece)
    return str(module)


def _field(code: Code, structure: ir.Value, name: str) -> ir.Value:
    """Load a field of the structure at an address."""
    place = ir.Constant(INT32, [*FIELDS].index(name))
    address = code.builder.gep(structure, [index(0), place], source_etype=STRUCTURE)
    return code.builder.load(address, typ=FIELDS[name])


def _member(code: Code, item: ir.Value, offset: int, type: ir.Type) -> ir.Value:
    """Load a member of a Python object, which is at an offset in bytes."""
    address = code.builder.gep(item, [index(offset)], source_etype=BYTE)
    return code.builder.load(address, typ=type)


def _write_piece(module: Module) -> ir.Function:
    """Write ``piece``: run the units from ``first`` up to ``last``, without it.

    The last unit of the region includes the remaining items.
    """
    parameters = {"first": INT32, "last": INT32, "addresses": POINTER}
    code = module.define("piece", VOID, parameters)
    builder = code.builder
    first, last, addresses = code.arguments
    structure_at = code.at_pointer(addresses, index(MAX_ARRAYS))
    structure = builder.load(structure_at, typ=POINTER)
    unit = _field(code, structure, "unit")
    begin = builder.mul(builder.zext(first, INDEX), unit)
    whole = builder.mul(builder.zext(last, INDEX), unit)
    is_last = builder.icmp_unsigned("==", last, _field(code, structure, "units"))
    end = builder.select(is_last, _field(code, structure, "items"), whole)
    builder.call(_field(code, structure, "run"), [addresses, begin, end])
    builder.ret_void()
    return builder.function


def _write_call(module: Module, piece: ir.Function) -> None:
    """Write ``call``: return True, or False if an argument is not as expected."""
    parameters = {"self": POINTER, "args": POINTER, "count": INDEX}
    code = module.define("call", POINTER, parameters)
    builder = code.builder
    own = code.arguments[0]
    new_bool = module.declare("PyBool_FromLong", POINTER, INDEX)
    refuse = builder.append_basic_block("refuse")
    addresses = code.allocate(ir.ArrayType(POINTER, MAX_ARRAYS + 1), align=8)
    structure = builder.gep(own, [index(BYTES_CONTENT)], source_etype=BYTE)
    _read_arrays(code, structure, addresses, refuse)
    release = _field(code, structure, "release")
    long = builder.icmp_unsigned("!=", release, index(0))
    with builder.if_else(long) as (without_gil, with_gil):
        with without_gil:
            _run_without_gil(code, structure, addresses, piece)
        with with_gil:
            _run_all(code, structure, addresses)
    builder.ret(builder.call(new_bool, [index(1)]))
    builder.position_at_end(refuse)
    builder.ret(builder.call(new_bool, [index(0)]))


def _read_arrays(
    code: Code, structure: ir.Value, addresses: ir.Value, refuse: ir.Block
) -> None:
    """Write the addresses of the arguments' elements; go to ``refuse`` on others."""
    builder = code.builder
    _, args, count = code.arguments
    array_type = _field(code, structure, "array_type")
    loop = Loop(code, index(0))
    [k] = loop.values
    x = builder.load(code.at_pointer(args, k), typ=POINTER)
    is_array = builder.icmp_unsigned(
        "==", _member(code, x, OBJECT_TYPE, POINTER), array_type
    )
    _require(code, is_array, refuse)
    expected = ir.Constant(INT32, ROW_MAJOR_AND_ALIGNED)
    flags = builder.and_(_member(code, x, ARRAY_FLAGS, INT32), expected)
    _require(code, builder.icmp_unsigned("==", flags, expected), refuse)
    data = _member(code, x, ARRAY_DATA, POINTER)
    builder.store(data, code.at_pointer(addresses, k))
    following = builder.add(k, index(1))
    loop.repeat(builder.icmp_signed("<", following, count), following)


def _require(code: Code, condition: ir.Value, refuse: ir.Block) -> None:
    """Go on if the condition is true, else at ``refuse``."""
    fits = code.builder.append_basic_block("fits")
    code.builder.cbranch(condition, fits, refuse)
    code.builder.position_at_end(fits)


def _run_without_gil(
    code: Code, structure: ir.Value, addresses: ir.Value, piece: ir.Function
) -> None:
    """Run the region while other threads of Python run, on several threads if any."""
    builder, module = code.builder, code.module
    save = module.declare("PyEval_SaveThread", POINTER)
    restore = module.declare("PyEval_RestoreThread", VOID, POINTER)
    parallel_for = _field(code, structure, "parallel_for")
    state = builder.call(save, [])
    none = ir.Constant(parallel_for.type, None)
    alone = builder.icmp_unsigned("==", parallel_for, none)
    with builder.if_else(alone) as (one_thread, several_threads):
        with one_thread:
            _run_all(code, structure, addresses)
        with several_threads:
            builder.store(structure, code.at_pointer(addresses, index(MAX_ARRAYS)))
            units = _field(code, structure, "units")
            grain = _field(code, structure, "grain")
            builder.call(parallel_for, [piece, addresses, units, grain])
    builder.call(restore, [state])


def _run_all(code: Code, structure: ir.Value, addresses: ir.Value) -> None:
    """Run all items of the region on this thread."""
    items = _field(code, structure, "items")
    code.builder.call(_field(code, structure, "run"), [addresses, index(0), items])
