"""Plugins with all kinds of faults, in one environment with 300 other distributions.

Each plugin is a real wheel. The healthy plugins must work nevertheless, and ``doctor``
must name the faulty ones.
"""

import plugrad
import pytest
from plugrad._src.registry import install

from release.archives import write_module_wheel
from tests.plugins.wheels import PROGRAM

VERSION = plugrad.__version__
BACKEND = """
from plugrad.plugin import Backend, hookimpl
@hookimpl
def plugrad_backends():
    return [Backend({name!r}, open=open_it)]
"""
# A backend that works if the code in front of it works.
WORKING = """
def open_it():
    import numpy as np
    from plugrad.plugin import Runtime
    class Arrays:
        upload = download = staticmethod(np.array)
        nbytes = staticmethod(lambda native: native.nbytes)
    def fill(arrays, shape, value, dtype):
        return np.full(shape, value, dtype)
    def total(x, axis, keepdims):
        return x.sum(axis, dtype=x.dtype, keepdims=keepdims)
    def product(a, b, transpose_a, transpose_b):
        a = a.swapaxes(-1, -2) if transpose_a else a
        return a @ (b.swapaxes(-1, -2) if transpose_b else b)
    kernels = {"Add": np.add, "Multiply": np.multiply, "Sum": total, "Fill": fill}
    kernels |= {"BroadcastTo": np.broadcast_to, "BatchMatMul": product}
    kernels["Reshape"] = np.reshape
    return Runtime(arrays=Arrays(), kernels=kernels)
"""
EXTENDING = """
from plugrad.plugin import KernelPack, hookimpl
@hookimpl
def plugrad_kernels():
    return [KernelPack("cpu", open=lambda: {"Relu": lambda x: x * 0})]
"""
PACK = """
from plugrad.plugin import GradientPack, hookimpl
@hookimpl
def plugrad_gradients():
    return [GradientPack("guided", open=lambda: {"Relu": {"x": lambda dy: dy}})]
"""


def working(name, before="", open_it=WORKING):
    """Return an entry-point module that runs ``before``, and whose backend works."""
    return before + open_it + BACKEND.format(name=name)


def opening(name, line):
    """Return an entry-point module whose ``open`` runs one line, and then works."""
    return working(name, open_it=WORKING.replace("np\n", f"np\n    {line}\n", 1))


PANIC = "class Panic(BaseException): pass\nraise Panic('of rust')"
PRIVATE = "from plugrad._src.engine.dispatch import active"
# Name of the plugin: its module, its state in doctor's report, and text from its row.
PLUGINS = {
    "metal-a": (working("metal"), "broken", "claimed by plugrad-metal-a 1.0 and plu"),
    "metal-b": (working("metal"), "broken", "claimed by plugrad-metal-a 1.0 and plu"),
    "relu-a": (EXTENDING, "broken", "Relu on 'cpu' is also extended by plugrad-relu-b"),
    "relu-b": (EXTENDING, "broken", "Relu on 'cpu' is also extended by plugrad-relu-a"),
    "guided-a": (PACK, "broken", "pack 'guided' is claimed by plugrad-guided-a 1.0 a"),
    "guided-b": (PACK, "broken", "pack 'guided' is claimed by plugrad-guided-a 1.0 a"),
    "squatter": (working("cpu"), "broken", "backend 'cpu' belongs to plugrad-cpu"),
    "future": (
        "raise OSError",
        "broken",
        f"it is built for the plugin surface plugrad.v2, and plugrad {VERSION} has "
        "plugrad.v1; upgrade plugrad'",
    ),
    "past": (
        "raise OSError",
        "broken",
        f"it is built for the plugin surface plugrad.v0, and plugrad {VERSION} has "
        "plugrad.v1; upgrade plugrad-past'",
    ),
    "printing": (working("printing", "print('hi')"), "works", "prints 'hi'"),
    "writing": (working("writing", "import os; os.write(1, b'raw')"), "works", ""),
    "sleeping": (working("sleeping", "import time; time.sleep(0.3)"), "works", "0.3"),
    "exiting": (
        working("exiting", "import sys; sys.exit(7)"),
        "broken",
        "SystemExit: 7",
    ),
    "exiting2": (opening("exiting2", "raise SystemExit('no')"), "broken", "SystemExit"),
    "patching": (
        working("patching", "import numpy as np; np.seterr(all='raise')"),
        "works",
        "sets NumPy's error state, which has been restored",
    ),
    "private": (
        working("private", PRIVATE),
        "works",
        "imports plugrad._src.engine.dispatch.active",
    ),
    "reentering": (
        working("reentering", "import plugrad; plugrad.ones((2,))"),
        "broken",
        "plugrad-reentering 1.0 uses plugrad's engine while it is loaded",
    ),
    "reopening": (
        opening("reopening", "import plugrad; plugrad.use_backend('reopening')"),
        "broken",
        "backend 'reopening' of plugrad-reopening 1.0 is used by its own `open`",
    ),
    "lying": (
        working("lying").replace("np.add", "np.subtract"),
        "broken",
        "ArithmeticError: Add gives",
    ),
    "panicking": (
        working(
            "panicking", "class Panic(BaseException): pass\nraise Panic('of rust')"
        ),
        "broken",
        "Panic: of rust",
    ),
    "demanding": (
        "raise OSError",
        "broken",
        f"it needs plugrad>=99, and plugrad {VERSION} is installed; upgrade plugrad'",
    ),
    "cautious": (
        working("cautious"),
        "works",
        f"plugrad<0.1, and {VERSION} is installed",
    ),
}
REQUIRES = {"demanding": ["plugrad>=99"], "cautious": ["plugrad<0.1"]}
GROUPS = {"future": "plugrad.v2", "past": "plugrad.v0"}
# Code that ends or blocks the process, and the reason in doctor's report.
DEADLY = {
    "aborting": ("import os; os.abort()", "ended the process with SIGABRT"),
    "leaving": ("import os; os._exit(0)", "ended the process with exit status 0"),
    "hanging": ("import time; time.sleep(60)", "did not finish within 12 s"),
}


