"""The code blocks of README.md, which are run by the tests."""

import re
import tomllib
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def blocks(language, text=None):
    """Return the code blocks of a language, in the file or in a part of it."""
    text = README.read_text() if text is None else text
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def programs():
    """Return the Python blocks that are programs, by the headings they are under."""
    sections = re.split(r"^## ", README.read_text(), flags=re.M)
    return {
        section.partition("\n")[0]: code
        for section in sections
        for code in blocks("python", section)
        if "@hookimpl" not in code
    }


def promised(code):
    """Return what a program says that it prints: ``print(...)  # this``."""
    return [
        line.partition("  # ")[2]
        for line in code.splitlines()
        if line.lstrip().startswith("print(")
    ]


def published_backend(folder):
    """Write the source tree of the README's backend; return its project table."""
    (module,) = (code for code in blocks("python") if "@hookimpl" in code)
    (project,) = (code for code in blocks("toml") if "plugrad.v1" in code)
    table = tomllib.loads(project)["project"]
    (entry_point,) = table["entry-points"]["plugrad.v1"].values()
    (folder / f"{entry_point}.py").write_text(module)
    (folder / "pyproject.toml").write_text(project)
    return table
