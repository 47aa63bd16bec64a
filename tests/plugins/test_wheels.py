"""The life cycle with real wheels in a fresh virtual environment.

The environment holds the core alone; a test installs wheels and removes them again.
What numpy and the core's other needs come from is downloaded once, into .cache/.
"""

import base64
import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.docs.blocks import published_backend

ROOT = Path(__file__).parents[2]
NEEDS = [
    f"{name}=={importlib.metadata.version(name)}"
    for name in ("numpy", "pluggy", "importlib-metadata")
]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

PROGRAM = """
import plugrad as pg
x = pg.asarray([1.0, 1.0])
print(pg.grad(lambda x: pg.sum(pg.softmax(x) * x))(x).tolist(), x.backend)
"""
BROKEN = {  # what is wrong: the light module, the error, what it says
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
        "a hook must return a list of Backend, got 'nonsense' in it",
    ),
    "misnaming": (
        """
from plugrad.plugin import Backend, Runtime, hookimpl
def open():
    return Runtime(arrays=None, kernels={"Conv2d": print})
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


def run(*command, **options):
    """Run a command that must succeed; its errors are shown."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def written_wheel(folder, name, source, entry_points):
    """Write a wheel of one module, as a build would; return its path."""
    module = name.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    files = {
        f"{module}.py": source,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    record = ""
    for path, text in files.items():
        digest = hashlib.sha256(text.encode()).digest()
        code = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        record += f"{path},sha256={code},{len(text.encode())}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    wheel = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def downloaded():
    """Return a folder with the wheels of NEEDS and of what these need."""
    kept = ROOT / ".cache" / "wheels" / "-".join([sys.implementation.cache_tag, *NEEDS])
    if not kept.exists():
        partial = kept.with_name(f"{kept.name}.{os.getpid()}")
        run(*PIP, "download", "--only-binary", ":all:", "--dest", str(partial), *NEEDS)
        with contextlib.suppress(OSError):  # another process was first
            partial.rename(kept)
    return kept


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory):
    """Return a folder with every wheel that a test installs."""
    house = tmp_path_factory.mktemp("wheelhouse")
    for wheel in downloaded().iterdir():
        (house / wheel.name).symlink_to(wheel)
    sources = tmp_path_factory.mktemp("sources")
    litter = shutil.ignore_patterns("build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "core", sources / "core", ignore=litter)
    shutil.copytree(ROOT / "plugins" / "cpu", sources / "cpu", ignore=litter)
    (sources / "mine").mkdir()
    published_backend(sources / "mine")
    for name in ("core", "cpu", "mine"):
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation")
        run(*build, "--outdir", str(house), str(sources / name))
    for name, (source, _, _) in BROKEN.items():
        module = f"plugrad_{name}"
        entry_points = f"[plugrad.v1]\n{name} = {module}\n"
        written_wheel(house, f"plugrad-{name}", source, entry_points)
    written_wheel(house, "unrelated", "", "[console_scripts]\nzzz = unrelated:main\n")
    return house


class Environment:
    """A virtual environment without pip, into which the outer pip installs."""

    def __init__(self, folder, wheelhouse):
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / "bin" / "python")
        self.wheelhouse = wheelhouse
        self.site = next(folder.glob("lib/python*/site-packages"))

    def pip(self, *arguments):
        run(*PIP, "--python", self.python, *arguments)

    def install(self, *names):
        found = ("--no-index", "--find-links", str(self.wheelhouse))
        self.pip("install", "--no-compile", *found, *names)

    @contextlib.contextmanager
    def having(self, *names):
        """Install distributions for the block."""
        self.install(*names)
        try:
            yield
        finally:
            self.pip("uninstall", "--yes", *names)

    def run(self, *arguments, **environment):
        """Run Python here, with warnings as errors."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PLUGRAD_")}
        command = [self.python, "-I", "-W", "error", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, env=clean | environment
        )

    def prints(self, code, **environment):
        """Return what a program prints that must succeed."""
        done = self.run("-c", code, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def told(self, *command):
        """Return what ``python -m plugrad ... --json`` says, and its status."""
        done = self.run("-m", "plugrad", *command, "--json")
        return json.loads(done.stdout), done.returncode


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheelhouse):
    made = Environment(tmp_path_factory.mktemp("environment"), wheelhouse)
    made.install("plugrad")
    return made


def test_a_wheel_is_complete(wheelhouse):
    for package in ("plugrad", "plugrad_cpu"):
        (wheel,) = wheelhouse.glob(f"{package}-*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        assert f"{package}/py.typed" in names
        assert [name for name in names if name.endswith("licenses/LICENSE")]
        assert not [name for name in names if "test" in name]


def test_the_core_alone_says_what_to_install(environment):
    assert environment.prints("import plugrad as pg; print(pg.backends())") == "[]"
    done = environment.run("-c", PROGRAM)
    assert done.returncode == 1
    last = done.stderr.strip().split("\n")[-1]
    assert last == (
        "plugrad._entries.BackendUnavailable: no backend is installed; "
        "try `pip install plugrad-cpu`"
    )
    for command in ("plugins", "backends"):
        shown = environment.run("-m", "plugrad", command)
        assert shown.returncode == 0
        assert "try `pip install plugrad-cpu`" in shown.stdout
    assert environment.told("kernels")[1] == 0
    asked = environment.run("-m", "plugrad", "why", "Add")
    assert asked.returncode == 1
    assert "no backend is installed" in asked.stderr


def test_a_backend_is_installed_and_removed(environment):
    for _ in range(2):  # and again, with nothing left over
        with environment.having("plugrad-cpu"):
            assert environment.prints(PROGRAM) == "[0.5, 0.5] cpu"
            (plugin,), status = environment.told("plugins")
            assert (plugin["distribution"], plugin["phase"]) == (
                "plugrad-cpu",
                "opened",
            )
            assert status == 0
        assert environment.run("-c", PROGRAM).returncode == 1


def test_a_third_party_publishes_ten_kernels(environment):
    with environment.having("plugrad-mine"):
        assert environment.prints(PROGRAM) == "[0.5, 0.5] mine"
        table = environment.told("kernels")[0]["kernels"]
        found = {row["kernel"]: row["mine"] for row in table}
        assert list(found.values()).count("implemented") == 10
        assert found["Softmax"] == "decomposed"
        way = environment.told("why", "Softmax")[0]["ways"][0]
        assert way["way"] == "decomposition"
        assert "/plugrad/ops/" in way["where"]
        way = environment.told("why", "Sum", "--backend", "mine")[0]["ways"][0]
        assert (way["distribution"], way["version"]) == ("plugrad-mine", "0.1.0")
        path, line = way["where"].rsplit(":", 1)
        assert "def total" in Path(path).read_text().splitlines()[int(line) - 1]


def test_broken_neighbours_break_nothing(environment):
    names = [f"plugrad-{name}" for name in BROKEN]
    with environment.having("plugrad-cpu", "plugrad-mine", *names):
        for backend in ("cpu", "mine"):
            code = f"import plugrad; plugrad.set_backend({backend!r})\n{PROGRAM}"
            assert environment.prints(code).endswith(f"[0.5, 0.5] {backend}")

        table, status = environment.told("plugins")
        told = {row["name"]: row for row in table}
        assert status == 1
        assert told["cpu"]["phase"] == told["mine"]["phase"] == "opened"
        for name, (_, error, message) in BROKEN.items():
            assert told[name]["phase"] == "failed"
            assert told[name]["reason"].startswith(f"{error}: ")
            assert message in told[name]["reason"]
            assert message in told[name]["traceback"]

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
        for (name, cause, message), (_, error, told_) in zip(
            lines, BROKEN.values(), strict=True
        ):
            assert cause == error
            assert f"plugrad-{name} 1.0" in message
            assert told_ in message


def test_the_automatic_choice_names_what_it_skips(environment):
    broken = ("plugrad-importing", "plugrad-needing")  # of a high priority
    with environment.having("plugrad-cpu", *broken):
        counting = f"""
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    {"; ".join(PROGRAM.strip().splitlines())}
    pg.exp(1.0)
print(*[w.message for w in caught], sep="\\n")
"""
        lines = environment.prints(counting).splitlines()
        assert lines[1] == "[0.5, 0.5] cpu"  # the first is the talker's
        assert [line.partition(": ")[0] for line in lines[2:]] == [
            f"skipped plugin {name} 1.0" for name in broken
        ]
        assert environment.prints(PROGRAM, PLUGRAD_PLUGINS="cpu") == "[0.5, 0.5] cpu"
        block = "importing, needing"
        assert environment.prints(PROGRAM, PLUGRAD_BLOCK=block) == "[0.5, 0.5] cpu"
    with environment.having("plugrad-importing"):
        done = environment.run("-W", "ignore", "-c", PROGRAM)
        assert "no backend works; see `python -m plugrad plugins`" in done.stderr


def test_malformed_metadata_of_others_break_nothing(environment):
    with environment.having("plugrad-cpu", "unrelated"):
        (path,) = environment.site.glob("unrelated-*/entry_points.txt")
        well_formed = path.read_text()
        path.write_text("[console_scripts]\nzzz : x:main\n[[[\n")  # pip refuses that
        try:
            read = "import importlib.metadata as m; m.entry_points(group='plugrad.v1')"
            assert environment.run("-c", read).returncode == 1
            assert environment.prints(PROGRAM) == "[0.5, 0.5] cpu"
            assert environment.told("plugins")[1] == 0
        finally:
            path.write_text(well_formed)
