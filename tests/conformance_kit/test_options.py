"""Levels, expected failures, the report, and projects that must not be affected."""

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from plugrad_conformance import levels
from plugrad_conformance.golden import reach
from plugrad_conformance.scorecard import Score

WRONG_EXP = 'kernels["Exp"] = lambda x: np.exp(x) * x.dtype.type(1.00001)'
PACKAGE = Path(levels.__file__).parent
PRIMITIVES = "backend.test_primitives"
ENTRY = """
[[expected]]
test = "{test}"
reason = "{reason}"
link = "{link}"
"""


def entry(
    test="backend/test_primitives.py::*[faulty-Exp*]",
    reason="a coarse table",
    link="https://example.org/1",
):
    return ENTRY.format(test=test, reason=reason, link=link)


def write_expected(kit, text):
    (kit.folder / "expected.toml").write_text(text)
    return "--plugrad-xfail=expected.toml"


# --- expected failures -----------------------------------------------------------


def test_an_expected_failure_passes(kit):
    kit.install(WRONG_EXP)
    done = kit.run(PRIMITIVES, "-k", "Exp-float32 or Log", write_expected(kit, entry()))
    assert done.returncode == 0, done.stdout
    score = kit.score()
    assert score["failed"] == []
    (failure,) = [e for e in score["expected_failures"] if "shapes" in e["test"]]
    assert failure["test"].endswith("test_dtypes_and_shapes[faulty-Exp-float32]")
    assert failure["reason"] == "a coarse table (https://example.org/1)"
    assert score["kernels"]["Exp"]["expected"] == 1
    assert score["kernels"]["Log"]["passed"] > 0


def test_an_unexpected_pass_fails(kit):
    kit.install()
    done = kit.run(PRIMITIVES, "-k", "Exp-float32", write_expected(kit, entry()))
    assert done.returncode == 1
    assert "[XPASS(strict)] a coarse table" in done.stdout
    assert kit.failed()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (entry(reason=" "), "entry 1: reason is missing"),
        (entry(link=""), "entry 1: link is missing"),
        (entry(link="see above"), "link must be the address of a page"),
        ('[[expected]]\nreason = "so"\nlink = "https://a.b"', "test is missing"),
        (entry() + 'because = "so"', "entry 1: unknown 'because'"),
        ("[[excused]]", "unknown 'excused'; entries are called [[expected]]"),
        ('[expected]\ntest = "*"', "write [[expected]], not [expected]"),
        ("[[expected", "expected.toml: "),
        (None, "No such file"),
    ],
)
def test_a_bad_file_is_refused(kit, text, complaint):
    kit.install()
    option = (
        "--plugrad-xfail=nothing.toml" if text is None else write_expected(kit, text)
    )
    done = kit.run(PRIMITIVES, "--collect-only", option)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert complaint in done.stderr


def test_an_entry_that_matches_nothing_is_refused(kit):
    """Runs of the whole package refuse the entry; partial runs might lack the test."""
    kit.install()
    option = write_expected(
        kit, entry(test="backend/test_primitives.py::test_of_luck*")
    )
    assert kit.run(PRIMITIVES, "--collect-only", option).returncode == 0
    done = kit.run("", "--collect-only", option)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no test matches backend/test_primitives.py::test_of_luck*" in done.stderr


# --- levels and the report -------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        ("backend/test_arrays", "test_values_come_back", "primitives"),
        ("backend/test_leaks", "test_results_are_freed", "inference"),
        ("backend/test_processes", "test_threads_that_open_it", "everything"),
        ("ops/test_conv", "test_values", "inference"),
        ("ops/test_conv", "test_values_and_gradients", "training"),
        ("ops/test_conv", "test_errors", "everything"),
        ("ops/test_gradients_everywhere", "test_float32", "training"),
        ("ops/test_strings", "test_gradients", "everything"),
        ("ops/test_string_dtype", "test_values", "everything"),
    ],
)
def test_the_level_of_a_test(file, function, expected):
    assert levels.level(file, function) == expected


@pytest.mark.parametrize(
    ("kind", "kernel", "expected"),
    [
        ("kernels", "Exp", "primitives"),
        ("kernels", "Complex", "primitives"),
        ("kernels", "Conv2D", "inference"),
        ("kernels", "Conv2DBackpropFilter", "training"),
        ("kernels", "FFT", "everything"),
        ("gradients", "Exp", "training"),
        ("errors", "Exp", "everything"),
    ],
)
def test_the_level_of_a_golden_case(kind, kernel, expected):
    family = reach.family(kernel)
    assert family
    assert levels.level_of_case(kind, kernel, family) == expected


