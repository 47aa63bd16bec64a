"""The pytest plugin: options, and what the summary tells of the golden corpus.

It does nothing to test runs of people who merely have it installed.
"""

import textwrap
from collections import Counter

import pytest

pytest.register_assert_rewrite(
    "plugrad_conformance.check",
    "plugrad_conformance.golden",
    "plugrad_conformance.ops",
)


def pytest_addoption(parser):
    """Add the options, all of them ``--plugrad-...``."""
    group = parser.getgroup("plugrad", "conformance of plugrad's backends")
    group.addoption(
        "--plugrad-backend",
        action="append",
        dest="plugrad_backends",
        metavar="NAME",
        help="run the tests on this backend; all installed ones by default",
    )


def pytest_terminal_summary(terminalreporter):
    """Tell how much of the golden corpus has run, and what nothing reaches."""
    told = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            key = dict(getattr(report, "user_properties", ())).get("golden")
            if key:
                told.setdefault(key, Counter())[outcome] += 1
    if not told:
        return
    from .golden import cases, judge, reach

    terminalreporter.section("golden cases of TensorFlow.js")
    for key, counts in sorted(told.items()):
        kind, backend = key.split()
        ran = counts["passed"] + counts["failed"]
        line = f"{kind:9}  {backend:10} {ran:5} of {cases.total(kind)} run"
        for outcome in ("failed", "skipped"):
            line += f", {counts[outcome]} {outcome}" if counts[outcome] else ""
        terminalreporter.write_line(line)
    for kind in cases.KINDS:
        rows = reach.KERNELS | reach.OPS if kind == "errors" else reach.KERNELS
        missing = cases.unreached(kind, rows, judge.departures())
        if missing:
            names = ", ".join(f"{name} {n}" for name, n in sorted(missing.items()))
            line = f"not reached: {missing.total()} {kind}: {names}"
            for part in textwrap.wrap(line, 88, subsequent_indent="  "):
                terminalreporter.write_line(part)
