"""Packages that ``python -m plugrad_conformance new ...`` generates work unchanged.

In a fresh environment, the installed conformance kit generates the packages, which are
built, installed and tested. The backend must also pass the tests of the kit.
"""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from plugrad._src.registry.hooks import RESERVED
from plugrad_conformance.__main__ import main
from plugrad_conformance.new import KINDS, MAX_NAME_LETTERS, RESERVED_NAMES, write
from plugrad_conformance.primitives import DATA_DEPENDENT, HOST, PRIMITIVES

from release.archives import write_module_wheel
from tests.docs.blocks import blocks, promised
from tests.plugins.wheels import ROOT, Environment, clean_variables, downloaded, run

NEEDS = [
    f"{name}=={importlib.metadata.version(name)}" for name in ("pytest", "hypothesis")
]
PACKAGES = {  # the command that writes a package: its name and distribution
    "new": ("mybackend", "plugrad-mybackend"),
    "new-ops": ("mylib", "mylib"),
    "new-gradients": ("my_pack", "my-pack"),
    "new-rules": ("my_rules", "my-rules"),
}
FOLDERS = {
    "plugrad-mybackend": "mybackend",
    "mylib": "mylib",
    "my-pack": "my-pack",
    "my-rules": "my-rules",
}
BUILD_OUTPUTS = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__")
RUN_MODULE = [sys.executable, "-m"]


class Workshop:
    """A folder with the packages, and an environment in which they are installed."""

    def __init__(self, folder, wheelhouse):
        self.folder = folder / "packages"
        self.house = folder / "wheels"
        self.house.mkdir()
        for wheel in [*wheelhouse.glob("*.whl"), *downloaded(NEEDS).iterdir()]:
            if not (self.house / wheel.name).exists():
                (self.house / wheel.name).symlink_to(wheel.resolve())
        for source in ("tests/conformance", "plugins/attribution"):
            copy = folder / Path(source).name
            shutil.copytree(ROOT / source, copy, ignore=BUILD_OUTPUTS)
            self.build(copy)
        self.environment = Environment(folder / "environment", self.house)
        self.environment.install("plugrad-cpu", "plugrad-conformance")
        for command, (name, distribution) in PACKAGES.items():
            arguments = ("-m", "plugrad_conformance", command, name)
            done = self.environment.run(*arguments, "--into", str(self.folder))
            assert done.returncode == 0, done.stderr
            self.build(self.folder / FOLDERS[distribution])
        self.environment.install(*(package for _, package in PACKAGES.values()))

    def build(self, source):
        command = (*RUN_MODULE, "build", "--wheel", "--no-isolation")
        run(*command, "--outdir", str(self.house), str(source))

    def __call__(self, distribution, *command, **variables):
        """Run a command in the folder of a package; return what it prints."""
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=clean_variables() | variables,
            cwd=self.folder / FOLDERS[distribution],
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def pytest(self, distribution, *arguments, **variables):
        command = (self.environment.python, "-m", "pytest", "-p", "no:cacheprovider")
        return self(distribution, *command, *arguments, **variables)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory, wheelhouse):
    return Workshop(tmp_path_factory.mktemp("workshop"), wheelhouse)


# --- as written ------------------------------------------------------------------


@pytest.mark.parametrize("distribution", [d for _, d in PACKAGES.values()])
def test_a_package_passes_its_own_tests(distribution, workshop, request):
    if distribution == "plugrad-mybackend" and not request.config.getoption("all"):
        pytest.skip("the whole kit takes a minute: runs with --all")
    assert re.search(r"\d+ passed", workshop.pytest(distribution))


NO_DEVICE = """
from plugrad.plugin import Backend, hookimpl

def open_it():
    raise OSError("no device")

@hookimpl
def plugrad_backends():
    return [Backend("deviceless", open=open_it)]
"""


@pytest.fixture
def with_other_backends(workshop):
    """Install, next to cpu, a backend of twelve kernels and one that cannot open."""
    entry = "[plugrad.v1]\ndeviceless = plugrad_deviceless\n"
    write_module_wheel(workshop.house, "plugrad-deviceless", NO_DEVICE, entry)
    with workshop.environment.installed("plugrad-mine", "plugrad-deviceless"):
        yield workshop


