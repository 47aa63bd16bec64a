"""docs/glossary.md: one row per term, in order, and every plugrad name in it exists."""

import re

import plugrad as pg
import plugrad.plugin

from tests.docs.blocks import ROOT

TEXT = (ROOT / "docs" / "glossary.md").read_text()
ROWS = [line.split("|")[1:-1] for line in TEXT.splitlines() if line.startswith("| ")]
HEAD = ROWS[0]
TERMS = [[cell.strip() for cell in row] for row in ROWS[2:]]


def test_every_row_is_full():
    assert [cell.strip() for cell in HEAD][2:] == ["TensorFlow.js", "PyTorch", "JAX"]
    assert not [row for row in TERMS if len(row) != 5 or not all(row)]


def test_terms_are_in_order_and_defined_once():
    terms = [row[0].casefold() for row in TERMS]
    assert terms == sorted({*terms})


def test_every_name_of_plugrad_exists():
    meanings = " ".join(f"{row[0]} {row[1]}" for row in TERMS)
    public = re.findall(r"`pg\.(\w+)", meanings)
    surface = re.findall(r"`([A-Z][a-z]\w+)(?:\.|\(|`)", meanings)
    assert "vjp" in public
    assert "Runtime" in surface
    assert not [name for name in public if not hasattr(pg, name)]
    others = {"FusedConv2D", "TapeId"}  # a kernel, and a type of the engine
    assert not {n for n in surface if not hasattr(plugrad.plugin, n)} - others
