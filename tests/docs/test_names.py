"""docs/names.md maps all TensorFlow.js ops, and lists those that only plugrad has."""

import importlib
import json
import re
from pathlib import Path

import plugrad as pg
import pytest
from plugrad._src.tools.names import ROWS

from tests.surface import ops

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "names.md").read_text()
TFJS = json.loads((ROOT / "tests" / "data" / "tfjs_ops.json").read_text())
THEIRS, REST = TEXT.split("## Only in plugrad")
OURS = REST.partition("## Names of other libraries")[0]


def rows(text):
    """Return the rows of a table as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def targets(text):
    return set(re.findall(r"`pg\.([A-Za-z_][\w.]*)", text))


def exists(name):
    value = pg
    for word in name.split("."):
        value = getattr(value, word, None)
    return value is not None


def test_every_op_of_tensorflow_js_has_a_row():
    full = [f"{space}.{n}" if space else n for space, ns in TFJS.items() for n in ns]
    assert len(full) == 258
    found = [row[0] for row in rows(THEIRS)]
    assert sorted(found) == sorted(f"`tf.{name}`" for name in full)


def test_every_row_has_a_replacement_or_a_remark():
    for theirs, ours, remark in rows(THEIRS):
        if ours == "none":
            assert remark, f"{theirs}: say what to do instead"
        else:
            assert targets(ours), f"{theirs}: plugrad has no name {ours}"


def test_every_name_exists():
    assert not sorted(name for name in targets(TEXT) if not exists(name))


def test_every_op_of_ours_is_in_a_table():
    only = [row[0].removeprefix("`pg.").removesuffix("`") for row in rows(OURS)]
    assert only == sorted(only)
    assert sorted(set(ops()) - targets(THEIRS)) == only


def missing_names(library, column, *modules):
    """Return the names in a column of the table that its library lacks."""
    found = {
        library: pytest.importorskip(library, reason=f"needs {library}: make peers")
    }
    for name in modules:
        found[name] = importlib.import_module(name)
    full = [name for row in ROWS for name in getattr(row, column)]
    return [name for name in full if not has(found[library], name)]


def has(module, name):
    for word in name.replace("jnp.", "numpy.").split("."):
        module = getattr(module, word, None)
    return module is not None


def test_numpy_has_its_names():
    assert not missing_names("numpy", "numpy")


def test_torch_has_its_names():
    assert not missing_names("torch", "torch", "torch.library")


def test_jax_has_its_names():
    names = "image lax nn numpy profiler random scipy.special test_util tree tree_util"
    assert not missing_names("jax", "jax", *(f"jax.{name}" for name in names.split()))


NOT_OPS = """
    cast copyRegisteredKernels customGrad dispose enableDebugMode engine getBackend
    getGradient getKernel getKernelsForBackend grad grads keep memory profile
    registerBackend registerGradient registerKernel removeBackend setBackend tensor1d
    tensor2d tidy time unregisterGradient unregisterKernel valueAndGrad valueAndGrads
    variable variableGrads
"""  # TensorFlow.js exports that are not ops


def test_tensorflow_js_has_its_names():
    known = {name for names in TFJS.values() for name in names} | {*NOT_OPS.split()}
    assert not {name for row in ROWS for name in row.tfjs} - known


def test_a_row_has_names_of_other_libraries_or_a_remark():
    for row in ROWS:
        others = [*row.numpy, *row.torch, *row.jax, *row.tfjs]
        assert others or row.remark, row
        assert row.here or row.remark, row
    here = [row.here for row in ROWS if row.here]
    assert len({*here}) == len(here)
