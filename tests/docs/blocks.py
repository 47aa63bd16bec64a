"""Find the code blocks of pages, which tests run."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def texts():
    """Return the text of every page in the repository by path."""
    found = [*ROOT.glob("*.md")]
    for folder in ("core", "docs", "examples", "plugins", "tests"):
        found += [*(ROOT / folder).glob("*.md"), *(ROOT / folder).glob("*/*.md")]
    return {str(path.relative_to(ROOT)): path.read_text() for path in found}


def blocks(language, text):
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def promised(code):
    """Return the output that a program promises: ``print(...)  # this``."""
    return [
        line.partition("  # ")[2]
        for line in code.splitlines()
        if line.lstrip().startswith("print(")
    ]


def published_backend(folder):
    """Write the source tree of the smallest backend; return its project table."""
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    (module,) = (code for code in blocks("python", text) if "@hookimpl" in code)
    (project,) = (code for code in blocks("toml", text) if "plugrad.v1" in code)
    table = tomllib.loads(project)["project"]
    (entry_point,) = table["entry-points"]["plugrad.v1"].values()
    (folder / f"{entry_point}.py").write_text(module)
    (folder / "pyproject.toml").write_text(project)
    return table
