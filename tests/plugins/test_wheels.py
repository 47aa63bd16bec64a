"""The life cycle with real wheels in a fresh virtual environment."""

import zipfile
from pathlib import Path

import pytest
from plugrad._src.registry import install

from release.archives import write_module_wheel
from tests.plugins.metadata import metadata_problems, read_wheel
from tests.plugins.wheels import PROGRAM

BROKEN = {  # the name of a plugin: its module, the error, and its message
    "importing": ("import nothing_of_that_name", "ModuleNotFoundError", "nothing_of"),
    "hooking": (
        """
from plugrad.plugin import hookimpl
@hookimpl
def plugrad_backends():
    raise OSError("no device")
""",
        "OSError",
        "no device",
    ),
    "babbling": (
        """
from plugrad.plugin import hookimpl
@hookimpl
def plugrad_backends():
    return ["nonsense"]
""",
        "TypeError",
        "a hook must return a list of Backend, but the list contains 'nonsense'",
    ),
    "misnaming": (
        """
from plugrad.plugin import Backend, Runtime, hookimpl
class Arrays:
    upload = download = nbytes = staticmethod(lambda native: native)
def open():
    return Runtime(arrays=Arrays(), kernels={"Conv2d": print})
@hookimpl
def plugrad_backends():
    return [Backend("misnaming", open=open)]
""",
        "ValueError",
        "unknown kernel 'Conv2d'; did you mean 'Conv2D'?",
    ),
    "needing": (
        """
from plugrad.plugin import Backend, hookimpl
print("a plugin that talks")
def open():
    import ctypes
    ctypes.CDLL("libdevice_of_dreams.so")
@hookimpl
def plugrad_backends():
    return [Backend("needing", open=open, priority=9)]
""",
        "OSError",
        "libdevice_of_dreams.so",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def broken(wheelhouse):
    """Add the wheels of this file to the wheelhouse."""
    for name, (source, _, _) in BROKEN.items():
        entry_points = f"[plugrad.v1]\n{name} = plugrad_{name}\n"
        write_module_wheel(wheelhouse, f"plugrad-{name}", source, entry_points)
    entry_points = "[console_scripts]\nzzz = unrelated:main\n"
    write_module_wheel(wheelhouse, "unrelated", "", entry_points)


def test_a_wheel_is_complete(wheelhouse):
    for package in ("plugrad", "plugrad_cpu"):
        (wheel,) = wheelhouse.glob(f"{package}-*.whl")
        assert metadata_problems(read_wheel(wheel)) == []
        names = zipfile.ZipFile(wheel).namelist()
        assert f"{package}/py.typed" in names
        assert package != "plugrad" or "plugrad/_src/tensor/methods.pyi" in names
        assert [name for name in names if name.endswith("licenses/LICENSE")]
        assert not [name for name in names if "test" in name]


def test_the_core_alone_says_what_to_install(environment):
    assert environment.prints("import plugrad as pg; print(pg.backends())") == "[]"
    done = environment.run("-c", PROGRAM)
    assert done.returncode == 1
    last, link = done.stderr.strip().splitlines()[-2:]
    todo = install.advice("plugrad-cpu")
    error = "plugrad.BackendUnavailable: no backend is installed"
    assert last == f"{error}; try {todo}"
    assert link.endswith("docs/errors.md#no-backend-is-installed")
    for command in ("plugins", "backends"):
        shown = environment.run("-m", "plugrad", command)
        assert shown.returncode == 0
        assert f"is installed; try {todo}" in shown.stdout
    version = environment.prints("import plugrad; print(plugrad.__version__)")
    assert (
        environment.run("-m", "plugrad", "--version").stdout == f"plugrad {version}\n"
    )
    doctor = environment.run("-m", "plugrad", "doctor")
    assert doctor.stdout.startswith(f"plugrad {version}, Python 3.")
    assert doctor.stdout.endswith(f"no plugin is installed; try {todo}\n")
    assert doctor.returncode == 0
    misspelt = environment.run(
        "-c", "import plugrad as pg; pg.backends()", PLUGRAD_BLOK=""
    )
    assert "did you mean 'PLUGRAD_BLOCK'?" in misspelt.stderr
    assert environment.report("kernels")[1] == 0
    asked = environment.run("-m", "plugrad", "why", "Add")
    assert asked.returncode == 1
    assert "no backend is installed" in asked.stderr


def test_an_error_says_how_to_install_a_backend(environment):
    def hint(name):
        done = environment.run("-c", f"import plugrad as pg; pg.set_backend({name!r})")
        error, link = done.stderr.strip().splitlines()[-2:]
        assert link.endswith("docs/errors.md#unknown-backend")
        return error.partition("; installed: ")[2]

    wasm = install.advice("plugrad-wasm")
    assert hint("wasm") == f"none; try {wasm}"
    assert hint("toy") == f"none; try {install.advice('plugrad-cpu')}"
    with environment.installed("plugrad-cpu"):
        assert hint("wasm") == f"cpu; try {wasm}"
        assert hint("toy") == "cpu"


def test_a_backend_is_installed_and_removed(environment):
    for _ in range(2):  # twice, because nothing may be left over
        with environment.installed("plugrad-cpu"):
            assert environment.prints(PROGRAM) == "[0.5, 0.5] cpu"
            (plugin,), status = environment.report("plugins")
            assert (plugin["distribution"], plugin["phase"]) == (
                "plugrad-cpu",
                "opened",
            )
            assert status == 0
        assert environment.run("-c", PROGRAM).returncode == 1


def test_a_third_party_backend_of_twelve_kernels(environment):
    with environment.installed("plugrad-mine"):
        assert environment.prints(PROGRAM) == "[0.5, 0.5] mine"
        table = environment.report("kernels")[0]["kernels"]
        found = {row["kernel"]: row["mine"] for row in table}
        assert list(found.values()).count("implemented") == 12
        assert found["Softmax"] == "decomposed"
        way = environment.report("why", "Softmax")[0]["ways"][0]
        assert way["way"] == "decomposition"
        assert "/plugrad/_src/ops/" in way["where"]
        way = environment.report("why", "Sum", "--backend", "mine")[0]["ways"][0]
        assert (way["distribution"], way["version"]) == ("plugrad-mine", "0.1.0")
        path, line = way["where"].rsplit(":", 1)
        assert "def total" in Path(path).read_text().splitlines()[int(line) - 1]


def test_broken_plugins_do_not_affect_others(environment):
    names = [f"plugrad-{name}" for name in BROKEN]
    with environment.installed("plugrad-cpu", "plugrad-mine", *names):
        for backend in ("cpu", "mine"):
            code = f"import plugrad; plugrad.set_backend({backend!r})\n{PROGRAM}"
            assert environment.prints(code).endswith(f"[0.5, 0.5] {backend}")

        table, status = environment.report("plugins")
        report = {row["name"]: row for row in table}
        assert status == 1
        assert report["cpu"]["phase"] == report["mine"]["phase"] == "opened"
        for name, (_, error, message) in BROKEN.items():
            assert report[name]["phase"] == "failed"
            assert report[name]["reason"].startswith(f"{error}: ")
            assert message in report[name]["reason"]
            assert message in report[name]["traceback"]

        asked = """
import sys, plugrad
for name in sys.argv[1:]:
    try:
        plugrad.set_backend(name)
    except plugrad.BackendUnavailable as error:
        print(name, type(error.__cause__).__name__, error, sep="|")
"""
        done = environment.run("-c", asked, *BROKEN)
        lines = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
        assert [line[0] for line in lines] == list(BROKEN)
        for (name, cause, message), (_, error, expected) in zip(
            lines, BROKEN.values(), strict=True
        ):
            assert cause == error
            assert f"plugrad-{name} 1.0" in message
            assert expected in message


def test_the_automatic_choice_names_what_it_skips(environment):
    broken = ("plugrad-importing", "plugrad-needing")
    with environment.installed("plugrad-cpu", *broken):
        counting = f"""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {"; ".join(PROGRAM.strip().splitlines())}
    pg.exp(1.0)
print(*[w.message for w in caught], sep="\\n")
"""
        lines = environment.prints(counting).splitlines()
        assert lines[1] == "[0.5, 0.5] cpu"  # plugrad-needing prints the first line
        assert [line.partition(": ")[0] for line in lines[2:]] == [
            f"skipped plugin {name} 1.0" for name in broken
        ]
        assert environment.prints(PROGRAM, PLUGRAD_PLUGINS="cpu") == "[0.5, 0.5] cpu"
        block = "importing, needing"
        assert environment.prints(PROGRAM, PLUGRAD_BLOCK=block) == "[0.5, 0.5] cpu"
    with environment.installed("plugrad-importing"):
        done = environment.run("-W", "ignore", "-c", PROGRAM)
        assert "no backend works; see `python -m plugrad plugins`" in done.stderr


def test_malformed_metadata_of_others_does_no_harm(environment):
    with environment.installed("plugrad-cpu", "unrelated"):
        (path,) = environment.site.glob("unrelated-*/entry_points.txt")
        well_formed = path.read_text()
        # pip would refuse to install this file.
        path.write_text("[console_scripts]\nzzz : x:main\n[[[\n")
        try:
            read = "import importlib.metadata as m; m.entry_points(group='plugrad.v1')"
            assert environment.run("-c", read).returncode == 1
            assert environment.prints(PROGRAM) == "[0.5, 0.5] cpu"
            assert environment.report("plugins")[1] == 0
        finally:
            path.write_text(well_formed)
