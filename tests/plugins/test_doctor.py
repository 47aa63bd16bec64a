"""The findings of ``python -m plugrad doctor``, with fake distributions."""

import json
import os
import re
import subprocess
import sys

import pytest
from plugrad._src.engine import accelerated
from plugrad._src.tools import installed
from plugrad._src.tools.doctor import _accelerator_lines, _accelerators, _text

from tests.plugins.sources import GOOD

BACKEND = """
from plugrad.plugin import Backend, KernelPack, Runtime, hookimpl

def open_it():
    from plugrad_cpu.arrays import NumpyArrays
    from plugrad_cpu.kernels import KERNELS
    return Runtime(arrays=NumpyArrays(), kernels=KERNELS, self_test=self_test)

def self_test():
    {test}

@hookimpl
def plugrad_backends():
    return [Backend("it", open=open_it)]
"""
KERNEL_PACK = """
from plugrad.plugin import KernelPack, hookimpl

@hookimpl
def plugrad_kernels():
    return [KernelPack("cup", open=dict)]
"""


@pytest.fixture
def doctor(tmp_path):
    """Run doctor with the fake distributions; return status, report and plugins."""

    def run(**environment):
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "plugrad", "doctor", "--json"]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={"PYTHONPATH": path, **environment},
        )
        assert done.stdout, done.stderr
        data = json.loads(done.stdout)
        return done.returncode, data, {row["name"]: row for row in data["plugins"]}

    return run


