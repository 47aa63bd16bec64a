"""The output and the exit status of ``python -m plugrad``."""

import importlib.metadata
import json
import subprocess
import sys

import plugrad as pg
import pytest
from plugrad._src.engine import gradients
from plugrad._src.registry.contract import vjp_rules
from plugrad._src.registry.registry import registry
from plugrad._src.tools import cli
from plugrad.plugin import Backend, Kernel
from plugrad_conformance.toy import toy


@pytest.fixture
def run_command(capsys):
    """Run a command; return its status, its lines of text, and its JSON data."""

    def run(*command):
        status = cli.main(command)
        lines = capsys.readouterr().out.splitlines()
        assert cli.main([*command, "--json"]) == status
        return status, lines, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def run_failing_command(capsys):
    """Run a command that fails; return its status and its error message."""

    def run(*command):
        status = cli.main(command)
        out, err = capsys.readouterr()
        assert out == ""
        return status, err.strip()

    return run


@pytest.fixture
def odd(monkeypatch):
    """Declare a kernel that nobody implements, decomposes or differentiates."""
    kernel = Kernel("test.Odd(a, b)")
    monkeypatch.setattr(
        registry, "contracts", registry.contracts | {kernel.name: kernel}
    )


def rows_by(rows, key):
    return {row[key]: row for row in rows}


def lines_from(lines, header):
    """Return the lines of a table; the description of a kernel precedes it."""
    return lines[[line.startswith(header) for line in lines].index(True) :]


def test_plugins(run_command):
    status, lines, rows = run_command("plugins")
    cpu = rows_by(rows, "distribution")["plugrad-cpu"]
    assert (cpu["name"], cpu["phase"], cpu["traceback"]) == ("cpu", "opened", "")
    assert cpu["module"] == "plugrad_cpu.plugin"
    assert lines[0].split() == ["distribution", "version", "name", "phase", "reason"]
    assert lines.index("") == len(rows) + 1
    assert status == any(row["phase"] == "failed" for row in rows)


def test_plugins_lists_the_gradient_packs(run_command):
    _, lines, rows = run_command("plugins")
    packs = rows_by(
        rows_by(rows, "distribution")["plugrad-gradient-packs"]["packs"], "pack"
    )
    assert packs["guided"]["overrides"] == "Relu (x), Relu6 (x)"
    assert any(line.split()[:1] == ["guided"] for line in lines)
    _, _, unopened = run_command("plugins", "--no-open")
    assert not any(row["packs"] for row in unopened)


def test_backends(run_command):
    with toy(dtypes=("float32", "string", "bool")):
        _, lines, rows = run_command("backends")
        closed = rows_by(run_command("backends", "--no-open")[2], "name")
    rows = rows_by(rows, "name")
    assert rows["toy"] == {
        "name": "toy",
        "priority": -1,
        "owner": "user",
        "state": "open",
        "active": False,
        "dtypes": ["bool", "float32", "string"],
    }
    assert rows["cpu"]["owner"].startswith("plugrad-cpu ")
    assert [name for name, row in rows.items() if row["active"]] == [pg.get_backend()]
    priorities = [row["priority"] for row in rows.values()]
    assert priorities == sorted(priorities, reverse=True)
    words = lines[0].split()
    assert words == ["name", "priority", "owner", "state", "active", "dtypes"]
    starts = {line.find(" open ") + 1 for line in lines[1:] if " open " in line}
    assert starts == {lines[0].find("state")}  # aligned
    assert closed["toy"]["state"] == "open"  # it had been opened


def test_internal_backends_are_not_listed(run_command):
    with toy("_internal"):
        _, _, rows = run_command("backends")
        _, _, found = run_command("kernels")
    assert "_internal" not in rows_by(rows, "name")
    assert "_internal" not in found["kernels"][0]


def test_no_open_opens_nothing(run_command):
    def fail():
        raise OSError("no device\nat all")

    pg.register_backend(Backend("toy", open=fail, priority=-1))
    try:
        _, _, rows = run_command("backends", "--no-open")
        assert rows_by(rows, "name")["toy"]["state"] == "closed"
        status, lines, rows = run_command("backends")
        assert status == 1
        assert (
            rows_by(rows, "name")["toy"]["state"]
            == "failed: OSError: no device\nat all"
        )
        assert [line for line in lines if "failed: OSError: no device at all" in line]
        status, lines, data = run_command("kernels")
        assert status == 1
        assert data["closed"] == {
            "toy": "backend 'toy' of user has failed: OSError: no device\nat all"
        }
        assert [line for line in lines if line.startswith("toy does not open: ")]
    finally:
        pg.remove_backend("toy")


