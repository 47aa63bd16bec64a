"""Tensors and reports as HTML in notebooks, read with an HTML parser."""

import dataclasses
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import plugrad as pg
import pytest
from plugrad import plugin
from plugrad_conformance.check import require_dtypes

ALLOWED = {"table", "caption", "tr", "th", "td", "p", "pre", "code", "span"}
STYLES = {f"text-align: {side}" for side in ("left", "right")}
STYLES |= {"font-family: monospace"}


class Reader(HTMLParser):
    """A parser that collects the text of each element and refuses unbalanced tags."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.rows = []
        self.texts = {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED
        attributes = dict(attrs)  # no colors, and nothing from other servers
        assert attributes.keys() <= {"scope", "style", "aria-hidden"}
        assert attributes.get("style") in {None, *STYLES}
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
        self.scope = dict(attrs).get("scope")
        assert (tag == "th") == (self.scope in ("row", "col"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts[self.open[-1]][-1] += data
        if {"td", "th"} & {*self.open}:  # a bar is a span
            self.rows[-1][-1] += data


def read(x):
    found = Reader(x._repr_html_())
    captions = found.texts.get("caption", [])
    assert not any(" " in text for text in captions)  # no wrapping between words
    found.texts |= {"caption": [text.replace("\xa0", " ") for text in captions]}
    return found


def test_a_matrix(backend):
    found = read(pg.asarray([[1.0, 2.5], [1 / 3, -1e20]]))
    assert found.texts["caption"] == [f"Tensor: shape (2, 2), float32, on {backend}"]
    assert found.rows == [
        ["", "0", "1"],
        ["0", "1", "2.5"],
        ["1", "0.333333", "-1e+20"],
    ]


def test_a_vector(backend):
    found = read(pg.asarray([True, False]))
    assert found.texts["caption"] == [f"Tensor: shape (2,), bool, on {backend}"]
    assert found.rows == [["0", "1"], ["True", "False"]]
    assert read(pg.asarray([1, 2])).rows[1] == ["1", "2"]
    assert read(pg.asarray([1 + 2j])).rows[1] == ["1+2j"]
    assert read(pg.asarray([np.nan, -np.inf])).rows[1] == ["nan", "-inf"]


def test_a_long_tensor_is_cut(backend):
    found = read(pg.reshape(pg.arange(11 * 12), (11, 12)))
    assert [len(row) for row in found.rows] == [12] * 12
    assert found.rows[0] == ["", *"01234", "…", "7", "8", "9", "10", "11"]
    assert [row[0] for row in found.rows][4:8] == ["3", "4", "…", "6"]
    assert set(found.rows[6][1:]) == {"…"}
    assert found.rows[-1][1:3] + found.rows[-1][-1:] == ["120", "121", "131"]
    assert len(read(pg.zeros(10)).rows[0]) == 10


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: pg.asarray(3.5), "Tensor: shape (), float32, on {}: "),
        (lambda: pg.zeros((2, 0)), "Tensor: shape (2, 0), float32, on {}"),
        (lambda: pg.zeros((1, 1, 1)), "Tensor: shape (1, 1, 1), float32, on {}"),
    ],
)
def test_tensors_that_are_not_shown_as_tables(make, text, backend):
    found = read(make())
    assert found.texts["p"] == [text.format(backend)]
    assert not found.rows
    assert ("pre" in found.texts) == ("(1, 1, 1)" in text)
    assert found.texts.get("code", ["3.5"]) == ["3.5"]
    if "pre" in found.texts:
        assert found.texts["pre"] == ["[[[0.]]]"]


def test_text_is_escaped(backend):
    require_dtypes(backend, "string")
    text = "<script>alert('&amp;')</script>"
    shown = pg.asarray([text, "é"])._repr_html_()
    assert "<script" not in shown
    assert Reader(shown).rows[1] == [text, "é"]
    assert read(pg.asarray([b"\xff"])).rows[1] == ["�"]
    nested = pg.asarray([[["<b>"]]])._repr_html_()
    assert "<b>" not in nested


def test_a_variable(backend):
    v = pg.Variable([1.0], name="<w>")
    details = f"shape (1,), float32, on {backend}"
    assert read(v).texts["caption"] == [f"Variable '<w>': {details}"]
    assert read(pg.Variable([1.0])).texts["caption"] == [f"Variable: {details}"]


def test_values_that_cannot_be_read(backend):
    x = pg.asarray([1.0])
    x.dispose()
    assert read(x).texts["p"] == [repr(x)]
    seen = []
    pg.vmap(lambda x: seen.append((read(x).texts["p"], repr(x))) or x)(pg.ones((2, 3)))
    assert seen[0][0] == [seen[0][1]]
    assert "of 2 examples" in seen[0][1]


# --- reports ---------------------------------------------------------------------


def profiled():
    with pg.profile() as profile:
        pg.relu(pg.exp(pg.asarray([1.0, -1.0])))
    return profile


def test_a_profile_has_the_numbers_that_print_shows(backend):
    profile = profiled()
    assert repr(profile) == str(profile)
    found = read(profile)
    titles, *rows = found.rows
    assert titles[:3] == ["kernel", "self time", "backend"]
    assert {row[0] for row in rows} == {r.title for r in profile.records}
    lines = str(profile).splitlines()
    for row, line in zip(rows, lines[1:], strict=False):
        assert " ".join(row[:1] + row[2:]).split() == line.split()
    assert found.texts["p"] == lines[1 + len(rows) :]


def test_the_bars_of_a_profile_are_as_long_as_its_times(backend):
    titles, *rows = read(profiled()).rows
    share = titles.index("%")
    lengths = [len(row[1]) for row in rows]
    assert lengths[0] == 12
    assert lengths == sorted(lengths, reverse=True)
    assert [float(row[share]) for row in rows] == sorted(
        (float(row[share]) for row in rows), reverse=True
    )


def test_memory_has_a_row_for_each_backend(backend):
    x = pg.ones((3, 4))
    memory = pg.memory()
    found = read(memory)
    rows = {row[0]: row[1:] for row in found.rows[1:]}
    assert rows.keys() == memory.backends.keys()
    details = memory.backends[backend]
    assert rows[backend][0] == f"{details.tensors:,}"
    assert rows[backend][3] == f"{details.bytes:,}"
    assert rows[backend][4] == ("" if details.peak is None else f"{details.peak:,}")
    caption = f"Memory: {memory.tensors:,} tensors, {memory.bytes:,} bytes"
    assert found.texts["caption"] == [caption]
    x.dispose()


def test_explain_has_a_row_for_each_input(backend):
    y, pullback = pg.vjp(lambda x: pg.relu(pg.exp(x)) * x, 3.0)
    explanation = pg.explain(y)
    found = read(explanation)
    titles, *rows = found.rows
    assert {"kernel", "backend", "how", "gradient"} <= {*titles}
    assert len(rows) == len(explanation.rows) == 4
    kernel = titles.index("kernel")
    gradient = titles.index("gradient")
    assert [row[kernel] for row in rows] == ["Exp", "Relu", "Multiply", ""]
    assert [row[gradient] for row in rows] == [
        row["gradient"] for row in explanation.rows
    ]
    assert found.texts["caption"] == ["Explanation: 3 kernel runs"]
    del pullback


def test_a_replay_has_a_row_for_each_kernel(backend):
    f = pg.jit(lambda x: pg.tanh(x) * x)
    f(pg.ones(3))
    explanation = f.explain(pg.ones(3))
    found = read(explanation)
    assert [row[0] for row in found.rows[1:]] == ["Tanh", "Multiply"]
    assert found.rows[1][-1] == explanation.to_dict()["graph"][0]["by"]
    lines = repr(explanation).splitlines()
    assert found.texts["caption"] == lines[:1]
    assert found.texts.get("p", []) == [s for s in lines[1:] if s.startswith("region")]


def test_reports_without_rows(backend):
    with pg.profile() as profile:
        pass
    assert read(profile).texts["p"][0] == "Profile"
    memory = type(pg.memory())({})
    assert read(memory).texts["p"] == ["Memory: 0 tensors, 0 bytes"]
    y, pullback = pg.vjp(pg.exp, 3.0)
    without_rows = dataclasses.replace(pg.explain(y), rows=[])
    del pullback
    assert read(without_rows).texts["p"] == ["Explanation: 0 kernel runs"]
    eager = pg.jit(lambda x: float(x))
    shown = read(eager.explain(pg.asarray(2.0)))
    assert not shown.rows
    assert "runs as it is" in shown.texts["p"][0]


def test_names_are_escaped(backend):
    @pg.jit
    def f(x):
        return pg.tanh(x)

    explanation = f.explain(pg.ones(3))._replace(
        name="<lambda>", retraces=["<b>", "a & b"]
    )
    html = explanation._repr_html_()
    assert "<lambda>" not in html
    found = Reader(html)
    assert found.texts["caption"][0].startswith("<lambda>\xa0replays")
    assert found.texts["p"][-2:] == ["recorded again: <b>", "recorded again: a & b"]
    details = pg.memory().backends["cpu"]
    assert read(type(pg.memory())({"<i>": details})).rows[1][0] == "<i>"


def test_cells_of_a_table():
    html = plugin.html_table(
        "<t> & co",
        ["<name>", "count", "loss"],
        [
            ["<a>", 12345, 1 / 3],
            [True, None, np.float32(2)],
            [False, np.int64(7), 1e-9],
        ],
        text_columns=["<name>"],
        notes=["<note>"],
    )
    found = Reader(html)
    assert found.rows == [
        ["<name>", "count", "loss"],
        ["<a>", "12,345", "0.3333"],
        ["yes", "", "2"],
        ["", "7", "1e-09"],
    ]
    assert found.texts["p"] == ["<note>"]
    assert html.count("text-align: left") == 1 + 4  # the caption, and a column


def test_long_tables_are_cut():
    rows = [[n] for n in range(30)]
    found = Reader(plugin.html_table("t", ["n"], rows, max_rows=4))
    assert [row[0] for row in found.rows] == ["n", "0", "1", "…", "28", "29"]
    assert len(Reader(plugin.html_table("t", ["n"], rows)).rows) == 31
    assert len(Reader(plugin.html_table("t", ["n"], rows, max_rows=30)).rows) == 31


def test_rows_have_as_many_cells_as_titles():
    with pytest.raises(ValueError, match="zip"):
        plugin.html_table("t", ["a", "b"], [[1]])


def test_html_is_imported_when_it_is_shown():
    code = """
import sys, plugrad as pg
with pg.profile() as p:
    f = pg.jit(lambda x: pg.tanh(x))
    e = f.explain(pg.ones(3))
str(p), repr(e), str(pg.memory())
assert "plugrad._src.tensor.html" not in sys.modules
p._repr_html_()
assert "plugrad._src.tensor.html" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
