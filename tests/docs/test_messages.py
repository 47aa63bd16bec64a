"""docs/messages.md: the messages of all exceptions in the source."""

import ast
import re
from html import unescape

from docs.site import dialect, messages
from tests.docs.blocks import ROOT

RAISING = """
def misfit(op, rule, *given):
    return ValueError(f"{op}: {rule}; got {given}")

def too_many(op, count):
    return misfit(op, f"at most {count}")

def f(x, axis):
    hint = "cast one"
    if x.ndim:
        raise TypeError(f"f: {x.dtype} does not fit; {hint}")
    else:
        raise misfit("f", rule="axis " + "twice")
    try:
        g()
    except KeyError as error:
        raise error
    if not axis:
        error = ValueError(f"f: no {'; '.join(map(str, axis)) or '-'}; {', '.join(a)}")
        raise replacing(old, explained(error, "no-axis")) from None
    raise too_many("f", 3)

def out_of_range(op, n):
    error = IndexError(f"{op}: {n + 1} is out of range")
    if n:
        return explained(error, "out-of-range")
    return IndexError("f: rank 0")

def g():
    raise out_of_range("f", 3)
"""


def test_a_raise_has_its_message_and_link():
    found = [row[2:] for row in messages.extract_rows({"f.py": RAISING})]
    assert found == [
        ("TypeError", "f: {x.dtype} does not fit; cast one", ""),
        ("ValueError", "f: axis twice; got {given}", ""),
        ("ValueError", "f: no {axis}; {a}", "no-axis"),
        ("ValueError", "f: at most 3; got {given}", ""),
        ("IndexError", "f: {n + 1} is out of range", "out-of-range"),
        ("IndexError", "f: rank 0", ""),
    ]


def test_every_raise_is_in_the_table():
    found = messages.rows()
    places = {(row.path, row.line) for row in found}
    for path in {row.path for row in found}:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                assert (path, node.lineno) in places, f"{path}:{node.lineno}"
    linker = "plugrad_opencl/_linker.py"  # the plugin catches the linker's errors
    silent = [row for row in found if not row.message and linker not in row.path]
    assert len(silent) < 10, silent  # a method or another library makes these messages


def test_the_table_is_readable():
    lines = [line for line in messages.page().splitlines() if line[:2] == "| "]
    rows = [line for line in lines if "<code>" in line]
    assert len(rows) > 500
    assert {line.count("|") for line in lines} == {3}
    shown = [unescape(re.search("<code>(.*)</code>", row)[1]) for row in rows]
    limit = messages.MAX_MESSAGE_CHARACTERS
    assert max(map(len, shown)) <= limit + len(" …")
    assert not [text for text in shown if "; " in text]
    headings = re.findall("^## (.+)$", messages.page(), re.M)
    assert len(headings) == len({*headings})
    assert headings[0].startswith("plugrad: ")
    assert {h.partition(": ")[0] for h in headings} >= {"plugrad", "plugrad-onnx"}


def test_a_message_links_to_its_section():
    linked = {*re.findall(r"\(errors\.md#([\w-]+)\)", messages.page())}
    text = (ROOT / "docs" / "errors.md").read_text()
    titles = re.findall("^### (.+)$", text, re.M)
    assert linked <= {dialect.slug(title, "-") for title in titles}
    assert len(linked) > 20