COVERAGE = {  # kernel: on cpu, on a toy without it, gradient
    "Add": ("implemented", "implemented", "yes"),
    "Exp": ("implemented", "host", "yes"),
    "Softmax": ("implemented", "decomposed", "yes"),
    "Sqrt": ("implemented", "missing", "yes"),
    "FusedConv2D": ("implemented", "decomposed", "through its parts"),
    "test.Odd": ("missing", "missing", "none"),
}


@pytest.mark.usefixtures("odd")
def test_kernels(run_command):
    lacking = ["Exp", "Softmax", "Sqrt", "FusedConv2D"]
    with toy(without=lacking, host="cpu", host_kernels=["Exp"]):
        _, lines, data = run_command("kernels")
    rows = rows_by(data["kernels"], "kernel")
    assert list(rows) == sorted(rows)
    for kernel, expected in COVERAGE.items():
        row = rows[kernel]
        assert (row["cpu"], row["toy"], row["gradient"]) == expected, kernel
    (line,) = (line for line in lines if line.startswith("Sqrt "))
    found = line.split()
    assert (found[0], found[-1]) == ("Sqrt", "yes")
    assert "missing" in found
    (count,) = (line for line in lines if line.startswith("toy: "))
    missing = [row for row in rows.values() if row["toy"] == "missing"]
    assert f"{len(missing)} missing" in count


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize(
    ("functions", "expected"),
    [
        ({"a": lambda dy: dy, "b": None}, "yes"),
        ({"a": None, "b": None}, "no derivative"),
    ],
)
def test_a_gradient_on_only_one_backend(functions, expected, run_command):
    with toy(gradients={"test.Odd": functions}):
        rows = rows_by(run_command("kernels")[2]["kernels"], "kernel")
        status, _, data = run_command("why", "test.Odd", "--backend", "toy", "--grad")
    assert rows["test.Odd"]["gradient"] == "on toy"
    assert data["gradient"] == expected
    assert status == 1  # nothing runs it
    assert [(row["input"], row["layer"]) for row in data["rules"]] == [
        ("a", "backend"),
        ("b", "backend"),
    ]
    assert data["rules"][1]["where"] == "declared to have none"


def identity(x):
    return x


def straight_through(dy):
    return dy


def test_why_shows_the_layers_of_kernels(run_command):
    pg.register_kernel("Softmax", "cpu", lambda logits, axis: identity(logits))
    try:
        status, lines, data = run_command("why", "Softmax", "--backend", "cpu")
    finally:
        pg.unregister_kernel("Softmax", "cpu")
    assert status == 0
    assert [way["way"] for way in data["ways"]] == ["user", "owner", "decomposition"]
    user, owner, parts = data["ways"]
    assert user["when"] == "always"
    assert user["where"].startswith(f"{__file__}:")
    assert owner["distribution"] == "plugrad-cpu"
    assert owner["version"] == importlib.metadata.version("plugrad-cpu")
    assert "plugrad_cpu/kernels/" in owner["where"]
    assert owner["when"] == "once the one above is removed"
    assert "plugrad/_src/ops/" in parts["where"]
    assert parts["when"] == "if the first returns NotImplemented"
    assert lines[0].startswith("Softmax(logits: floating; axis: axis) -> y on cpu")
    table = lines[[line.split(" ")[0] for line in lines].index("way") :]
    assert [line.split()[0] for line in table[1:4]] == ["user", "owner", parts["way"]]
    assert lines[-1] == "gradient: yes"


@pytest.mark.parametrize(
    ("host", "policy", "status", "way"),
    [
        ({"host": "cpu", "host_kernels": ["Exp"]}, "error", 0, "host cpu"),
        ({}, "warn", 0, "fallback cpu"),
        ({}, "error", 1, None),
    ],
)
def test_why_shows_other_backends_that_run_a_kernel(
    host, policy, status, way, run_command, monkeypatch
):
    monkeypatch.setenv("PLUGRAD_FALLBACK", policy)
    with toy(without=["Exp"], **host):
        found, lines, data = run_command("why", "Exp", "--backend", "toy")
    assert found == status
    assert [w["way"] for w in data["ways"]][:1] == ([way] if way else [])
    assert ("Exp cannot run here: KernelNotFound" in lines) == (way is None)


