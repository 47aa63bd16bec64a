"""The LLVM IR that the builders write."""

import math
import struct

import llvmlite.binding as llvm
import numpy as np
import plugrad as pg
import pytest
from llvmlite import ir
from plugrad_llvm import native, regions
from plugrad_llvm.code import VOID
from plugrad_llvm.programs import Writer

from .helpers import OWNER, values

FAST = ["fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"]
NUMBERS = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1e-45, 0.1, 1, True]


def text_of(f, *xs):
    """Return the LLVM IR of a function that is one region."""
    jitted = pg.jit(f)
    xs = [pg.asarray(x) for x in xs]
    jitted(*xs), jitted(*xs), jitted(*xs)
    (region,) = jitted.explain(*xs).regions
    assert region.by.startswith(OWNER)
    module = native.new_module()
    Writer(module, regions.planned(region.graph)).write()
    return str(module)


PROGRAMS = {
    "gelu": lambda x: pg.gelu(x) * x + pg.exp(x),
    "sin": lambda x: pg.sin(x) * 2.0,
    "softmax": lambda x: pg.softmax(x * 2.0) + x,
    "layer norm": lambda x: pg.layer_norm(x + x) * x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_modules_are_valid_and_have_no_fast_math(name):
    text = text_of(PROGRAMS[name], values(1200).reshape(2, 600))
    llvm.parse_assembly(text).verify()
    assert not set(FAST) & set(text.split())


def test_equal_regions_have_equal_text():
    """The cache finds machine code by the text of its module."""
    x = values(1200).reshape(2, 600)
    for f in PROGRAMS.values():
        assert text_of(f, x) == text_of(f, x)


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("lanes", [1, 16, 64])
def test_constants_keep_their_bits(kind, lanes):
    """Modules share constants, and 0.0 equals -0.0."""
    code = native.new_module().define("f", VOID, {}, lanes)
    for _ in range(2):
        for number in NUMBERS:
            x = code.constant(number, kind)
            wide = np.float32(number) if kind == "f" else number
            bits = struct.pack(">d", float(wide)).hex()
            start, _, rest = x.value.get_reference().partition("0x")
            assert start.split() == ["splat", f"({x.type.element}"]
            assert int(rest.rstrip(")"), 16) == int(bits, 16)


def test_constants_of_different_lanes():
    code = native.new_module().define("f", VOID, {}, 4)
    x = code.constant(3, "i")
    text = ir.Constant(x.type, [0, 1, 2, 3]).get_reference()
    assert text == "<i32 0, i32 1, i32 2, i32 3>"
    assert x.value.get_reference() == "splat (i32 3)"
