"""What a notebook shows of a tensor: tables, read with a parser of HTML."""

from html.parser import HTMLParser

import numpy as np
import plugrad as pg
import pytest

ALLOWED = {"table", "caption", "tr", "th", "td", "p", "pre"}


class Reader(HTMLParser):
    """Collects the text of each element, and refuses what is not balanced."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.texts = [], [], {}
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in ALLOWED
        assert all(name == "scope" for name, _ in attrs)  # nothing from elsewhere
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
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def read(x):
    found = Reader(x._repr_html_())
    captions = found.texts.get("caption", [])
    assert not any(" " in text for text in captions)  # it does not wrap by the word
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


def test_a_long_one_is_cut(backend):
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
        (lambda: pg.asarray(3.5), "Tensor: shape (), float32, on {}: 3.5"),
        (lambda: pg.zeros((2, 0)), "Tensor: shape (2, 0), float32, on {}"),
        (lambda: pg.zeros((1, 1, 1)), "Tensor: shape (1, 1, 1), float32, on {}"),
    ],
)
def test_what_is_no_table(make, text, backend):
    found = read(make())
    assert found.texts["p"] == [text.format(backend)]
    assert not found.rows
    assert ("pre" in found.texts) == ("(1, 1, 1)" in text)
    if "pre" in found.texts:
        assert found.texts["pre"] == ["[[[0.]]]"]


def test_text_is_escaped(backend):
    text = "<script>alert('&amp;')</script>"
    shown = pg.asarray([text, "é"])._repr_html_()
    assert "<script" not in shown
    assert Reader(shown).rows[1] == [text, "é"]
    assert read(pg.asarray([b"\xff"])).rows[1] == ["�"]
    nested = pg.asarray([[["<b>"]]])._repr_html_()
    assert "<b>" not in nested


def test_a_variable(backend):
    v = pg.Variable([1.0], name="<w>")
    about = f"shape (1,), float32, on {backend}"
    assert read(v).texts["caption"] == [f"Variable '<w>': {about}"]
    assert read(pg.Variable([1.0])).texts["caption"] == [f"Variable: {about}"]


def test_values_that_cannot_be_read(backend):
    x = pg.asarray([1.0])
    x.dispose()
    assert read(x).texts["p"] == [repr(x)]
    seen = []
    pg.vmap(lambda x: seen.append((read(x).texts["p"], repr(x))) or x)(pg.ones((2, 3)))
    assert seen[0][0] == [seen[0][1]]
    assert "of 2 examples" in seen[0][1]


def test_a_profile_is_shown_as_its_table(backend):
    with pg.profile() as profile:
        pg.relu(pg.asarray([1.0, -1.0]))
    assert repr(profile) == str(profile)
    assert "relu" in repr(profile).lower()
    assert " at 0x" not in repr(profile)