# Outcomes on a backend that has few kernels, including all that mylib needs.
OUTCOMES = {
    "mylib": [{"PASSED"}],
    "my-pack": [{"PASSED", "SKIPPED"}, {"SKIPPED"}],
    "my-rules": [{"SKIPPED"}],
}
SMALL_DEFAULT = {"PLUGRAD_BACKEND": "mine", "PLUGRAD_FALLBACK": "warn"}


@pytest.mark.parametrize("distribution", OUTCOMES)
def test_a_package_passes_with_backends_that_lack_kernels(
    distribution, with_other_backends
):
    defaults = [{}, SMALL_DEFAULT]
    if distribution == "my-rules":  # rules trace their patterns on the default backend
        defaults.remove(SMALL_DEFAULT)
    for chosen in defaults:
        printed = with_other_backends.pytest(distribution, "-v", **chosen)
        cpu, mine, deviceless = (
            {*re.findall(rf"\[{name}.*\] (\w+)", printed)}
            for name in ("cpu", "mine", "deviceless")
        )
        assert cpu == {"PASSED"}
        assert mine in OUTCOMES[distribution]
        assert deviceless == {"SKIPPED"}


@pytest.mark.parametrize("distribution", [d for _, d in PACKAGES.values()])
def test_a_package_passes_ruff_and_mypy(distribution, workshop):
    workshop(distribution, *RUN_MODULE, "ruff", "check", "--no-cache")
    workshop(distribution, *RUN_MODULE, "ruff", "format", "--check", "--no-cache")
    cache = f"--cache-dir={workshop.folder.parent / 'mypy'}"
    python = f"--python-executable={workshop.environment.python}"
    workshop(distribution, *RUN_MODULE, "mypy", cache, python)


def test_the_backend_conforms_at_the_first_level(workshop):
    report = workshop.folder.parent / "score.json"
    arguments = ("--pyargs", "plugrad_conformance", f"--plugrad-report={report}")
    printed = workshop.pytest("plugrad-mybackend", *arguments)
    assert re.search(r"^primitives +\d{3,} +0 +0 +\d+$", printed, re.MULTILINE), printed


def test_the_backend_has_the_primitives_and_leaves_the_rest_to_the_host(workshop):
    report, _ = workshop.environment.report("kernels")
    states = {row["kernel"]: row["mybackend"] for row in report["kernels"]}
    core = {kernel: state for kernel, state in states.items() if "." not in kernel}
    by_state = {
        state: {k for k in core if core[k] == state} for state in {*core.values()}
    }
    assert by_state["implemented"] == {*PRIMITIVES}
    assert by_state["host"] == {*DATA_DEPENDENT, *HOST}
    assert {*by_state} == {"implemented", "decomposed", "host"}


def test_doctor_finds_no_fault_in_the_packages(workshop):
    done = workshop.environment.run("-m", "plugrad", "doctor")
    assert done.returncode == 0, done.stdout
    for _, distribution in PACKAGES.values():  # rules extend attribution, not the core
        assert (distribution in done.stdout) == (distribution != "my-rules")


@pytest.mark.parametrize("distribution", [d for _, d in PACKAGES.values()])
def test_the_readme_shows_the_right_output(distribution, workshop):
    text = (workshop.folder / FOLDERS[distribution] / "README.md").read_text()
    (program,) = blocks("python", text)
    assert workshop.environment.prints(program).splitlines() == promised(program)


# --- docs/publish.md -------------------------------------------------------------

PAGE = (ROOT / "docs" / "publish.md").read_text()
PROGRAMS = [code for code in blocks("python", PAGE) if promised(code)]
EXCERPTS = [code for code in blocks("(?:python|toml)", PAGE) if not promised(code)]


def test_the_page_has_programs_and_excerpts():
    assert len(PROGRAMS) >= 2
    assert len(EXCERPTS) >= 4


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page_prints_what_the_page_shows(number, workshop):
    program = PROGRAMS[number]
    assert workshop.environment.prints(program).splitlines() == promised(program)


