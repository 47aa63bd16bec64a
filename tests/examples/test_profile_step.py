"""The page and the pictures of ``examples/profile_step.py``, from real traces."""

import re
import struct
from pathlib import Path

import plugrad as pg
import pytest

ROOT = Path(__file__).parents[2]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def profile_step(monkeypatch):
    for name in ("matplotlib", "sklearn"):
        pytest.importorskip(name, reason="needs the demo group: make demo")
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import profile_step

    return profile_step


def size(path):
    """Return width and height of a picture, and its bytes in the file."""
    data = path.read_bytes()
    assert data.startswith(PNG)
    return *struct.unpack(">II", data[16:24]), len(data)


def test_a_step_on_each_backend(profile_step, backend, tmp_path):
    table, events = profile_step.profiled(backend, steps=2)
    spans = [e for e in events if e["ph"] == "X"]
    kernels = {e["name"] for e in spans}
    assert {"Conv2D", "Conv2DBackpropFilter", "MaxPoolGrad", "BatchMatMul"} <= kernels
    assert {"upload", "download"} <= {e["cat"] for e in spans}
    assert all(name in table for name in ("Conv2D", "uploads: ", "downloads: "))
    spans.sort(key=lambda e: (e["ts"], -e["dur"]))
    assert spans[0]["ts"] >= 0
    path = []  # two spans are either disjoint or nested
    for e, depth in zip(spans, profile_step.rows(spans), strict=True):
        path = [*path[:depth], e]
        assert len(path) == depth + 1
        if depth:
            assert e["ts"] + e["dur"] <= path[-2]["ts"] + path[-2]["dur"] + 1
    profile_step.draw(events, "a step", tmp_path / "step.png")
    width, height, file_size = size(tmp_path / "step.png")
    assert width == 1300
    assert 250 < height < 700
    assert file_size < 150_000


def test_the_row_of_a_span_is_its_nesting_depth(profile_step):
    spans = [(0, 10), (1, 4), (2, 1), (5, 5), (10, 3), (20, 1)]
    events = [{"ts": ts, "dur": dur} for ts, dur in spans]
    assert profile_step.rows(events) == [0, 1, 2, 1, 0, 0]


def test_the_published_page():
    page = (ROOT / "docs" / "profile.md").read_text()
    pictures = re.findall(r"!\[A trace on (\w+)\]\((profile/\1\.png)\)", page)
    ours = {path.name for path in (ROOT / "plugins").iterdir()}
    ours.remove("webgpu")  # the times of lavapipe say nothing about GPUs
    for backend in ours.intersection(pg.backends()):
        assert (backend, f"profile/{backend}.png") in pictures, (
            "OPENBLAS_NUM_THREADS=1 python examples/profile_step.py --out docs"
        )
    for backend, path in pictures:
        *_, file_size = size(ROOT / "docs" / path)
        assert file_size < 150_000
        table = page.partition(f"\n## {backend}\n")[2].partition("```\n")[2]
        title, *rows = table.partition("```")[0].splitlines()
        assert title.split()[:2] == ["kernel", "backend"]
        assert any(row.split()[:2] == ["Conv2DBackpropFilter", backend] for row in rows)
