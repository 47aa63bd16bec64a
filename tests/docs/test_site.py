"""How ``make site`` converts pages: links, navigation, tables, diagrams, checks.

MkDocs is not needed here: ``make site`` builds the site and runs its checks.
"""

import datetime
import doctest
import json
import math
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from docs.site import (
    cards,
    check,
    diagrams,
    dialect,
    generated,
    kernels,
    links,
    messages,
    navigation,
    notebooks,
    search,
    translations,
)
from tests.docs.blocks import ROOT, texts
from tests.surface import public


@pytest.mark.parametrize(
    "module",
    [
        cards,
        dialect,
        generated,
        kernels,
        links,
        messages,
        navigation,
        notebooks,
        search,
        translations,
    ],
    ids=lambda m: m.__name__,
)
def test_examples_run(module):
    failed, tried = doctest.testmod(module)
    assert tried
    assert not failed


# --- links -----------------------------------------------------------------------

SOURCE_URL = "https://github.com/plugrad/plugrad/blob/main"
LINKS = {  # source, page, link on GitHub: link on the site
    ("docs/a.md", "a.md", "b.md#c"): "b.md#c",
    ("docs/a.md", "a.md", "#c"): "#c",
    ("docs/a.md", "a.md", "https://example.org/x"): "https://example.org/x",
    ("docs/a.md", "a.md", "../CHANGELOG.md"): "changelog.md",
    ("docs/a.md", "a.md", "../examples/digits.py"): f"{SOURCE_URL}/examples/digits.py",
    ("docs/decisions/1.md", "decisions/1.md", "../jit.md"): "../jit.md",
    ("README.md", "index.md", "docs/jit.md"): "jit.md",
    ("docs/guide.es.md", "es/guide.md", "start.es.md#a"): "start.md#a",
    ("docs/guide.es.md", "es/guide.md", "jit.md"): "../jit.md",
    ("docs/a.md", "a.md", "guide.es.md"): "es/guide.md",
    ("CONTRIBUTING.md", "contributing.md", "docs/jit.md#a"): "jit.md#a",
    ("plugins/cpu/README.md", "packages/plugrad-cpu.md", "../../docs/jit.md"): (
        "../jit.md"
    ),
    (
        "core/README.md",
        "packages/plugrad.md",
        "https://raw.githubusercontent.com/plugrad/plugrad/main/docs/a.png",
    ): "../a.png",
}


@pytest.mark.parametrize("given", LINKS, ids=lambda given: given[-1])
def test_a_link_fits_the_site(given):
    source, page, link = given
    text = f"[a]({link}) `[a]({link})`\n```\n[a]({link})\n```\n"
    expected = text.replace(link, LINKS[given], 1)
    assert links.relink(text, source, page) == expected


def test_every_distribution_has_a_page():
    named = {
        tomllib.loads(path.read_text())["project"]["name"]
        for pattern in ("core", "plugins/*", "tests/conformance", "examples/gradient_*")
        for path in ROOT.glob(f"{pattern}/pyproject.toml")
    }
    pages = {*links.pages().values()}
    assert pages >= {f"packages/{name}.md" for name in named}


def test_every_page_is_in_the_navigation():
    """``make site`` also checks this, but it needs MkDocs."""
    text = (ROOT / "mkdocs.yml").read_text()
    nav = re.search(r"(?ms)^nav:\n(.*?)^\S", text)[1]
    patterns = re.findall(r"[\w./*-]+\.md", nav)
    paths = [
        path.removeprefix("docs/")
        for path in texts()
        if path.startswith("docs/") and not translations.original(path)
    ]
    lost = [p for p in paths if not any(fnmatch(p, pattern) for pattern in patterns)]
    assert not lost, f"give {lost} an entry under nav: in mkdocs.yml"


# --- notebooks -------------------------------------------------------------------


