"""The core reads frames for the lines in messages, and does not rely on them."""

import ast
from pathlib import Path

import plugrad as pg
import pytest

# Where frames are read, and what needs them.
FRAMES = {"_getframe", "walk_stack", "walk_tb", "currentframe", "f_locals", "f_back"}
ALLOWED = {
    ("registry/deprecation.py", "_getframe"): "the user's line, for warnings",
    ("registry/deprecation.py", "f_back"): "the user's line, for warnings",
    ("tools/debug.py", "walk_stack"): "the user's line, for errors",
    ("tools/debug.py", "_getframe"): "the user's line, for errors",
    # No one tells where an error comes from: the handler of a signal is the user's.
    ("tracing/program.py", "walk_tb"): "whether the handler of a signal has raised",
    # Python gives a profile function the frame of the call that it is about.
    ("engine/code.py", "f_back"): "who has called the code of a library",
}


def test_frames_are_read_where_nothing_else_knows():
    source = Path(pg.__file__).parent / "_src"
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "attr", getattr(node, "id", None))
            if isinstance(node, ast.Attribute | ast.Name) and name in FRAMES:
                found.add((path.relative_to(source).as_posix(), name))
    assert found == {*ALLOWED}


# --- what used to read frames ------------------------------------------------------


READS = {
    "numpy()": lambda x: x.numpy(),
    "item()": lambda x: x.item(),
    "tolist()": lambda x: x.tolist(),
    "float()": float,
    "DLPack": lambda x: x.__dlpack__(),
}


def _same_name(read):
    """Return a function with the name of one of plugrad's."""

    def numpy(x):
        return read(x)

    return numpy


@pytest.mark.parametrize("how", READS)
def test_a_read_is_named_by_the_method_that_reads(how, backend):
    def f(x):
        _same_name(READS[how])(x)
        return pg.ones(())

    with pytest.warns(UserWarning, match="gradient is zero") as found:
        pg.grad(f)(1.0)
    assert f"values were read by {how} at {__file__}" in str(found[0].message)
    message = rf"debug: {how.replace('()', '..')} of a tensor"
    with pytest.raises(AssertionError, match=message), pg.debug():
        pg.grad(f)(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "use", [bool, repr, str, lambda x: f"{x:.2f}", lambda x: pg.nonzero(pg.stack([x]))]
)
def test_what_shows_or_needs_values_for_itself_is_no_read(use, backend):
    def f(x):
        use(x)
        return x * x

    with pg.debug():
        assert pg.grad(f)(3.0).item() == 6.0


def test_moves_within_a_run_are_no_transfers():
    with pg.use_backend("wasm"):
        x = pg.ones((4,))
    with pg.use_backend("cpu"), pg.profile() as p:
        x + x
        x.numpy()
    assert [(t.what, t.backend) for t in p.transfers] == [("download", "wasm")]
    assert [(m.source, m.target) for r in p.records for m in r.moves] == [
        ("wasm", "cpu")
    ]