@pytest.mark.parametrize("number", range(len(EXCERPTS)))
def test_an_excerpt_of_the_page_is_in_the_package(number, workshop):
    folder = workshop.folder / "mybackend"
    files = [*folder.rglob("*.py"), *folder.glob("*.toml")]
    assert [path for path in files if EXCERPTS[number] in path.read_text()]


# --- names -----------------------------------------------------------------------


@pytest.mark.parametrize("command", KINDS)
def test_the_folder_has_the_name_that_was_given(command, tmp_path, capsys):
    folder = tmp_path / "my-own"
    assert write(command, "my_own", tmp_path) == folder
    assert (folder / "pyproject.toml").is_file()
    arguments = ["new-gradients", "my_other", "--into", str(tmp_path)]
    assert main(arguments) == 0
    assert f"cd {tmp_path / 'my-other'}\n" in capsys.readouterr().out


BAD = {
    "MyBackend": "try 'mybackend'",
    "my-backend": "try 'my_backend'",
    "2fast": "try 'fast'",
    "class": "is not a name for a backend",
    "x" * (MAX_NAME_LETTERS + 1): f"at most {MAX_NAME_LETTERS}",
    "": "is not a name for a backend",
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused(name, tmp_path, capsys):
    assert main(["new", name, "--into", str(tmp_path)]) == 2
    assert BAD[name] in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("command", "name", "owner"),
    [
        *(("new", name, "plugrad's own") for name in (*RESERVED_NAMES, *RESERVED)),
        ("new-ops", "json", "a standard-library module"),
        ("new-ops", "numpy", "that of numpy, which is installed"),
        ("new-gradients", "pytest", "that of pytest, which is installed"),
    ],
)
def test_a_name_that_is_taken_is_refused(command, name, owner, tmp_path, capsys):
    assert main([command, name, "--into", str(tmp_path)]) == 2
    assert f"the name {name!r} is {owner}; take another" in capsys.readouterr().err


def test_names_of_installed_packages_are_refused(workshop):
    for command, (name, distribution) in PACKAGES.items():
        arguments = ("-m", "plugrad_conformance", command, name, "--into", "elsewhere")
        done = workshop.environment.run(*arguments)
        assert done.returncode == 2
        assert f"that of {distribution}, which is installed" in done.stderr


def test_nothing_is_overwritten(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    assert main(["new", "other", "--into", str(tmp_path)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert not [*(tmp_path / "other").iterdir()]


@pytest.mark.parametrize("command", KINDS)
def test_the_workflow_tests_the_oldest_and_the_newest_plugrad(command, tmp_path):
    assert main([command, "something", "--into", str(tmp_path)]) == 0
    (folder,) = tmp_path.iterdir()
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    needs = " ".join(
        [*project["dependencies"], *project["optional-dependencies"]["test"]]
    )
    lowest = re.findall(r"(plugrad[\w-]*)>=([\d.]+)", needs)
    oldest = (folder / "oldest.txt").read_text()
    assert {*lowest} <= {*re.findall(r"^(plugrad[\w-]*)==([\d.]+)\.\*$", oldest, re.M)}
    workflow = (folder / ".github/workflows/test.yml").read_text()
    assert 'plugrad: oldest, python: "3.11", options: "--constraint oldest' in workflow
    assert 'plugrad: newest, python: "3.14", options: ""' in workflow
    assert 'install --editable ".[test]" ${{ matrix.options }}' in workflow


@pytest.mark.parametrize("command", KINDS)
@pytest.mark.parametrize("name", ["q", "q" * MAX_NAME_LETTERS])
def test_a_name_of_any_length_gives_clean_files(command, name, tmp_path):
    author = 'Ada "Countess" Lovelace'
    assert main([command, name, "--into", str(tmp_path), "--author", author]) == 0
    (folder,) = tmp_path.iterdir()
    for check in (["check"], ["format", "--check"]):
        run(*RUN_MODULE, "ruff", *check, "--no-cache", str(folder))
    for path in folder.rglob("*"):
        if path.suffix == ".py":
            ast.parse(path.read_text())
        if path.is_file():
            assert not re.search(r"\$\w", path.read_text()), path