def test_a_notebook_is_a_page_with_its_outputs():
    source = "examples/notebooks/quantize.ipynb"
    page = links.pages()[source]
    text, pictures = notebooks.convert((ROOT / source).read_text(), source, page)
    assert page == "notebooks/quantize.md"
    assert text.startswith("# Train a network")
    assert f"({SOURCE_URL}/examples/gallery/quantize.py)" in text
    assert "```text\nfloat32 weights: accuracy " in text
    (name,) = pictures
    assert pictures[name].startswith(b"\x89PNG")
    alternative = re.search(r"!\[(.*)\]\(quantize.1.png\)", text)[1]
    assert alternative.startswith("Accuracy by the number of bits")
    assert text.count('<div class="notebook-output"><table') == 5


def test_an_output_that_failed_is_refused():
    cell = {"cell_type": "code", "source": [], "outputs": [{"output_type": "error"}]}
    with pytest.raises(ValueError, match=r"a\.md: cannot show output of type 'error'"):
        notebooks.convert(json.dumps({"cells": [cell]}), "a.ipynb", "a.md")


# --- what other sites show -------------------------------------------------------


def test_a_card_has_a_picture_if_the_address_is_known():
    tags = cards.tags('"a"', "<b>", "https://x.org/p/a/", "https://x.org/p/")
    assert '"og:title" content="&quot;a&quot;"' in tags
    assert '"og:description" content="&lt;b&gt;"' in tags
    picture = re.search(r'"og:image" content="https://x.org/p/(.*?)"', tags)[1]
    assert (ROOT / "docs" / picture).exists()
    assert "og:image" not in cards.tags("a", "b", None, "")


def test_a_description_is_short():
    long = "One sentence is here. " * 20
    assert cards.description(f"# a\n\n{long}").endswith("is here.")
    words = cards.description("word " * 99)
    assert len(words) <= cards.MAX_CHARACTERS + 1
    assert words.endswith("word…")
    assert cards.description("<!-- a -->\n\n```\nx\n\ny\n```\n\n- b\n") == ""


# --- links to code ---------------------------------------------------------------


def test_a_link_to_code_has_the_line_and_the_version(monkeypatch):
    path = ROOT / "core" / "src" / "plugrad" / "plugin.py"
    assert links.source_url(path, 3) == f"{SOURCE_URL}/core/src/plugrad/plugin.py#L3"
    monkeypatch.setenv("SITE_REF", "v1")
    assert "/blob/v1/core/" in links.source_url(path, 3)
    assert links.source_url(Path("/elsewhere.py"), 1) is None


# --- tables of the code ----------------------------------------------------------


def test_contracts_of_kernels_are_on_several_pages():
    table, pages = kernels.split((ROOT / "docs" / "kernels.md").read_text())
    linked = re.findall(r"^\| \[`(\w+)`\]\((\S+)#(\w+)\) \|", table, re.M)
    headings = {
        (name, path, name.lower())
        for path, text in pages.items()
        for name in re.findall(r"^## (\w+)$", text, re.M)
    }
    assert {*linked} == headings
    assert len(linked) > 200
    assert 4 < len(pages) < 12
    assert max(text.count("\n## ") for text in pages.values()) < 60


def test_the_menu_has_the_titles_of_the_pages():
    """In mkdocs.yml, only sections have titles."""
    text = (ROOT / "mkdocs.yml").read_text()
    nav = re.search(r"(?ms)^nav:\n(.*?)^\S", text)[1]
    assert re.findall(r"- (.+): [^*\n]+\.md$", nav, re.M) == []
    assert len(re.findall(r"- [\w-]+\.md$", nav, re.M)) > 25


PHOTOGRAPHS = {
    "digits.png",
    "gradient_packs.png",
    "look_inside.png",
    "photographs.png",
    "relevance.png",
    "tokens.png",
    "voice.png",
    "waves.png",
}


def test_plots_are_inverted_in_dark_mode():
    css = (ROOT / "docs" / "site" / "extra.css").read_text()
    rule = re.search(r"img:is\((.*?)\) \{\s*filter: invert", css, re.S)[1]
    ends = re.findall(r'^\s*\[src\$="([\w.]+)"\]', rule, re.M)
    folders = re.findall(r'\[src\*="(\w+/)"\]', rule)
    excluded = re.findall(r':not\(\[src\$="([\w.]+)"\]\)', rule)
    shown = {
        image
        for path, text in texts().items()
        if path.startswith("docs/")
        for image in re.findall(r"\]\(([\w./]+\.(?:png|svg))\)", text)
    }
    for image in shown:
        name = Path(image).name
        inverted = name in ends or any(folder in image for folder in folders)
        inverted &= name not in excluded
        assert inverted != (name in PHOTOGRAPHS), image


