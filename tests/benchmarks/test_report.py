"""``python -m benchmarks.report``: ratios, tables, charts, and how pages are filled.

``tests/docs/test_derived.py`` compares the pages and the charts with its output.
"""

import datetime
import doctest
import re
import xml.etree.ElementTree as ET

import pytest

from benchmarks import charts, markdown, ratios, records, report, report_charts
from benchmarks.charts import Bars, Group, Panels
from benchmarks.report_tables import BLOCKS

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def results():
    return records.read_all()


def record(**fields):
    defaults = {
        "machine": "m",
        "command": "c",
        "question": "q",
        "unit": "us",
        "name": "r",
    }
    return records.Record(date=datetime.date(2026, 11, 23), **(defaults | fields))


def draw(chart, theme=charts.LIGHT):
    text = charts.render(chart, theme)
    assert text == charts.render(chart, theme)
    return ET.fromstring(text)


def texts(drawn):
    return [text.text for text in drawn.iter(f"{SVG}text")]


# --- ratios and tables -----------------------------------------------------------


def test_examples_run():
    failed, tried = doctest.testmod(markdown)
    assert tried
    assert not failed


def test_a_ratio_needs_both_numbers():
    rows = (("a", 2, 4), ("b", None, 4), ("c", 2, None), ("d", 2, 1))
    found = record(columns=("name", "cpu", "torch"), rows=rows)
    by_name = ratios.column_ratios(found, "torch", "cpu")
    assert by_name == {"a": 2.0, "d": 0.5}
    assert ratios.mean(by_name.values()) == pytest.approx(1.0)
    assert ratios.inverse(by_name) == {"a": 0.5, "d": 2.0}


def test_workloads_are_single_ops_or_composed(results):
    by_name = ratios.column_ratios(results[ratios.MAIN], "torch", "cpu")
    single, composed = ratios.single_ops(by_name), ratios.composed(by_name)
    assert {*composed} == ratios.COMPOSED
    assert single | composed == by_name
    assert "matmul_512" in single


def test_a_row_of_a_table_fits_its_columns():
    with pytest.raises(ValueError, match=r"\['x'\] does not fit the columns \['a', 'b"):
        markdown.table(["a", "b"], [["x"]])
    assert markdown.table(["", "b"], [["x", ""]]).splitlines() == [
        "| | b |",
        "| --- | ---: |",
        "| x | |",
    ]


@pytest.mark.parametrize("name", BLOCKS)
def test_tables_of_a_block_have_rows_of_one_length(name, results):
    text = BLOCKS[name](results, "docs/some.md")
    for part in re.findall(r"(?:^\|.*\n?)+", text, re.M):
        assert len({line.count("|") for line in part.splitlines()}) == 1
    for line in text.splitlines():
        assert len(line) <= markdown.PAGE_WIDTH or line[0] in "|<"
    assert 'src="benchmarks/' in text or "<picture>" not in text


def test_means_follow_from_the_rows(results):
    text = BLOCKS["workloads on Zen 4"](results, "docs/measurements.md")
    table, _ = text.split("</details>")[:2]
    rows = [line.split("|")[1:-1] for line in table.splitlines() if line[:1] == "|"]
    for *cells, mean in [*zip(*rows[2:], strict=True)][-3:]:
        shown = [float(cell) for cell in cells if cell.strip()]
        assert ratios.mean(shown) == pytest.approx(float(mean), rel=5e-3)


# --- pages -----------------------------------------------------------------------


def test_a_page_is_filled_between_its_marks(results, monkeypatch):
    monkeypatch.setitem(BLOCKS, "a b", lambda results, page: f"of {page}")
    text = "x\n<!-- results: a b -->\nold\n\nold\n<!-- /results -->\ny\n"
    filled = report.fill(text, "docs/a.md", results)
    assert filled == text.replace("old\n\nold", "of docs/a.md")
    assert report.fill(filled, "docs/a.md", results) == filled


def test_unknown_blocks_and_missing_records_are_named(results):
    mark = "<!-- results: {} -->\n<!-- /results -->"
    with pytest.raises(records.RecordError, match=r"a\.md: no block 'some'; choose"):
        report.fill(mark.format("some"), "a.md", results)
    without_gpu = {name: x for name, x in results.items() if name != ratios.GPU}
    with pytest.raises(
        records.RecordError, match=f"gpu: no record or row '{ratios.GPU}"
    ):
        report.fill(mark.format("gpu"), "a.md", without_gpu)