def test_a_self_test_runs_and_its_remarks_are_shown(site, doctor):
    site("plugrad-it", BACKEND.format(test="return ['device 1: skipped, no memory']"))
    status, data, rows = doctor()
    assert (status, rows["it"]["state"], rows["it"]["advice"]) == (0, "works", "")
    (entry,) = rows["it"]["entries"]
    assert entry["entry"] == "backend 'it'"
    assert entry["remarks"] == [
        "upload and download, Add, Sum, BatchMatMul, a gradient: as NumPy",
        "device 1: skipped, no memory",
    ]
    assert data["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_backend_whose_self_test_fails_is_broken(site, doctor):
    site("plugrad-it", BACKEND.format(test="raise OSError('the fan is off')"))
    status, _, rows = doctor()
    assert (status, rows["it"]["state"]) == (1, "broken")
    assert rows["it"]["entries"][0]["remarks"] == ["OSError: the fan is off"]
    assert "PLUGRAD_BLOCK=it leaves it out" in rows["it"]["advice"]
    assert rows["cpu"]["state"] == "works"


def test_a_plugin_that_a_variable_leaves_out_is_not_broken(site, doctor):
    site("plugrad-it", "raise OSError")
    status, _, rows = doctor(PLUGRAD_BLOCK="it")
    assert (status, rows["it"]["state"]) == (0, "left out")
    assert rows["it"]["reason"] == "named in PLUGRAD_BLOCK"
    assert rows["it"]["advice"] == "change that variable to load it"


VARIABLES = {  # a variable and its value: the message of doctor
    ("PLUGRAD_COMPILED", "no"): "PLUGRAD_COMPILED=no: use 0 or 1",
    ("PLUGRAD_FALLBACK", "never"): "PLUGRAD_FALLBACK=never: use error, warn or allow",
    ("PLUGRAD_BACKEND", "cup"): "there is no such backend; did you mean 'cpu'?",
    ("PLUGRAD_BLOCK", "wsam"): "names 'wsam', and no such plugin is installed",
    ("PLUGRAD_BACKEMD", "cpu"): "is not used by plugrad; did you mean 'PLUGRAD_BACKEND",
}


@pytest.mark.parametrize("variable", VARIABLES)
def test_wrong_variables_are_reported(variable, doctor):
    status, data, _ = doctor(**dict([variable]))
    (line,) = data["environment"]
    assert status == 1
    assert VARIABLES[variable] in line
    assert line.startswith(variable[0])


def test_right_variables_are_not_reported(doctor):
    right = {"PLUGRAD_FALLBACK": "warn", "PLUGRAD_BACKEND": "cpu"}
    status, data, _ = doctor(**right, PLUGRAD_CPU_ANYTHING="1")
    assert (status, data["environment"]) == (0, [])


PARTIAL = BACKEND.replace("kernels=KERNELS,", "kernels={kernels}, {more}")
ADD_ONLY = '{"Add": KERNELS["Add"]}'
PARTS = {  # kernels and options of a backend: the remarks of doctor
    (f"{ADD_ONLY}", ""): [
        "works in part: no BatchMatMul, ",
        "upload and download, Add: as NumPy; cannot run: Sum, BatchMatMul, a gradient",
    ],
    ("{k: f for k, f in KERNELS.items() if k != 'Cast'}", "dtypes=['float32'],"): [
        "works in part: no Cast",
        "upload and download, Add, Sum, BatchMatMul, a gradient: as NumPy",
    ],
    ("KERNELS", "dtypes=['int32'],"): ["it has no float32, so no op was tried"],
    ("{**KERNELS, 'Sum': lambda x, axis, keepdims: NotImplemented}", ""): [
        "upload and download, Add, BatchMatMul: as NumPy; cannot run: Sum, a gradient"
    ],
}


@pytest.mark.parametrize("policy", ["error", "allow"])
@pytest.mark.parametrize("part", PARTS)
def test_a_backend_may_be_partial(part, policy, site, doctor):
    kernels, more = part
    source = PARTIAL.format(test="return []", kernels=kernels, more=more)
    site("plugrad-it", source)
    status, _, rows = doctor(PLUGRAD_FALLBACK=policy)
    assert (status, rows["it"]["state"], rows["it"]["advice"]) == (0, "works", "")
    (entry,) = rows["it"]["entries"]
    for remark, expected in zip(entry["remarks"], PARTS[part], strict=True):
        assert remark.startswith(expected), remark


def test_long_lists_of_missing_kernels_are_shortened(site, doctor):
    source = PARTIAL.format(test="return []", kernels=ADD_ONLY, more="")
    site("plugrad-it", source)
    _, _, rows = doctor()
    remark, _ = rows["it"]["entries"][0]["remarks"]
    names, _, rest = remark.partition(" and ")
    assert len(names.split(",")) == 6
    assert re.fullmatch(r"\d\d more, see `python -m plugrad kernels`", rest)


def test_kernels_of_op_libraries_are_not_reported_as_missing(site, doctor):
    site("plugrad-toy", GOOD)  # with a kernel on cpu, and no decomposition
    site("plugrad-it", BACKEND.format(test="return []"))
    _, _, rows = doctor()
    (remark,) = rows["it"]["entries"][0]["remarks"]
    assert remark.endswith("as NumPy")


def test_a_plugin_that_registers_nothing(site, doctor):
    site("plugrad-it", KERNEL_PACK.replace('[KernelPack("cup", open=dict)]', "[]"))
    status, _, rows = doctor()
    assert (status, rows["it"]["state"]) == (0, "works")
    assert rows["it"]["notes"] == ["registers nothing: its hooks return empty lists"]


def test_the_advice_is_to_install_a_missing_host(site, doctor, tmp_path):
    hosted = PARTIAL.format(
        test="return []", kernels="KERNELS", more="host='far', host_kernels=['Unique'],"
    )
    site("plugrad-it", hosted)
    needs = "Name: plugrad-it\nVersion: 1.0\nRequires-Dist: plugrad-far==1.0\n"
    (tmp_path / "plugrad_it-1.0.dist-info" / "METADATA").write_text(needs)
    status, _, rows = doctor()
    assert (status, rows["it"]["state"]) == (1, "broken")
    assert rows["it"]["needs"] == ["plugrad-far==1.0, which is not installed"]
    assert rows["it"]["advice"] == "`pip install plugrad-far`"


def test_a_kernel_pack_for_an_unknown_backend_is_a_remark(site, doctor):
    site("plugrad-it", KERNEL_PACK)
    status, _, rows = doctor()
    assert (status, rows["it"]["state"]) == (0, "works")
    assert rows["it"]["entries"][0]["remarks"] == [
        "there is no usable backend 'cup'; did you mean 'cpu'?"
    ]


def test_the_advice_is_to_install_a_missing_module(site, doctor):
    site("plugrad-it", "import nonsense_")
    _, _, rows = doctor()
    assert rows["it"]["advice"] == (
        "install a package with the module 'nonsense_'; plugrad-it needs it"
    )
    assert "ModuleNotFoundError" in rows["it"]["traceback"]


INCOMPLETE = {  # a module that is missing: the source, and the entry point
    "plugrad_it.kernels": ("import plugrad_it.kernels", "plugrad_it"),
    "plugrad_it.plugin": ("", "plugrad_it.plugin"),
}


@pytest.mark.parametrize("missing", INCOMPLETE)
def test_a_plugin_that_is_only_partly_installed(missing, site, doctor):
    source, module = INCOMPLETE[missing]
    site("plugrad-it", source, f"[plugrad.v1]\nit = {module}\n")
    status, _, rows = doctor()
    assert status == 1
    assert rows["it"]["reason"] == (
        f"it is installed only in part, {missing} is missing; reinstall plugrad-it"
    )
    assert "plugrad-it" in rows["it"]["advice"]


def test_malformed_metadata_of_a_plugin_is_reported(site, doctor):
    site("plugrad-it", "", "[plugrad.v1]\nit : oops\n")
    status, _, rows = doctor()
    assert status == 1
    assert (rows[""]["distribution"], rows[""]["state"]) == ("plugrad-it", "broken")


def test_a_deprecation_is_noted(site, doctor):
    warns = "from plugrad._src.registry.deprecation import warn_deprecated as w\n"
    warns += "w('it', since='0.2', until='0.4', use='that')\n"
    site("plugrad-it", warns + BACKEND.format(test="return []"))
    _, _, rows = doctor()
    notes = rows["it"]["notes"]
    assert "a deprecated feature: it has been deprecated since plugrad 0.2" in notes[0]
    assert "imports plugrad._src.registry.deprecation.warn_deprecated" in notes[1]


def test_distributions_that_are_installed_twice(site, doctor, tmp_path):
    site("plugrad-it", BACKEND.format(test="return []"))
    again = tmp_path / "again"
    again.mkdir()
    (again / "linked").symlink_to(tmp_path)
    old = again / "plugrad_it-0.9.dist-info"
    old.mkdir()
    (old / "METADATA").write_text("Name: plugrad_it\nVersion: 0.9\n")
    (old / "entry_points.txt").write_text("[plugrad.v1]\nit = plugrad_gone\n")
    leftover = tmp_path / "plugrad_it-1.1.dist-info"
    path = [tmp_path, again / "linked", again, os.environ.get("PYTHONPATH", "")]
    _, data, rows = doctor(PYTHONPATH=os.pathsep.join(map(str, path)))
    assert rows["it"]["state"] == "works"
    linked, hidden = data["distributions"]
    assert linked.startswith(
        f"plugrad-it is found through {tmp_path} and {again}/linked"
    )
    assert hidden == (
        f"plugrad-it 1.0 in {tmp_path} hides 0.9 in {again}; uninstall one of them"
    )
    old.rename(leftover)  # as an interrupted update leaves it
    _, data, _ = doctor()
    assert any("as an interrupted update leaves it" in x for x in data["distributions"])


def test_each_entry_of_a_plugin_has_its_own_reason():
    entries = [
        {"entry": f"backend {name}", "phase": "failed", "reason": name, "remarks": []}
        for name in ("too hot", "too cold")
    ]
    plugin = {"state": "broken", "distribution": "d", "version": "1", "name": ""}
    plugin |= {"seconds": 0.0, "phase": "opened", "reason": "", "entries": entries}
    plugin |= {"needs": [], "notes": [], "advice": ""}
    head = ("plugrad", "python", "numpy", "platform")
    data = dict.fromkeys(head, "") | {"environment": [], "distributions": []}
    data["accelerators"] = {"in use": True}
    text = _text(data | {"plugins": [plugin]})
    assert "backend too hot failed: too hot\n" in text
    assert text.endswith("backend too cold failed: too cold")


ACCELERATORS = {  # why they are missing, the language in use, the interpreter: text
    ("", "C", "cpython"): ["C accelerators: in use"],
    ("", "Python", "cpython"): [
        "C accelerators: not in use, PLUGRAD_COMPILED=0 is in the environment; "
        "everything works, but more slowly",
        "          to do: unset PLUGRAD_COMPILED",
    ],
    ("undefined symbol: x", "Python", "cpython"): [
        "C accelerators: not in use, undefined symbol: x; "
        "everything works, but more slowly",
        "          to do: install a plugrad wheel, or install a C compiler and "
        "Python's headers and reinstall plugrad with `--force-reinstall "
        "--no-cache-dir`",
    ],
    ("they were not compiled", "Python", "pypy"): [
        "C accelerators: not in use, they need CPython; "
        "everything works, but more slowly",
    ],
}


@pytest.mark.parametrize("case", ACCELERATORS)
def test_accelerators(case, monkeypatch):
    missing, language, implementation = case
    monkeypatch.setattr(accelerated, "missing", missing)
    monkeypatch.setattr(accelerated, "fast_path_language", lambda: language)
    monkeypatch.setattr(sys.implementation, "name", implementation)
    assert _accelerator_lines(_accelerators()) == ACCELERATORS[case]


def test_requirements(site, monkeypatch, tmp_path):
    site("plugrad-it")
    (tmp_path / "plugrad_it-1.0.dist-info" / "METADATA").write_text(
        "Name: plugrad-it\nVersion: 1.0\nRequires-Dist: numpy (>=1.0,<99)\n"
        "Requires-Dist: plugrad>=99\nRequires-Dist: nonsense-of-dreams[gpu]>=2\n"
        'Requires-Dist: absent; extra == "more"\nRequires-Dist: pluggy\n'
        'Requires-Dist: absent; python_version < "3"\nRequires-Dist: @@nonsense\n'
        "Requires-Dist: wanted-here; python_version >= '3'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    low, absent, here = installed.unmet("plugrad-it")
    assert str(low).startswith("plugrad>=99, and ")
    assert str(absent) == "nonsense-of-dreams>=2, which is not installed"
    assert low.argument == "plugrad>=99"
    assert absent.argument == "nonsense-of-dreams"
    assert str(here) == "wanted-here, which is not installed"


PRIVATE = {  # an import statement: whether it imports a private name
    "import plugrad": False,
    "import plugrad.plugin as p": False,
    "from plugrad import linalg, geometry": False,
    "from plugrad.plugin import Kernel": False,
    "from plugrad import __version__": False,
    "import plugrad._src.engine.dispatch": True,
    "from plugrad._src.engine import dispatch": True,
    "from plugrad._src.tensor.dtypes import DType": True,
    "from plugrad import engine, Tensor": False,
    "from plugrad._src.ops.basis import unary": True,
    "from plugrad._src.tools.cli import main": True,
    "from plugrad.plugin import _hidden": True,
    "from plugrad_cpu._internal import x": False,
    "from . import _own": False,
}


@pytest.mark.parametrize(("line", "private"), PRIVATE.items())
def test_private_imports(line, private, tmp_path, monkeypatch):
    path = tmp_path / "probed.py"
    path.write_text(f"def later():\n    {line}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "probed", raising=False)
    __import__("probed")
    found = list(installed.private_imports("probed"))
    monkeypatch.delitem(sys.modules, "probed")
    assert [f"({path}:2)" in text for text in found] == [True] * private