@pytest.mark.parametrize("library", generated.LIBRARIES)
def test_a_table_of_names_has_three_columns(library):
    head, rule, *rows = generated.names(library).splitlines()
    assert head.count("|") == rule.count("|") == 4
    assert rows == sorted(rows, key=str.casefold)
    assert {row.count("|") for row in rows} == {4}


def test_every_public_name_is_on_one_page():
    text = "\n".join(generated.pages().values())
    entries = re.findall(r"^::: plugrad\.([\w.]+)$", text, re.M)
    assert len(entries) == len({*entries})
    assert {*entries} >= {*public()}


def test_every_mark_has_a_part():
    marks = [
        m for text in texts().values() for m in re.findall("<!-- site: (.*) -->", text)
    ]
    assert {*marks} == {*generated.PARTS}


FRONT = {  # record: pairs of columns; the front page shows the mean ratio of each
    "workloads-xeon-1": [
        ("torch", "cpu"),
        ("torch", "cpu-jit-own"),
        ("jax-jit", "cpu-jit-own"),
    ],
    "gpu-workloads-h100": [("torch-cuda", "opencl-mixed")],
}


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_figures_of_a_page_are_those_of_the_benchmarks(page):
    """The table has geometric means of ratios of recorded times, and their dates."""
    expected, days = [], []
    for name, pairs in FRONT.items():
        path = ROOT / "benchmarks" / "results" / f"{name}.json"
        record = json.loads(path.read_text())
        day = datetime.date.fromisoformat(record["date"])
        days.append(f"{day.day} {day:%B %Y}")
        for pair in pairs:
            peer, ours = map(record["columns"].index, pair)
            ratios = [row[peer] / row[ours] for row in record["rows"] if row[ours]]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            expected.append((str(len(ratios)), f"{mean:.2f}"))
    text = (ROOT / page).read_text().partition("## How fast it is")[2]
    text = text.partition("\n## ")[0]
    assert re.findall(r"^\|.*\| (\d+) \| ([\d.]+) \|$", text, re.M) == expected
    assert re.findall(r"\d+ \w+ 20\d\d", text) == days


@pytest.mark.parametrize(
    "page", [p for p, text in texts().items() if "<picture" in text]
)
def test_charts_have_a_light_and_a_dark_form(page):
    text = texts()[page]
    found = dialect.PICTURE.findall(text)
    assert len(found) == text.count("<picture>")
    for dark, alternative, light in found:
        assert dark == light.replace(".svg", "-dark.svg")
        assert re.search(r"\w \w", alternative)
        for image in (light, dark):
            assert ((ROOT / page).parent / image).exists()


# --- diagrams --------------------------------------------------------------------


def test_a_diagram_has_its_boxes_and_labels():
    svg = diagrams.render("a\nb <c>\n+ d\n\n-> e\n\nf", "title")
    assert re.findall(r"<text.*>(.*)</text>", svg) == [
        "a",
        "b &lt;c&gt;",
        "d",
        "e",
        "f",
    ]
    assert svg.count("<rect") == 4
    assert svg.count("marker-end") == 1


def test_a_line_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="too long for its box; break it"):
        diagrams.render("x\n" + "y" * 60 + "\n+ z", "title")


# --- search ----------------------------------------------------------------------


def test_each_language_has_its_search_index():
    config = {"separator": r"[\s]+", "lang": ["en"]}
    places = ["guide/#op", "es/guide/#operación", "jit/", "es/start/", "start/"]
    index = {"config": config, "docs": [{"location": place} for place in places]}
    found = search.split(index, {"es/guide/", "es/start/"})
    at = lambda code: [entry["location"] for entry in found[code]["docs"]]
    assert at("en") == ["guide/#op", "jit/", "start/"]
    assert at("es") == ["guide/#operación", "../jit/", "start/"]
    assert at("ja") == ["../guide/#op", "../jit/", "../start/"]
    assert found["en"]["config"] == config
    assert found["es"]["config"]["lang"] == ["es"]
    words = lambda code, text: re.split(found[code]["config"]["separator"], text)
    assert words("es", "¿a，b") == ["", "a", "b"]
    assert words("zh", "梯度 op*") == ["梯", "度", "op*"]
    assert words("ja", "カスタム勾配") == ["カスタム", "勾配"]
    assert {*found} == {*translations.LANGUAGES}


