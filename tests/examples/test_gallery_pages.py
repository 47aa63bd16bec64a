"""The pages of the gallery: their code comes from programs that are tested."""

import ast
import re
import textwrap

import pytest

from examples import random_weights
from tests.docs.blocks import ROOT, blocks
from tests.examples.published import CONTEXT, GPT2, IMAGE, LAYERS, PATCH, VIT, WIDTH

FOLDER = ROOT / "docs" / "gallery"
LIST = (ROOT / "docs" / "gallery.md").read_text()
SCRIPTS = sorted((ROOT / "examples" / "gallery").glob("*.py"))
PAGES = sorted(FOLDER.glob("*.md"))
NAMES = [page.stem for page in PAGES]
PROGRAM = re.compile(r"\(\.\./\.\./(examples/(?:gallery/)?\w+\.(?:py|c))\)")
PHOTOGRAPHS = ("photographs.png", "relevance.png")  # compress less well than plots


def sources(text):
    """Return the text of the programs that a page links to."""
    return [(ROOT / path).read_text() for path in PROGRAM.findall(text)]


def is_excerpt(code, source):
    """Return whether ``code`` consists of lines of the source, at any indentation."""
    lines = f"\n{source}"
    return any(
        f"\n{textwrap.indent(code.rstrip(), ' ' * spaces)}\n" in lines
        for spaces in (0, 4, 8)
    )


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_code_of_a_page_is_in_its_program(page):
    text = page.read_text()
    found = blocks("(?:python|c)", text)
    assert len(found) > 1
    for code in found:
        assert any(is_excerpt(code, source) for source in sources(text)), (
            f"{page.name} differs from its program; copy the code from there:\n{code}"
        )


def test_a_changed_line_is_found():
    source = "a = 1\n\n\ndef f():\n    b = 2\n    c = 3\n"
    assert is_excerpt("def f():\n    b = 2\n", source)
    assert is_excerpt("b = 2\nc = 3\n", source)
    assert not is_excerpt("b = 2\nc = 4\n", source)
    assert not is_excerpt("b = 2\nc =\n", source)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_shows_all_functions_except_draw_and_main(script):
    shown = "".join(blocks("python", (FOLDER / f"{script.stem}.md").read_text()))
    nodes = ast.parse(script.read_text()).body
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    missing = {name for name in functions if f"def {name}(" not in shown}
    assert {name for name in missing if not name.startswith("draw")} <= {"main"}
    assert len(script.read_text().splitlines()) < 200


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_page_has_its_output_and_says_how_to_run_it(page):
    text = page.read_text()
    assert blocks("text", text)
    assert "AMD EPYC" in text
    run = text.partition("\n## Run it\n")[2]
    assert "pip install" in "".join(blocks("sh", run))
    assert PROGRAM.search(run)
    for path in re.findall(r"^python (\S+\.py)", "".join(blocks("sh", run)), re.M):
        assert (ROOT / path).is_file()
    for module in re.findall(r"^python -m (\S+)", "".join(blocks("sh", run)), re.M):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_decimals_of_a_page_are_in_its_output(page):
    text = page.read_text()
    output = "".join(blocks("text", text))
    prose = re.sub(r"(?ms)^```.*?^```|`[^`]*`|\(https:[^)]*\)", "", text)
    assert [n for n in re.findall(r"\d+\.\d+", prose) if n not in output] == []


def test_every_program_has_a_card():
    cards = re.findall(r"\*\*\[(.+)\]\(gallery/(\w+)\.md\)\*\*", LIST)
    assert sorted(name for _, name in cards) == NAMES
    assert {script.stem for script in SCRIPTS} <= {*NAMES}
    for title, name in cards:
        assert (FOLDER / f"{name}.md").read_text().startswith(f"# {title}\n")


def test_pictures_are_small_and_shown():
    for picture in FOLDER.glob("*.png"):
        assert f"({picture.name})" in (FOLDER / f"{picture.stem}.md").read_text()
        assert f"(gallery/{picture.name})" in LIST
        data = picture.read_bytes()
        assert data.startswith(b"\x89PNG")
        limit = 400_000 if picture.name in PHOTOGRAPHS else 150_000
        assert 8_000 < len(data) < limit
    assert (ROOT / "docs" / "look_inside.png").stat().st_size < 400_000


# --- random weights, for the pages of GPT-2 and ViT ---------------------------------


def test_random_weights_have_the_published_shapes():
    gpt2 = random_weights.gpt2(LAYERS, WIDTH, CONTEXT)
    vit = random_weights.vit(LAYERS, WIDTH, IMAGE, PATCH)
    depend_on_classes = {"wte.weight", "classifier.weight", "classifier.bias"}
    for found, expected in ((gpt2, GPT2), (vit, VIT)):
        assert found.keys() == expected.keys()
        for name in found.keys() - depend_on_classes:
            assert found[name] == expected[name], name
