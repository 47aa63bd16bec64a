"""Links the object of a kernel into a shared library, as ``ld -shared`` does.

PoCL calls ``ld`` for each kernel that it compiles, and not every machine has one. The
objects are simple: one file of position-independent code for x86-64, as LLVM writes it,
without start-up code, thread-local data or libraries. An object with anything else is
rejected. `environment` puts a script on PATH that runs `main` in a separate process,
without the packages of plugrad. Therefore this file imports none of them.

This linker is a trick: it relies on what LLVM writes to objects for x86-64.

- *Fallback*: an ``ld`` on PATH takes precedence; without an interpreter, the linker of
  the package ziglang is used. ``test_without_a_linker`` runs kernels with each.
- *Tried with*: the objects of pocl-binary-distribution 3.0 (LLVM 14).
- *Delete it* when the package index has a PoCL that links by itself. The trick makes
  nothing faster, but PoCL has no device without a linker.

The library has two segments, whose addresses are their offsets in the file. The first
contains headers, symbols, code and constants; the second contains everything that the
loader or a kernel writes to.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PAGE = 4096
FILE_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
HEADERS = FILE_HEADER.size + 4 * SEGMENT.size
OBJECT = 1
LIBRARY = 3
X86_64 = 62

# flags of sections
WRITE = 0x1
ALLOC = 0x2
THREAD_LOCAL = 0x400
# types of sections
SYMTAB = 2
RELA = 4
NOBITS = 8
REL = 9
CONSTRUCTORS = (14, 15, 16)
UNDEFINED, RESERVED = 0, 0xFF00  # sections of symbols
GLOBAL, WEAK = 1, 2  # bindings of symbols
FILE, INDIRECT = 4, 10  # types of symbols
DEFAULT, PROTECTED = 0, 3  # visibilities

# relocations of an object
ABS64 = 1
PC32 = 2
PLT32 = 4
PC64 = 24
GOT = (9, 41, 42)
GLOB_DAT, RELATIVE = 6, 8  # relocations of a library
JUMP = b"\xff\x25\0\0\0\0"  # jmp *entry(%rip)


class Section(NamedTuple):
    """A section of the object."""

    name: str
    type: int
    flags: int
    data: bytes
    link: int
    info: int
    align: int


class Symbol(NamedTuple):
    """A symbol of the object."""

    name: str
    info: int
    visibility: int
    section: int
    value: int
    size: int


class Relocation(NamedTuple):
    """A position in a section to which an address or a distance is written."""

    section: int
    offset: int
    type: int
    symbol: int
    addend: int


class Unsupported(Exception):
    """The object contains something that this linker does not support."""


# --- the object ------------------------------------------------------------------


def read_sections(data: bytes) -> list[Section]:
    """Return the sections of an object."""
    if len(data) < FILE_HEADER.size or data[:6] != b"\x7fELF\x02\x01":
        raise Unsupported("a file that is not 64-bit ELF")
    header = FILE_HEADER.unpack_from(data)
    if header[1:3] != (OBJECT, X86_64):
        raise Unsupported("a file that is not an object for x86-64")
    start = header[6]
    count = header[12]
    names = header[13]
    rows = [SECTION.unpack_from(data, start + i * SECTION.size) for i in range(count)]
    found = []
    for name, type, flags, _, offset, size, link, info, align, _ in rows:
        contents = bytes(size) if type == NOBITS else data[offset : offset + size]
        title = string(data, rows[names][4] + name)
        # Unwinding tables are left out: no exception passes through a kernel.
        flags &= ~ALLOC if title == ".eh_frame" else ~0
        if flags & ALLOC and (flags & THREAD_LOCAL or type in CONSTRUCTORS):
            raise Unsupported(f"section {title}")
        found.append(Section(title, type, flags, contents, link, info, align))
    return found


def read_symbols(sections: Sequence[Section]) -> list[Symbol]:
    """Return the symbols of an object; a symbol without a name stands for a section."""
    found = []
    for section in sections:
        if section.type != SYMTAB:
            continue
        names = sections[section.link].data
        for name, info, other, *where in SYMBOL.iter_unpack(section.data):
            symbol = Symbol(string(names, name), info, other & 3, *where)
            unusual = symbol.section >= RESERVED or info & 15 == INDIRECT
            if unusual and info & 15 != FILE:
                raise Unsupported(f"symbol {symbol.name}")
            found.append(symbol)
    return found


def read_relocations(sections: Sequence[Section]) -> list[Relocation]:
    """Return the relocations of the sections that are loaded into memory."""
    found = []
    for section in sections:
        if section.type == REL:
            raise Unsupported(f"section {section.name}")
        if section.type == RELA and sections[section.info].flags & ALLOC:
            for offset, info, addend in RELOCATION.iter_unpack(section.data):
                type = info & 0xFFFFFFFF
                symbol = info >> 32
                found.append(Relocation(section.info, offset, type, symbol, addend))
    return found


def string(data: bytes, start: int) -> str:
    """Return the null-terminated string at ``start``."""
    return data[start : data.index(b"\0", start)].decode()


# --- the library -----------------------------------------------------------------


class Library:
    """The shared library, while it is being written.

    Attributes:
        image: The contents of the file.
        addresses: The addresses of the object's sections, by section index.
        numbers: The positions of the exported and imported symbols in the loader's
            table, by symbol index.
        table: The addresses of the entries of the global offset table, by symbol index.
        stubs: The addresses of the stubs, by symbol index. A stub jumps to a function
            of another library.
        loads: Relocations for the loader.

    """

    def __init__(self, data: bytes):
        self.sections = read_sections(data)
        self.symbols = read_symbols(self.sections)
        self.relocations = read_relocations(self.sections)
        self.image = bytearray(HEADERS)
        self.addresses: dict[int, int] = {}
        used = dict.fromkeys(each.symbol for each in self.relocations)
        imported = [i for i in used if self.symbols[i].section == UNDEFINED]
        exported = [i for i, symbol in enumerate(self.symbols) if is_exported(symbol)]
        self.numbers = {i: number for number, i in enumerate([*imported, *exported], 1)}
        called = {each.symbol for each in self.relocations if each.type == PLT32}
        addressed = {each.symbol for each in self.relocations if each.type in GOT}
        self.stubs = dict.fromkeys(sorted(called.intersection(imported)), 0)
        self.table = dict.fromkeys(sorted(addressed.union(self.stubs)), 0)
        self.loads: list[tuple[int, int, int]] = []

    def link(self) -> bytes:
        """Return the library."""
        stored = sum(each.type == ABS64 for each in self.relocations)
        symbols = self.append(bytes(SYMBOL.size * (len(self.numbers) + 1)), 8)
        strings, size = self.append_strings(symbols)
        hashes = self.append(self.hashes(), 8)
        loads = self.append(bytes(RELOCATION.size * (len(self.table) + stored)), 8)
        self.append_sections(writable=False)
        self.stubs = {i: self.append(JUMP, 8) for i in self.stubs}
        begin = self.append(b"", PAGE)
        dynamic = self.append(bytes(16 * 9), 8)
        self.table = {i: self.append(bytes(8), 8) for i in self.table}
        self.append_sections(writable=True)

        self.write_symbols(symbols)
        self.fill_table()
        for each in self.relocations:
            self.relocate(each)
        for number, load in enumerate(self.loads):
            RELOCATION.pack_into(self.image, loads + number * RELOCATION.size, *load)
        tags = [(4, hashes), (5, strings), (6, symbols), (10, size), (11, SYMBOL.size)]
        tags += [(7, loads), (8, RELOCATION.size * len(self.loads))]
        tags += [(9, RELOCATION.size), (0, 0)]
        struct.pack_into("<18Q", self.image, dynamic, *[x for tag in tags for x in tag])
        self.write_headers(begin, dynamic)
        return bytes(self.image)

    def append(self, data: bytes, align: int) -> int:
        """Add data at the end, and return its address."""
        self.image += bytes(-len(self.image) % max(align, 1))
        address = len(self.image)
        self.image += data
        return address

    def append_sections(self, *, writable: bool) -> None:
        """Add the sections of one segment."""
        for i, section in enumerate(self.sections):
            if section.flags & ALLOC and bool(section.flags & WRITE) == writable:
                self.addresses[i] = self.append(section.data, section.align)

    def append_strings(self, symbols: int) -> tuple[int, int]:
        """Add the names of symbols; return their address and their size."""
        names, offsets = b"\0", []
        for i in self.numbers:
            offsets.append(len(names))
            names += self.symbols[i].name.encode() + b"\0"
        for number, offset in enumerate(offsets, 1):
            struct.pack_into("<I", self.image, symbols + number * SYMBOL.size, offset)
        return self.append(names, 1), len(names)

    def hashes(self) -> bytes:
        """Return a hash table of symbols with a single bucket."""
        count = len(self.numbers)
        chain = [number + 1 for number in range(1, count)] + [0] * bool(count)
        return struct.pack(f"<{4 + count}I", 1, count + 1, min(count, 1), 0, *chain)

    def write_symbols(self, table: int) -> None:
        """Complete the loader's symbol table, which already contains the names."""
        for i, number in self.numbers.items():
            symbol = self.symbols[i]
            # The loader only distinguishes defined symbols from undefined ones.
            section = symbol.section and 1
            value = symbol.section and self.address(i)
            row = (symbol.info, symbol.visibility, section, value, symbol.size)
            struct.pack_into("<BBHQQ", self.image, table + number * 24 + 4, *row)

    def fill_table(self) -> None:
        """Let the loader fill the global offset table, and connect the stubs to it."""
        for i, place in self.table.items():
            if self.symbols[i].section == UNDEFINED:
                self.loads.append((place, self.numbers[i] << 32 | GLOB_DAT, 0))
            else:
                self.loads.append((place, RELATIVE, self.address(i)))
        for i, stub in self.stubs.items():
            distance = self.table[i] - (stub + len(JUMP))
            struct.pack_into("<i", self.image, stub + 2, distance)

    def address(self, i: int) -> int:
        """Return the address of a symbol of the object."""
        symbol = self.symbols[i]
        if symbol.section not in self.addresses:
            raise Unsupported(f"symbol {symbol.name or i} outside of code and data")
        return self.addresses[symbol.section] + symbol.value

    def relocate(self, relocation: Relocation) -> None:
        """Write an address or a distance, or let the loader write it."""
        _, offset, type, i, addend = relocation
        place = self.addresses[relocation.section] + offset
        imported = self.symbols[i].section == UNDEFINED
        if type == ABS64 and self.sections[relocation.section].flags & WRITE:
            kind = self.numbers[i] << 32 | ABS64 if imported else RELATIVE
            self.loads.append(
                (place, kind, addend + (0 if imported else self.address(i)))
            )
        elif type in GOT:
            struct.pack_into("<i", self.image, place, self.table[i] + addend - place)
        elif type in (PC32, PLT32, PC64) and (i in self.stubs or not imported):
            target = self.stubs[i] if imported else self.address(i)
            format = "<q" if type == PC64 else "<i"
            struct.pack_into(format, self.image, place, target + addend - place)
        else:
            name = self.symbols[i].name or self.sections[self.symbols[i].section].name
            raise Unsupported(f"relocation {type} for {name}")

    def write_headers(self, begin: int, dynamic: int) -> None:
        """Write the headers of the file and of its segments."""
        end = len(self.image)
        FILE_HEADER.pack_into(
            *(self.image, 0, b"\x7fELF\x02\x01\x01", LIBRARY, X86_64, 1, 0),
            *(FILE_HEADER.size, 0, 0, FILE_HEADER.size, SEGMENT.size, 4, 0, 0, 0),
        )
        segments = [  # type, flags (execute, write, read), start, size, alignment
            (1, 5, 0, begin, PAGE),
            (1, 6, begin, end - begin, PAGE),
            (2, 6, dynamic, 16 * 9, 8),
            (0x6474E551, 6, 0, 0, 16),  # the stack is not executable
        ]
        for number, (type, flags, start, size, align) in enumerate(segments):
            row = (type, flags, start, start, start, size, size, align)
            offset = FILE_HEADER.size + number * SEGMENT.size
            SEGMENT.pack_into(self.image, offset, *row)


def is_exported(symbol: Symbol) -> bool:
    """Return whether programs that load the library can look up a symbol."""
    visible = symbol.visibility in (DEFAULT, PROTECTED)
    return (
        symbol.info >> 4 in (GLOBAL, WEAK) and symbol.section != UNDEFINED and visible
    )


def main(arguments: Sequence[str]) -> str | None:
    """Link like ``ld ARGUMENTS``; return an error message, or nothing."""
    output = arguments[arguments.index("-o") + 1]
    inputs = [name for name in arguments if name.endswith(".o")]
    if len(inputs) != 1:
        return f"this linker links one object, got {inputs}"
    with open(inputs[0], "rb") as file:
        data = file.read()
    try:
        library = Library(data).link()
    except Unsupported as error:
        return f"{inputs[0]}: {error} is not supported; install binutils"
    with open(output, "wb") as file:
        file.write(library)
    return None