def test_every_row_of_the_table_is_used():
    """Each test matches a row, and each row is the first match of some test."""
    tests = {
        (path.relative_to(PACKAGE).with_suffix("").as_posix(), name)
        for path in PACKAGE.glob("*/test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    first = [
        [row for row in levels.TABLE if levels.fits(row, file, function)][:1]
        for file, function in tests
        if not file.startswith("golden")
    ]
    assert [] not in first
    assert {*levels.TABLE} == {row for rows in first for row in rows}


def test_a_level_leaves_out_later_levels(kit):
    kit.install()
    done = kit.run("", "--collect-only", "--plugrad-level=inference")
    assert done.returncode == 0, done.stdout
    assert "::test_kernel[faulty-Conv2D-" in done.stdout
    assert "::test_gradient[faulty-" not in done.stdout
    assert "[cpu" not in done.stdout
    assert "::test_every_kernel_has_a_row" not in done.stdout  # about plugrad itself
    assert " at 0x" not in done.stdout  # ids are the same in every process


def test_a_level_is_claimed_only_after_a_complete_run(kit):
    kit.install()
    done = kit.run(PRIMITIVES, "-k", "Exp")
    assert "level reached: none claimed, because only some" in done.stdout
    assert (kit.score()["level"], kit.score()["partial"]) == (None, True)


@pytest.mark.parametrize(
    ("outcomes", "partial", "reached"),
    [
        (["primitives passed", "inference passed", "training failed"], False, 1),
        (["primitives passed", "inference expected", "inference passed"], False, 1),
        (["primitives failed", "inference passed"], False, None),
        (["primitives passed", "inference skipped", "training passed"], False, 0),
        ([f"{level} passed" for level in levels.LEVELS], False, 3),
        ([f"{level} passed" for level in levels.LEVELS], True, None),
    ],
)
def test_the_reached_level(outcomes, partial, reached):
    results = [
        {
            "outcome": outcome,
            "why": "",
            "plugrad": {"test": "t", "backend": "cpu", "level": level, "kernel": ""},
        }
        for level, outcome in map(str.split, outcomes)
    ]
    expected = None if reached is None else levels.LEVELS[reached]
    assert Score("cpu", results, partial).level == expected


def test_the_contents_of_the_report(kit):
    kit.install('options["dtypes"] = ("bool", "int32", "float32")')
    done = kit.run("golden.test_golden", "-k", "Softmax- or Unique- or Real-")
    assert done.returncode == 0, done.stdout
    assert "plugrad conformance: faulty (plugrad-faulty 2.5)" in done.stdout
    report = json.loads(kit.report.read_text())
    score = kit.score()
    assert set(report) == {"plugrad", "plugrad-conformance", "backends"}
    assert (score["distribution"], score["version"]) == ("plugrad-faulty", "2.5")
    softmax, unique, exp = (score["kernels"][k] for k in ("Softmax", "Unique", "Exp"))
    assert softmax["runs"] == "decomposed"
    assert softmax["ran"]["decomposition"] >= softmax["passed"] > 0
    assert (unique["runs"], exp["runs"]) == ("host", "implemented")
    assert unique["ran"] == {"host": unique["passed"]}
    assert exp["ran"] == {}
    assert score["dtypes"] == ["bool", "float32", "int32"]
    assert (
        score["skipped"]["faulty has no complex64"]
        == score["kernels"]["Real"]["skipped"]
    )
    assert score["levels"]["inference"]["passed"] > 0


def test_a_backend_that_does_not_open_has_no_score(kit, monkeypatch):
    kit.install('raise OSError("no device")')
    refused = kit.run(PRIMITIVES)
    assert refused.returncode == pytest.ExitCode.USAGE_ERROR
    assert "OSError: no device" in refused.stderr
    monkeypatch.setenv("PLUGRAD_BLOCK", "opencl,wasm,webgpu")
    done = kit.run(PRIMITIVES, "-k", "Exp-float32", backends=())
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stderr
    assert "OSError: no device" in done.stdout
    assert [*json.loads(kit.report.read_text())["backends"]] == ["cpu"]


# --- other projects that have the kit installed ----------------------------------


def test_an_unknown_backend_is_refused(kit):
    done = kit.run(PRIMITIVES)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--plugrad-backend: " in done.stderr
    assert "'faulty'" in done.stderr


def test_tests_of_other_projects_are_not_affected(tmp_path):
    """The kit adds no fixture and no summary line, and does not import plugrad."""
    (tmp_path / "test_mine.py").write_text(
        textwrap.dedent(
            """
            import sys
            import pytest

            @pytest.fixture
            def backend():
                return 5

            def test_own_fixture(backend):
                assert backend == 5

            def test_imports():
                assert "plugrad" not in sys.modules
                assert "numpy" not in sys.modules
            """
        )
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    assert "plugrad conformance" not in done.stdout


def test_a_backend_may_come_from_a_conftest(kit):
    """A backend in development may lack a distribution and an entry point."""
    kit.install()
    for path in kit.folder.glob("*.dist-info/*"):
        path.unlink()
    (kit.folder / "conftest.py").write_text(
        "import plugrad as pg, plugrad_faulty\n"
        "pg.register_backend(plugrad_faulty.plugrad_backends()[0])\n"
    )
    done = kit.run("backend.test_arrays", "backend.test_imports")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "plugrad conformance: faulty (registered by the user)" in done.stdout
    assert kit.score()["skipped"]["faulty has no entry point"] == 3


def test_other_projects_may_use_the_fixture(kit):
    """Projects import two names in a conftest.py and use ``backend`` in their tests."""
    kit.install()
    (kit.folder / "conftest.py").write_text(
        "from plugrad_conformance.fixtures import backend, pytest_generate_tests\n"
    )
    (kit.folder / "test_mine.py").write_text(
        "import plugrad as pg\n"
        "def test_mine(backend):\n"
        "    assert pg.get_backend() == backend == 'faulty'\n"
    )
    done = kit.run("test_mine.py")
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


# --- reports of other tools -------------------------------------------------------


def test_a_junit_report_causes_no_warning(kit):
    """CI writes such reports, and a plugin's tests may turn warnings into errors."""
    kit.install()
    options = ("--junitxml=report.xml", "-W", "error")
    done = kit.run("backend.test_imports", *options)
    assert done.returncode == 0, done.stdout
    done = kit.run("golden.test_golden", "-k", "Relu", *options)
    assert done.returncode == 0, done.stdout
    assert "golden" in (kit.folder / "report.xml").read_text()
