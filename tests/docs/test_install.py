"""The install commands in messages and on pages work today.

Until plugrad is released, no package index offers its distributions: messages and pages
get the command from ``plugrad._src.registry.install``, or name folders in a checkout.
"""

import re
import subprocess
import sys
import tomllib

import pytest
from plugrad._src.registry import install
from plugrad._src.tensor.explained import ERRORS_PAGE

from tests.docs.blocks import ROOT

# Readers' distributions: one that docs/publish.md releases, one in docs/errors.md.
EXAMPLES = ("plugrad-mybackend", "plugrad-far")
SHOWN = ("*.py", "*.md", "*.tmpl", "*.yml", "*.toml", "*.ipynb", "Makefile")


def texts():
    """Return the texts that users and plugin authors see, by path."""
    command = ["git", "ls-files", *SHOWN]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    kit = "tests/conformance/"
    paths = [p for p in done.stdout.split() if not p.startswith("tests/") or kit in p]
    return {path: (ROOT / path).read_text("utf-8") for path in paths}


def arguments(text):
    """Yield the arguments of each ``pip install`` in a text: prose, shell or Python."""
    text = re.sub(r'"\n\s*f?"| \\\n', "", text)  # parts of a string, of a command
    for inline, line in re.findall(
        r"`pip install\s([^`]*)`|pip install ([^\n]*)", text
    ):
        yield re.split(r" #|`|\)", inline or line)[0].replace('"', "").split()


def unavailable(words):
    """Return the plugrad distributions and folders that pip would not find."""
    if "--find-links" in words:
        return []
    found = []
    for word in words:
        name = re.split(r"[\[<=>~!]", word.lstrip("'").rstrip("',.;"))[0]
        if word.startswith("./") and not (ROOT / name).is_dir():
            found.append(word)
        if re.match(r"plugrad\b", name) and name not in EXAMPLES:
            found += [word] * (not install.RELEASED or name not in install.FOLDERS)
        if word.startswith("git+"):
            folder = word.partition("#subdirectory=")[2]
            found += [word] * (folder not in install.FOLDERS.values())
    return found


def test_pages_and_messages_name_only_available_distributions():
    found = {
        path: [*map(unavailable, arguments(text))] for path, text in texts().items()
    }
    assert not {path: words for path, words in found.items() if any(words)}
    assert sum(map(len, found.values())) > 40  # commands were found


WRONG = {
    "pip install plugrad-cpu": ["plugrad-cpu"],
    'raise ImportError("try `pip install plugrad[io]`")': ["plugrad[io]"],
    'f"try `pip install "\n    f"plugrad-{name}`"': ["plugrad-{name}"],
    "run `pip install --upgrade\nplugrad`": ["plugrad"],
    "pip install ./gone ./core  # plugrad": ["./gone"],
    'pip install "git+https://host/plugrad#subdirectory=gone"': [
        "git+https://host/plugrad#subdirectory=gone"
    ],
    "pip install ./core numpy\npython -m plugrad": [],
    'pip install --find-links dist "plugrad[cpu]"': [],
}


@pytest.mark.parametrize("text", WRONG)
def test_unavailable_distributions_are_found(text, monkeypatch):
    monkeypatch.setattr(install, "RELEASED", False)
    (words,) = arguments(text)
    assert unavailable(words) == WRONG[text]


def test_after_the_release_distributions_are_available(monkeypatch):
    monkeypatch.setattr(install, "RELEASED", True)
    assert unavailable(["plugrad-cpu", "plugrad[io]"]) == []
    assert unavailable(["plugrad-gone"]) == ["plugrad-gone"]


# --- the command -----------------------------------------------------------------

COMMANDS = {  # requirements: before the release, and after it
    ("plugrad-cpu",): ("./core ./plugins/cpu", "plugrad-cpu"),
    ("plugrad-wasm",): ("./core ./plugins/cpu ./plugins/wasm", "plugrad-wasm"),
    ("plugrad-cpu==0.1.0", "far>=2"): (
        "./core ./plugins/cpu 'far>=2'",
        "'plugrad-cpu==0.1.0' 'far>=2'",
    ),
    ("far",): ("far", "far"),
}


@pytest.mark.parametrize("released", [False, True])
@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_the_command_before_and_after_the_release(names, released, monkeypatch):
    monkeypatch.setattr(install, "RELEASED", released)
    assert install.command(*names) == f"pip install {COMMANDS[names][released]}"


def test_advice_says_where_to_run_a_command(monkeypatch):
    monkeypatch.setattr(install, "RELEASED", False)
    here = "`pip install ./core ./plugins/cpu` in a checkout of plugrad"
    assert install.advice("plugrad-cpu") == here
    newer = "`pip install ./core` in an updated checkout of plugrad"
    assert install.advice("plugrad", upgrade=True) == newer
    assert install.advice("far", upgrade=True) == "`pip install --upgrade far`"
    monkeypatch.setattr(install, "RELEASED", True)
    assert install.advice("plugrad", upgrade=True) == "`pip install --upgrade plugrad`"


def test_the_table_has_every_distribution_and_what_it_needs():
    workspace = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    found = {}
    need_cpu = set()
    for pattern in workspace["workspace"]["members"]:
        for path in ROOT.glob(f"{pattern}/pyproject.toml"):
            project = tomllib.loads(path.read_text())["project"]
            found[project["name"]] = str(path.parent.relative_to(ROOT))
            needs = [re.split(r"[^\w-]", need)[0] for need in project["dependencies"]]
            ours = {need for need in needs if need.startswith("plugrad")}
            assert ours <= {"plugrad", "plugrad-cpu"}
            need_cpu |= {project["name"]} if "plugrad-cpu" in ours else set()
    assert found == install.FOLDERS
    assert need_cpu == {*install.NEED_CPU}


WORKFLOWS = {path.name: path.read_text() for path in ROOT.glob(".github/workflows/*")}


def test_the_workflow_uploads_every_distribution():
    publish = WORKFLOWS["release.yml"].split("  publish:\n")[1]
    names = re.findall(r"^          - ((?:keras-)?plugrad[\w-]*)$", publish, re.M)
    assert sorted(names) == sorted(install.FOLDERS)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_are_pinned_by_commit(name):
    """A tag can be moved to other code; dependabot updates commits and versions."""
    used = re.findall(r"uses: (.*)", WORKFLOWS[name])
    assert used
    pinned = re.compile(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+")
    assert not [action for action in used if not pinned.fullmatch(action)]


def test_the_error_without_a_backend_shows_the_command(tmp_path):
    program = "import plugrad as pg; pg.asarray(1.0)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "core" / "src"), "PLUGRAD_PLUGINS": "none"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    message = f"no backend is installed; try {install.advice('plugrad-cpu')}\n"
    link = f"See {ERRORS_PAGE}#no-backend-is-installed\n"
    assert done.stderr.endswith(message + link)