def test_why_shows_the_layers_of_gradients(run_command):
    pg.register_gradient("Multiply", a=lambda dy, b: dy)
    try:
        with pg.override_gradient("Multiply", a=None):
            _, lines, data = run_command("why", "Multiply", "--grad")
    finally:
        pg.unregister_gradient("Multiply")
    rules = [(row["input"], row["layer"]) for row in data["rules"]]
    assert rules == [("a", "scope"), ("a", "user"), ("a", "core"), ("b", "core")]
    scope, user, core, _ = data["rules"]
    assert scope["where"] == "declared to have none"
    assert user["where"].startswith(f"{__file__}:")
    assert (user["distribution"], user["when"]) == (
        "user",
        "once the one above is removed",
    )
    assert (core["distribution"], core["version"]) == (
        "plugrad",
        importlib.metadata.version("plugrad"),
    )
    assert "plugrad/_src/ops/basis/binary.py:" in core["where"]
    table = lines_from(lines, "input ")
    assert table[0].split() == [*scope]
    assert len(table) == 5


def test_why_shows_places_and_decompositions(run_command):
    with pg.override_gradient("Relu", where="head.*", x=straight_through):
        _, lines, _ = run_command("why", "Relu", "--backend", "cpu", "--grad")
        assert any("scope where='head.*'" in line for line in lines)
    with pg.override_gradient("Softmax", decompose=True):
        _, lines, _ = run_command("why", "Softmax", "--backend", "cpu", "--grad")
        assert any("that of its decomposition" in line for line in lines)


def test_why_names_the_pack_of_a_scope_and_the_owner_of_a_backend(run_command):
    relu = registry.contracts["Relu"]
    pack = vjp_rules(relu, {"x": straight_through}, "mypacks 1.2, pack 'guided'")
    with (
        toy(gradients={"Relu": {"x": lambda dy, x: dy}}),
        gradients.override({"Relu": pack}, "toy", None, "test"),
    ):
        _, lines, data = run_command("why", "Relu", "--backend", "toy", "--grad")
        _, _, elsewhere = run_command("why", "Relu", "--backend", "cpu", "--grad")
    assert [(row["layer"], row["distribution"]) for row in data["rules"]] == [
        ("scope, pack 'guided'", "mypacks"),
        ("backend", "user"),
        ("core", "plugrad"),
    ]
    assert data["rules"][0]["version"] == "1.2"
    table = lines_from(lines, "input ")
    assert table[1].endswith(f"{__file__}:{straight_through.__code__.co_firstlineno}")
    assert [row["layer"] for row in elsewhere["rules"]] == ["backend", "core"]
    assert elsewhere["rules"][0]["distribution"] == "plugrad-cpu"


@pytest.mark.usefixtures("odd")
def test_why_says_which_inputs_have_no_gradient(run_command):
    with pg.override_gradient("test.Odd", a=lambda dy: dy):
        _, _, data = run_command("why", "test.Odd", "--grad")
    row = data["rules"][1]
    assert (row["input"], row["layer"]) == ("b", "none")
    assert row["where"] == "GradientNotFound in backward"
    _, lines, _ = run_command("why", "test.Odd", "--grad")
    assert lines[-1] == "no gradient: GradientNotFound in backward"


def test_why_points_at_the_parts_of_a_composite(run_command):
    _, lines, data = run_command("why", "FusedConv2D", "--grad")
    assert data["gradient"] == "through its parts"
    assert "its parts are recorded: " in lines[-1]
    assert "plugrad/_src/ops/nn/fused.py:" in lines[-1]


@pytest.mark.parametrize("op", ["divide", "RealDiv"])
def test_why_accepts_an_op_that_runs_one_kernel(op, run_command):
    status, lines, data = run_command("why", op)
    assert (status, data["kernel"]) == (0, "RealDiv")
    assert lines[0].startswith("RealDiv(")