def test_a_page_with_translations_keeps_its_alternates():
    html = '<link rel="alternate" href="../es/guide/">'
    assert search.adapt(html, "guide.md") == search.adapt(html, "es/guide.md") == html


# --- checks of the built site ----------------------------------------------------

CARD = "".join(f'<meta property="{name}" content="a">' for name in check.CARD)
VALID_PAGE = (
    f'{CARD}<link rel="canonical" href="https://x.org">'
    '<h1 id="top">a</h1><a href="#top">b</a>'
)
FAULTS = {
    '<script src="https://x.org/a.js"></script>': "loads https://x.org/a.js",
    '<img src="//x.org/a.png">': "loads //x.org/a.png",
    '<link rel="stylesheet" href="http://x.org/a.css">': "loads http://x.org/a.css",
    '<link href="https://x.org" rel="preconnect">': "loads https://x.org",
    "<style>@import url(https://x.org/a.css)</style>": "loads https://x.org/a.css",
    "<p style=\"background: url('//x.org/a')\">a</p>": "loads //x.org/a",
    '<a href="gone/">a</a>': "gone/ leads nowhere",
    '<a href="other/#gone">a</a>': "other/#gone leads nowhere",
    '<a href="#gone">a</a>': "#gone leads nowhere",
    '<img src="gone.png">': "gone.png leads nowhere",
    "<p>a\n- b</p>": "not a list: a\n- b",
    '<div class="doc doc-function">a</div>': "1 entries, 0 links to code",
    '<meta property="og:title" content="">': "index.html has no og:title",
    '<meta property="og:image" content="https://x.org/a.png">': (
        "https://x.org/a.png does not exist"
    ),
}


def write_site(folder, html):
    (folder / "other").mkdir()
    (folder / "index.html").write_text(VALID_PAGE + html)
    (folder / "other" / "index.html").write_text(f'{CARD}<a href="../#top">a</a>')


@pytest.mark.parametrize("html", FAULTS)
def test_a_fault_is_found(html, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "public_names", set)
    write_site(tmp_path, html)
    assert check.main(tmp_path) == 1
    assert FAULTS[html] in capsys.readouterr().out


def test_files_of_python_and_an_empty_map_are_found(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "public_names", set)
    write_site(tmp_path, "")
    (tmp_path / "site" / "__pycache__").mkdir(parents=True)
    (tmp_path / "site" / "hooks.py").touch()
    (tmp_path / "layers.txt").touch()
    (tmp_path / "sitemap.xml").write_text("<urlset></urlset>")
    assert check.main(tmp_path) == 1
    out = capsys.readouterr().out
    assert "__pycache__ must not be published" in out
    assert "hooks.py must not be published" in out
    assert "layers.txt must not be published" in out
    assert "sitemap.xml has 0 of 2 pages" in out


def test_a_site_without_faults_passes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "public_names", lambda: {"top"})
    write_site(tmp_path, '<a href="https://x.org">a</a><a href="other/">b</a>')
    assert check.main(tmp_path) == 0
    assert "2 pages, 4 links, 0 faults" in capsys.readouterr().out


def test_a_style_sheet_and_a_missing_name_are_found(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(check, "public_names", lambda: {"plugrad.lost"})
    write_site(tmp_path, "")
    (tmp_path / "a.css").write_text('a { background: url("https://x.org/a.png") }')
    assert check.main(tmp_path) == 1
    out = capsys.readouterr().out
    assert "loads https://x.org/a.png" in out
    assert "plugrad.lost has no entry" in out


def test_names_of_the_reference_are_the_public_ones():
    assert {
        "plugrad.relu",
        "plugrad.fft.rfft",
        "plugrad.plugin.run",
    } <= check.public_names()
    assert "plugrad.geometry.windows" in check.public_names()
