"""The scorecard: the results of each backend by level and kernel.

``Scorecard`` is a pytest plugin that collects reports; a ``Score`` holds the results of
one backend, and formats them as JSON and as a table. The ``user_properties`` of the
reports contain everything needed, so reports may come from other processes.
"""

from __future__ import annotations

import importlib.metadata
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from .levels import LEVELS
from .skips import FOLLOWS, Pinned, changes

OUTCOMES = ("passed", "failed", "expected", "skipped")


class Scorecard:
    """Counts the tests of this package and reports at the end.

    Attributes:
        path: The JSON file to write, or None.
        pinned: The expected numbers of skipped tests, for the backends in the file.
        partial: Whether the run ended early, or collected only some of the tests.
        thinned: The backends with tests that ``-k`` or similar deselected.
        results: The outcome of each test.
        changed: The differences from ``pinned``, for backends that ran all tests.

    """

    def __init__(self, path: Path | None, pinned: Mapping[str, Pinned]) -> None:
        self.path, self.pinned = path, pinned
        self.partial = False
        self.thinned: set[str] = set()
        self.results: dict[str, dict[str, Any]] = {}
        self.changed: list[str] = []
        self._asked: dict[str, str] = {}

    # --- listening ---------------------------------------------------------------

    def collected(self, asked: Mapping[str, str], whole: bool) -> None:
        """Record the requested tests by backend, and whether all were collected."""
        self._asked = {**asked}
        self.partial = not whole

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record which backends had tests deselected by ``-k``, ``-m`` or similar."""
        dropped = {*self._asked} - {item.nodeid for item in session.items}
        self.thinned |= {self._asked[test] for test in dropped}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the outcome of a test of this package: failed if any phase failed."""
        properties = dict(report.user_properties)
        if "plugrad" not in properties:
            return
        result = self.results.setdefault(report.nodeid, {"outcome": "", "why": ""})
        result |= properties
        if result["outcome"] == "failed" or (report.when != "call" and report.passed):
            return
        result["outcome"] = report.outcome
        if report.skipped and hasattr(report, "wasxfail"):
            result |= {"outcome": "expected", "why": report.wasxfail}
        elif report.skipped and isinstance(report.longrepr, tuple):
            result["why"] = report.longrepr[2].removeprefix("Skipped: ")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Record whether the run was cut short; send results to the main process.

        The main process counts the skipped tests and fails if the numbers differ.
        """
        self.partial |= bool(session.shouldfail or session.shouldstop)
        output = getattr(
            session.config, "workeroutput", None
        )  # in a pytest-xdist worker
        if output is not None:
            output["plugrad_partial"] = self.partial
            output["plugrad_thinned"] = sorted(self.thinned)
            return
        if session.config.getoption("plugrad_level") == LEVELS[-1]:
            self.changed = self.changes()
        if self.changed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Merge the results of a pytest-xdist worker."""
        output = getattr(node, "workeroutput", {})
        self.partial |= output.get("plugrad_partial", True)
        self.thinned |= {*output.get("plugrad_thinned", ())}

    # --- reporting ---------------------------------------------------------------

    def scores(self) -> list[Score]:
        """Return the scores of the tested backends that open."""
        from .backends import refusal

        by_backend: dict[str, list[dict[str, Any]]] = {}
        for result in self.results.values():
            if name := result["plugrad"]["backend"]:
                by_backend.setdefault(name, []).append(result)
        found = {n: r for n, r in by_backend.items() if refusal(n) is None}
        part = {n: self.partial or n in self.thinned for n in found}
        return [Score(n, results, part[n]) for n, results in found.items()]

    def changes(self) -> list[str]:
        """Return the differences from ``pinned``, for backends that ran all tests."""
        return [
            line
            for score in self.scores()
            if score.backend in self.pinned and not score.partial
            for line in changes(
                score.backend,
                score.dtypes,
                score.skips(unexplained=True),
                self.pinned[score.backend],
            )
        ]

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Print a table for each backend, and write the file."""
        scores = self.scores()
        for score in scores:
            terminalreporter.section(f"plugrad conformance: {score}")
            for line in score.lines():
                terminalreporter.write_line(line)
        if self.changed:
            terminalreporter.section("the skipped tests differ from plugrad_skips")
        for line in self.changed:
            terminalreporter.write_line(line, red=True)
        if self.path is not None:
            report = {
                "plugrad": importlib.metadata.version("plugrad"),
                "plugrad-conformance": importlib.metadata.version(
                    "plugrad-conformance"
                ),
                "backends": {score.backend: score.as_json() for score in scores},
            }
            self.path.write_text(json.dumps(report, indent=1) + "\n")
            terminalreporter.write_line(f"scorecard: {self.path}")


class Score:
    """The results of one backend.

    Attributes:
        backend: Its name.
        levels: Outcomes by level.
        kernels: Outcomes by kernel, for tests of a single kernel.
        ways: How each kernel of the catalog runs.
        ran: How often each kernel ran by its decomposition or on the host.
        level: The highest level up to which no test failed; None if the first level
            failed or only some of the tests were run.

    """

    def __init__(
        self, backend: str, results: list[dict[str, Any]], partial: bool
    ) -> None:
        from .backends import distribution_of, dtypes_of, ways_to_run

        self.backend = backend
        self.results = results
        self.partial = partial
        self.distribution, self.version = distribution_of(backend)
        self.ways, self.dtypes = ways_to_run(backend), dtypes_of(backend)
        self.levels = {level: Counter[str]() for level in LEVELS}
        self.kernels = {kernel: Counter[str]() for kernel in self.ways}
        self.golden: dict[str, Counter[str]] = {}
        self.ran = {kernel: Counter[str]() for kernel in self.ways}
        self.imports: dict[str, Any] = {}
        for result in results:
            self._count(result)
        self.level = self._level()

    def _count(self, result: dict[str, Any]) -> None:
        properties, outcome = result["plugrad"], result["outcome"]
        self.levels[properties["level"]][outcome] += 1
        if properties["kernel"] in self.kernels:
            self.kernels[properties["kernel"]][outcome] += 1
        if "golden" in result:
            self.golden.setdefault(result["golden"], Counter())[outcome] += 1
        for kernel, way, count in result.get("plugrad-fallback_counts", ()):
            self.ran.setdefault(kernel, Counter())[way] += count
        self.imports = result.get("plugrad-imports", self.imports)

    def _level(self) -> str | None:
        reached = None
        for level, counts in self.levels.items():
            if self.partial or counts["failed"] or not counts["passed"]:
                break
            reached = level
        return reached

    def __str__(self) -> str:
        return f"{self.backend} ({self.distribution} {self.version})".replace(" )", ")")

    def named(self, outcome: str) -> list[dict[str, str]]:
        """Return the tests of an outcome, each with the reason if there is one."""
        found = [r for r in self.results if r["outcome"] == outcome]
        return [
            {"test": r["plugrad"]["test"]} | ({"reason": r["why"]} if r["why"] else {})
            for r in found
        ]

    def skips(self, *, unexplained: bool = False) -> Counter[str]:
        """Return the number of skipped tests by reason.

        With ``unexplained``, omit skips for dtypes that the parameters name.
        """
        skipped = [r for r in self.results if r["outcome"] == "skipped"]
        return Counter(r["why"] for r in skipped if not (unexplained and FOLLOWS in r))

    def as_json(self) -> dict[str, Any]:
        """Return everything, as ``--plugrad-report`` writes it."""
        return {
            "distribution": self.distribution,
            "version": self.version,
            "level": self.level,
            "partial": self.partial,
            "dtypes": self.dtypes,
            "levels": {name: _plain(counts) for name, counts in self.levels.items()},
            "golden": {name: _plain(counts) for name, counts in self.golden.items()},
            "kernels": {
                name: {"runs": way, "ran": {**self.ran[name]}}
                | _plain(self.kernels[name])
                for name, way in self.ways.items()
            },
            "imports": self.imports,
            "failed": self.named("failed"),
            "expected_failures": self.named("expected"),
            "skipped": dict(self.skips().most_common()),
        }

    def lines(self) -> list[str]:
        """Return the table for the terminal."""
        lines = ["level      " + "".join(f"{name:>10}" for name in OUTCOMES)]
        for level, counts in self.levels.items():
            if counts:
                cells = "".join(f"{counts[name]:>10}" for name in OUTCOMES)
                lines.append(f"{level:11}{cells}")
        lines += [
            f"golden {kind}: {_format_counts(counts)}"
            for kind, counts in self.golden.items()
        ]
        lines.append(f"kernels: {_format_counts(Counter(self.ways.values()))}")
        lines += [f"skipped: {n} {why}" for why, n in self.skips().most_common(8)]
        if self.imports:
            lines.append(
                "import: {modules} modules, {seconds:.3f} s".format(**self.imports)
            )
        claim = self.level or "none"
        if self.partial:
            claim = "none claimed, because only some of the tests were run"
        elif self.named("expected"):
            claim += f", with {len(self.named('expected'))} expected failures"
        return [*lines, f"level reached: {claim}"]


def _plain(counts: Counter[str]) -> dict[str, int]:
    return {outcome: counts[outcome] for outcome in OUTCOMES}


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{n} {what}" for what, n in counts.items())