@pytest.mark.parametrize(
    ("op", "kernels"),
    [
        ("silu", ["Sigmoid", "Multiply"]),
        ("std", ["Mean", "Sub", "Square", "Sum", "RealDiv", "Select", "Sqrt"]),
        ("dropout", ["Multiply", "Select"]),
        ("hard_sigmoid", ["Multiply", "Add"]),
        ("max_pool", ["MaxPool", "MaxPool3D"]),
    ],
)
def test_why_names_the_kernels_of_a_composed_op(op, kernels, run_command):
    status, lines, data = run_command("why", op)
    assert (status, data["op"], data["kernels"]) == (0, op, kernels)
    assert lines[0] == f"the op {op} runs these kernels:"
    assert any(line.startswith(kernels[-1]) for line in lines)


def test_why_says_that_an_op_has_a_gradient_by_custom_grad(run_command):
    status, lines, data = run_command("why", "logsumexp")
    assert (status, data) == (0, {"op": "logsumexp", "kernels": []})
    assert lines[0].startswith(
        "the op logsumexp has a gradient of its own, from custom_"
    )


def test_why_prints_what_a_kernel_computes(run_command):
    _, lines, data = run_command("why", "Sum")
    assert data["doc"].splitlines()[0] in lines


@pytest.mark.parametrize(
    ("command", "status", "message"),
    [
        (["why", "Conv2d"], 2, "why: unknown kernel 'Conv2d'; did you mean 'Conv2D'?"),
        (["why", "dividee"], 2, "why: unknown kernel 'dividee'"),
        (["why", "Add", "--backend", "cup"], 1, "'cup'; did you mean 'cpu'?"),
    ],
)
def test_wrong_names(command, status, message, run_failing_command):
    found, error = run_failing_command(*command)
    assert found == status
    assert error.startswith("plugrad: ")
    assert message in error


def test_without_a_command_the_help_is_printed(capsys):
    assert cli.main([]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("usage: python -m plugrad")
    assert "exit status:" in out
    assert err == ""


def test_the_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    version = importlib.metadata.version("plugrad")
    assert capsys.readouterr().out == f"plugrad {version}\n"


DISTRIBUTIONS = {  # package: distribution
    "keras_plugrad": "keras-plugrad",
    "plugrad": "plugrad",
    "plugrad_attribution": "plugrad-attribution",
    "plugrad_conformance": "plugrad-conformance",
    "plugrad_cpu": "plugrad-cpu",
    "plugrad_gguf": "plugrad-gguf",
    "plugrad_gradient_packs": "plugrad-gradient-packs",
    "plugrad_mpi": "plugrad-mpi",
    "plugrad_onnx": "plugrad-onnx",
    "plugrad_opencl": "plugrad-opencl",
    "plugrad_tfjs": "plugrad-tfjs",
    "plugrad_train": "plugrad-train",
    "plugrad_wasm": "plugrad-wasm",
    "plugrad_webgpu": "plugrad-webgpu",
}


@pytest.mark.parametrize("package", DISTRIBUTIONS)
def test_every_distribution_has_its_version(package):
    module = pytest.importorskip(package, reason=f"{package} is not installed")
    assert module.__version__ == importlib.metadata.version(DISTRIBUTIONS[package])
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'versoin"):
        module.versoin  # noqa: B018


def test_importing_a_distribution_reads_no_metadata():
    code = "import sys, plugrad_cpu; print('importlib.metadata' in sys.modules)"
    assert python("-c", code).stdout == "False\n"


@pytest.mark.parametrize("command", [["plugin"], ["why"], ["kernels", "Add"]])
def test_wrong_command_lines(command, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(command)
    assert "usage: python -m plugrad" in capsys.readouterr().err


def python(*arguments):
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_module_runs_and_its_reader_may_close_the_pipe():
    whole = python("-m", "plugrad", "kernels")
    assert "cpu: " in whole.stdout
    command = [sys.executable, "-m", "plugrad", "kernels"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as reading:
        reading.stdout.close()
        assert reading.stderr.read() == b""


def test_importing_plugrad_does_not_import_the_tools():
    code = "import plugrad, sys; "
    code += "print({'argparse', 'plugrad._src.tools'} & {*sys.modules})"
    assert python("-c", code).stdout == "set()\n"
