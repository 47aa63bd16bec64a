"""The core reads Python frames only for a few purposes, most of them messages."""

import ast
from pathlib import Path

import plugrad as pg
import pytest

# Names of functions and attributes that read frames, and why some files may use them.
FRAMES = {"_getframe", "walk_stack", "walk_tb", "currentframe", "f_locals", "f_back"}
ALLOWED = {
    ("registry/deprecation.py", "_getframe"): "the user's line, for warnings",
    ("registry/deprecation.py", "f_back"): "the user's line, for warnings",
    ("tools/debug.py", "walk_stack"): "the user's line, for errors",
    ("tools/debug.py", "_getframe"): "the user's line, for errors",
    # Nothing else shows whether an error comes from a signal handler of the user.
    ("tracing/program.py", "walk_tb"): "whether the handler of a signal has raised",
    # Python passes a profile function the frame of the call.
    ("engine/code.py", "f_back"): "who has called the code of a library",
}


def test_frames_are_read_only_in_allowed_places():
    source = Path(pg.__file__).parent / "_src"
    found = set()
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = getattr(node, "attr", getattr(node, "id", None))
            if isinstance(node, ast.Attribute | ast.Name) and name in FRAMES:
                found.add((path.relative_to(source).as_posix(), name))
    assert found == {*ALLOWED}


# --- code that read frames in earlier versions -------------------------------------


READS = {
    "numpy()": lambda x: x.numpy(),
    "item()": lambda x: x.item(),
    "tolist()": lambda x: x.tolist(),
    "float()": float,
    "DLPack": lambda x: x.__dlpack__(),
}


def _same_name(read):
    """Return a function that has the name of a function in plugrad."""

    def numpy(x):
        return read(x)

    return numpy


@pytest.mark.parametrize("method", READS)
def test_a_read_is_named_by_the_method_that_reads(method, backend):
    def f(x):
        _same_name(READS[method])(x)
        return pg.ones(())

    with pytest.warns(UserWarning, match="gradient is zero") as found:
        pg.grad(f)(1.0)
    assert f"values were read by {method} at {__file__}" in str(found[0].message)
    message = rf"debug: {method.replace('()', '..')} of a tensor"
    with pytest.raises(AssertionError, match=message), pg.debug():
        pg.grad(f)(1.0)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "use", [bool, repr, str, lambda x: f"{x:.2f}", lambda x: pg.nonzero(pg.stack([x]))]
)
def test_showing_values_and_reads_inside_plugrad_are_no_reads(use, backend):
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