@pytest.fixture(scope="module")
def crowded(environment, wheelhouse):
    """Install all plugins, and 300 distributions that are not plugins."""
    for name, source in {n: p[0] for n, p in PLUGINS.items()}.items():
        module = f"plugrad_{name.replace('-', '_')}"
        entry_points = f"[{GROUPS.get(name, 'plugrad.v1')}]\n{name} = {module}\n"
        requires = REQUIRES.get(name, [])
        write_module_wheel(
            wheelhouse, f"plugrad-{name}", source, entry_points, requires
        )
    names = [f"plugrad-{name}" for name in PLUGINS if name not in REQUIRES]
    infos = [environment.site / f"neighbour_{i}-1.0.dist-info" for i in range(300)]
    with environment.installed("plugrad-cpu", *names):
        for name in REQUIRES:
            environment.force(f"plugrad-{name}")
        for i, info in enumerate(infos):
            info.mkdir()
            text = f"Metadata-Version: 2.1\nName: neighbour-{i}\nVersion: 1.0\n"
            (info / "METADATA").write_text(text)
            (info / "entry_points.txt").write_text(
                f"[console_scripts]\nn{i} = neighbour:main\n"
            )
        yield environment
        environment.pip("uninstall", "--yes", *[f"plugrad-{n}" for n in REQUIRES])
        for info in infos:
            for path in info.iterdir():
                path.unlink()
            info.rmdir()


def test_importing_plugrad_imports_no_plugin(crowded):
    modules = sorted(f"plugrad_{name.replace('-', '_')}" for name in PLUGINS)
    code = f"""
import sys, plugrad
print(sorted({{*sys.modules}} & {{*{modules}, "plugrad_cpu"}}))
"""
    assert crowded.prints(code) == "[]"


HEALTHY = ["cpu", "printing", "writing", "sleeping", "patching", "private", "cautious"]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_plugins_work(name, crowded):
    code = f"""
import numpy as np, plugrad as pg
before = np.geterr()
pg.set_backend({name!r})
x = pg.asarray([1.0, 2.0])
print(pg.grad(lambda x: pg.sum(x * x))(x).tolist(), x.backend)
assert np.geterr() == before
"""
    assert crowded.prints(code).splitlines()[-1] == f"[2.0, 4.0] {name}"


def test_the_automatic_choice_works_and_names_faulty_plugins(crowded):
    done = crowded.run("-W", "always", "-c", PROGRAM)
    assert done.stdout.splitlines()[-1] == "[0.5, 0.5] cpu"
    for name in ("exiting", "reentering", "panicking"):
        assert f"skipped plugin plugrad-{name} 1.0" in done.stderr
        assert f"PLUGRAD_BLOCK={name}" in done.stderr
    # relu-a and relu-b extend the same kernel, so cpu runs its own kernel
    code = "import plugrad as pg; pg.set_backend('cpu'); print(pg.relu([2.0]).tolist())"
    assert crowded.prints(code).splitlines()[-1] == "[2.0]"
    last = crowded.prints(code, PLUGRAD_BLOCK="relu-b").splitlines()[-1]
    assert last == "[0.0]"  # now relu-a's kernel runs