def test_every_block_and_chart_is_on_a_page():
    pages = "".join((report.ROOT / page).read_text() for page in report.PAGES)
    assert {*re.findall("<!-- results: (.+) -->", pages)} == {*BLOCKS}
    shown = {*re.findall(r'src="(?:docs/)?benchmarks/([\w-]+)\.svg"', pages)}
    assert shown == {*report_charts.CHARTS}
    files = {path.name for path in report.CHARTS_FOLDER.iterdir()}
    assert files == {path.name for path in report.chart_paths()}


def test_a_check_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(report, "PAGES", ())
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.setattr(report, "CHARTS_FOLDER", tmp_path / "charts")
    assert report.main(["--check"]) == 1
    assert "charts/front.svg is not up to date" in capsys.readouterr().out
    assert not [*tmp_path.iterdir()]
    assert report.main([]) == 0
    assert report.main(["--check"]) == 0
    assert len([*(tmp_path / "charts").iterdir()]) == len(report.chart_paths())


# --- charts ----------------------------------------------------------------------


def bars(*groups, logarithmic=True, series=("PyTorch", "JAX")):
    return Bars("title", "axis, us", "caption", series, groups, logarithmic)


def edges(drawn):
    """Return where bars begin and end; only bars have the height ``BAR_HEIGHT``."""
    heights = f"{charts.BAR_HEIGHT}"
    found = [r.attrib for r in drawn.iter(f"{SVG}rect") if r.get("height") == heights]
    return [(float(r["x"]), float(r["x"]) + float(r["width"])) for r in found]


def test_a_bar_goes_from_one_to_the_ratio():
    drawn = draw(bars(Group("a", (0.25, 4.0)), Group("b", (2.0, None))))
    (low, one), (start, high), (begin, middle) = edges(drawn)
    assert one == pytest.approx(start, abs=0.1)
    assert one == pytest.approx(begin, abs=0.1)
    assert high - one == pytest.approx(one - low, abs=0.2)
    assert middle - one == pytest.approx((high - one) / 2, abs=0.2)
    assert {"0.25", "4.00", "2.00", "a", "b", "title", "axis, us", "caption"} <= {
        *texts(drawn)
    }


def test_a_bar_of_a_linear_axis_begins_at_zero():
    drawn = draw(bars(Group("a", (0.5, 2.0)), logarithmic=False))
    (zero, half), (start, two) = edges(drawn)
    assert zero == start
    assert two - zero == pytest.approx(4 * (half - zero), abs=0.2)
    assert "0" in texts(drawn)


def test_series_have_the_colour_of_their_library():
    chart = bars(Group("a", (2.0, 3.0)), series=("JAX, jit", "PyTorch, eager"))
    for theme in (charts.LIGHT, charts.DARK):
        fills = [r.get("fill") for r in draw(chart, theme).iter(f"{SVG}rect")]
        jax, torch = theme.libraries["JAX"], theme.libraries["PyTorch"]
        assert fills == [theme.ground, jax, torch, jax, torch]


def test_panels_leave_missing_points_out():
    curves = {"exp_1m": [[1.0, None, 2.0], [None] * 3], "none": [[None] * 3] * 2}
    series, ticks = ("plugrad", "PyTorch"), ("1/4", "1", "4")
    drawn = draw(Panels("title", "size", "ns", "caption", series, ticks, curves))
    assert len(drawn.findall(f".//{SVG}circle")) == 2
    assert "no times" in texts(drawn)


@pytest.mark.parametrize("name", report_charts.CHARTS)
def test_a_chart_says_what_where_and_when(name, results):
    chart = report_charts.CHARTS[name](results)
    shown = texts(draw(chart))
    assert chart.title in shown
    assert any(re.search(r"\d+ November 2026", text) for text in shown)
    assert any(re.search("time of .* / time of plugrad|ns per", text) for text in shown)
    drawn = draw(chart, charts.DARK)
    width = float(drawn.get("width"))
    for text in drawn.iter(f"{SVG}text"):
        assert 0 <= float(text.get("x")) <= width


def contrast(one, other):
    """Return the contrast of two colors according to WCAG."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", charts.THEMES.values(), ids=["light", "dark"])
def test_colours_have_enough_contrast(theme):
    for color in (theme.text, theme.muted):
        assert contrast(color, theme.ground) >= 4.5
    for color in theme.libraries.values():
        assert contrast(color, theme.ground) >= 3