CALLS = {  # a call: part of its error, and a PLUGRAD_BLOCK that helps
    "pg.set_backend('metal')": ("set PLUGRAD_BLOCK to all but one of them", "metal-b"),
    "pg.use_gradients('guided')": ("set PLUGRAD_BLOCK to all but one", "guided-a"),
    "pg.set_backend('reentering')": ("move code that needs tensors into `open`", None),
    "pg.set_backend('reopening')": (
        "run no ops there, or run them on another backend",
        None,
    ),
    "pg.set_backend('exiting')": (
        "backend 'exiting' of plugrad-exiting 1.0 has fai",
        None,
    ),
    "pg.set_backend('future')": (
        "backend 'future' of plugrad-future 1.0 is incompatible: it is built for the "
        f"plugin surface plugrad.v2, and plugrad {VERSION} has plugrad.v1; upgrade "
        "plugrad",
        None,
    ),
    "pg.set_backend('demanding')": (
        "backend 'demanding' of plugrad-demanding 1.0 is incompatible: it needs "
        f"plugrad>=99, and plugrad {VERSION} is installed; upgrade plugrad",
        None,
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_names_the_plugin_and_the_reason(call, crowded):
    message, block = CALLS[call]
    done = crowded.run("-c", f"import plugrad as pg; {call}")
    assert done.returncode == 1
    lines = done.stderr.strip().splitlines()
    last = [line for line in lines if not line.startswith("See https://")][-1]
    assert message in last
    if block is not None:
        code = f"import plugrad as pg; {call}; print('well')"
        assert crowded.prints(code, PLUGRAD_BLOCK=block).endswith("well")


@pytest.fixture(scope="module")
def report(crowded):
    """Return doctor's report, as JSON and as text."""
    found, status = crowded.report("doctor")
    assert status == 1
    return found, crowded.run("-m", "plugrad", "doctor").stdout


@pytest.mark.parametrize("name", PLUGINS)
def test_doctor_reports_each_plugin(name, report):
    data, text = report
    _, state, words = PLUGINS[name]
    (row,) = (row for row in data["plugins"] if row["name"] == name)
    assert row["state"] == state
    assert words in str(row)
    assert bool(row["advice"]) == (state == "broken")
    assert f"plugrad-{name} 1.0 ({name})" in text


def test_doctor_reports_details(report):
    data, text = report
    rows = {row["name"]: row for row in data["plugins"]}
    assert rows["cpu"]["state"] == "works"
    assert rows["sleeping"]["seconds"] >= 0.3
    assert "move slow work into `open`" in rows["sleeping"]["notes"][0]
    assert "plugrad_private.py:1)" in rows["private"]["notes"][0]
    assert rows["future"]["advice"] == install.advice("plugrad", upgrade=True)
    assert rows["past"]["advice"] == "`pip install --upgrade plugrad-past`"
    assert "Traceback" in rows["exiting"]["traceback"]
    assert rows["future"]["traceback"] == ""
    assert "to do: " in text
    assert data["environment"] == data["distributions"] == []


def test_commands_print_only_json(crowded):
    for command in ("plugins", "backends", "kernels"):
        crowded.report(command)  # JSON that parses, with two plugins that print
    found, status = crowded.report("why", "Relu", "--backend", "cpu", "--grad")
    rows = [(row["layer"], row["distribution"]) for row in found["rules"]]
    assert ("core", "plugrad") in rows
    assert status == 0


CRASHING = EXTENDING.replace("lambda: {", "lambda: __import__('os').abort() or {")


def test_doctor_finds_a_plugin_that_crashes_only_with_another(environment, wheelhouse):
    entry_points = "[plugrad.v1]\ncrashing = plugrad_crashing\n"
    write_module_wheel(wheelhouse, "plugrad-crashing", CRASHING, entry_points)
    with environment.installed("plugrad-cpu", "plugrad-crashing"):
        data, status = environment.report("doctor")
    rows = {row["name"]: row for row in data["plugins"]}
    assert (status, rows["cpu"]["state"]) == (1, "works")
    assert rows["crashing"]["state"] == "broken"
    assert rows["crashing"]["reason"] == "it ended the process with SIGABRT"


def test_doctor_survives_plugins_that_end_the_process(environment, wheelhouse):
    for name, (line, _) in DEADLY.items():
        entry_points = f"[plugrad.v1]\n{name} = plugrad_{name}\n"
        source = opening(name, line) if name == "leaving" else working(name, line)
        write_module_wheel(wheelhouse, f"plugrad-{name}", source, entry_points)
    names = [f"plugrad-{name}" for name in DEADLY]
    with environment.installed("plugrad-cpu", *names):
        data, status = environment.report("doctor", "--timeout", "12")
    assert status == 1
    rows = {row["name"]: row for row in data["plugins"]}
    assert rows["cpu"]["state"] == "works"
    for name, (_, message) in DEADLY.items():
        assert rows[name]["state"] == "broken"
        assert rows[name]["reason"] == f"it {message}"
        assert f"PLUGRAD_BLOCK={name}" in rows[name]["advice"]
