"""Profilers, debuggers and coverage around jitted calls, or started inside them."""

import bdb
import cProfile
import io
import pdb
import pstats
import sys
import threading
import trace
import tracemalloc
import warnings

import pytest

from .helpers import floats, look
from .hooking import CODES, Model, check_against_eager

pytestmark = pytest.mark.usefixtures("hooks")
X = floats(3)
CALL_CODE, SCALED_CODE = Model.__call__.__code__, Model.scaled.__code__
FILE = CALL_CODE.co_filename


def call_counts(profiler, code):
    """Return the number of calls of a function, and how many of them are outermost."""
    rows = pstats.Stats(profiler, stream=io.StringIO()).stats
    key = code.co_filename, code.co_firstlineno, code.co_name
    return rows[key][:2] if key in rows else (0, 0)


@pytest.mark.parametrize("before", range(4))
def test_cprofile(before, wrap):
    model = Model()
    jitted = wrap(model)
    for _ in range(before):
        jitted(X)
    profiler = cProfile.Profile()
    with profiler:
        check_against_eager(jitted, model)
        if sys.version_info < (3, 12):  # later versions use sys.monitoring
            assert sys.getprofile() is profiler
    assert sys.getprofile() is None
    recordings, outermost = call_counts(profiler, SCALED_CODE)
    assert recordings == outermost >= 1
    check_against_eager(jitted, model)


def test_cprofile_begins_in_the_function(wrap):
    model = Model()
    profiler = cProfile.Profile()

    def f(x):
        with profiler:
            return model(x)

    jitted = wrap(f)
    check_against_eager(jitted, model)
    assert call_counts(profiler, SCALED_CODE)[0] >= 2
    assert sys.getprofile() is None


def test_cprofile_ends_in_the_function(wrap):
    model = Model()
    profiler = cProfile.Profile()

    def f(x):
        y = model(x)
        profiler.disable()
        return y

    jitted = wrap(f)
    profiler.enable()
    result = jitted(X)
    after = sys.getprofile()
    profiler.disable()
    assert after is None
    assert look(result) == look(model(X))
    assert call_counts(profiler, SCALED_CODE) == (1, 1)
    check_against_eager(jitted, model)


def test_the_profiler_written_in_python(wrap):
    """The module ``profile`` asserts that calls and returns are balanced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated from 3.15 on
        profile = pytest.importorskip("profile")
    model = Model()
    first = profile.Profile()
    jitted = wrap(model)
    assert look(first.runcall(jitted, X)) == look(model(X))
    for _ in range(2):
        assert look(profile.Profile().runcall(jitted, X)) == look(model(X))
    assert call_counts(first, SCALED_CODE) == (1, 1)
    check_against_eager(jitted, model)


class Lines(bdb.Bdb):
    """A debugger that stops at each line, and records those of the user's code."""

    def __init__(self):
        super().__init__()
        self.lines, self.returns = [], []

    def user_line(self, frame):
        if frame.f_code in CODES:
            self.lines.append(frame.f_lineno)

    def user_return(self, frame, value):
        if frame.f_code in CODES:
            self.returns.append(frame.f_code.co_name)


def test_a_debugger_stops_at_each_line(wrap):
    model = Model()
    debugger = Lines()
    jitted = wrap(model)
    results = [look(debugger.runcall(jitted, X)) for _ in range(3)]
    assert results == [look(model(X))] * 3
    first = CALL_CODE.co_firstlineno
    assert {first + 1, first + 2} <= {*debugger.lines}
    assert debugger.returns[:2] == ["scaled", "__call__"]
    assert sys.gettrace() is None
    check_against_eager(jitted, model)


class QuitsAtFirstLine(Lines):
    """A debugger that the user quits at the first line of the user's code."""

    def user_line(self, frame):
        super().user_line(frame)
        if self.lines:
            self.set_quit()


def test_a_debugger_is_left_in_the_function(wrap):
    model = Model()
    debugger = QuitsAtFirstLine()
    jitted = wrap(model)
    assert debugger.runcall(jitted, X) is None
    assert len(debugger.lines) == 1
    assert sys.gettrace() is None
    check_against_eager(jitted, model)


COMMANDS = ["step", "next", "where", "up", "down", "return", "continue"]


@pytest.mark.parametrize("commands", range(len(COMMANDS)))
def test_pdb(commands, wrap):
    model = Model()
    out = io.StringIO()
    text = "\n".join([*COMMANDS[:commands], "continue", ""])
    jitted = wrap(model)
    debugger = pdb.Pdb(stdin=io.StringIO(text), stdout=out, nosigint=True, readrc=False)
    assert look(debugger.runcall(jitted, X)) == look(model(X))
    sys.settrace(None)
    check_against_eager(jitted, model)


def test_a_breakpoint_of_pdb_in_the_function(wrap):
    model = Model()
    out = io.StringIO()
    line = SCALED_CODE.co_firstlineno + 1
    text = f"break {FILE}:{line}\ncontinue\np self.rate\ncontinue\n"
    jitted = wrap(model)
    debugger = pdb.Pdb(stdin=io.StringIO(text), stdout=out, nosigint=True, readrc=False)
    try:
        result = debugger.runcall(jitted, X)
    finally:
        debugger.clear_all_breaks()
        sys.settrace(None)
    assert look(result) == look(model(X))
    assert "\n(Pdb) 2.0\n" in out.getvalue()
    check_against_eager(jitted, model)


def test_lines_that_ran_are_counted(wrap):
    """The module ``trace`` counts lines like coverage."""
    model = Model()
    counted = trace.Trace(count=1, trace=0)
    jitted = wrap(model)
    results = [look(counted.runfunc(jitted, X)) for _ in range(3)]
    assert results == [look(model(X))] * 3
    first = CALL_CODE.co_firstlineno
    lines = {n for file, n in counted.results().counts if file == FILE}
    assert {first + 1, first + 2} <= lines
    check_against_eager(jitted, model)


class Cover:
    """A tracer like the one that coverage has in Python."""

    def __init__(self):
        self.lines = set()

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename != FILE:
            return None
        self.lines.add(frame.f_lineno)
        return self


def test_a_tracer_of_one_file(wrap):
    model = Model()
    cover = Cover()
    jitted = wrap(model)
    sys.settrace(cover)
    threading.settrace(cover)
    try:
        check_against_eager(jitted, model)
        assert sys.gettrace() is cover
    finally:
        sys.settrace(None)
        threading.settrace(None)
    first = CALL_CODE.co_firstlineno
    assert {first + 1, first + 2} <= cover.lines


def test_coverage(wrap):
    coverage = pytest.importorskip("coverage")
    model = Model()
    cover = coverage.Coverage(data_file=None, include=[FILE])
    jitted = wrap(model)
    cover.start()
    try:
        check_against_eager(jitted, model)
    finally:
        cover.stop()
    first = CALL_CODE.co_firstlineno
    assert {first + 1, first + 2} <= {*cover.get_data().lines(FILE)}


def test_tracemalloc(wrap):
    model = Model()
    jitted = wrap(model)
    tracemalloc.start()
    try:
        check_against_eager(jitted, model)
        assert tracemalloc.is_tracing()
        assert tracemalloc.take_snapshot().traces
    finally:
        tracemalloc.stop()
    check_against_eager(jitted, model)


def test_tracemalloc_begins_in_the_function(wrap):
    model = Model()

    def f(x):
        tracemalloc.start()
        try:
            return model(x)
        finally:
            tracemalloc.stop()

    check_against_eager(wrap(f), model)
    assert not tracemalloc.is_tracing()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_a_tool_of_sys_monitoring(wrap):
    model = Model()
    seen = []
    tool = 4
    events = sys.monitoring.events
    sys.monitoring.use_tool_id(tool, "test_tools")
    starts = lambda code, offset: seen.append(code)
    try:
        sys.monitoring.register_callback(tool, events.PY_START, starts)
        sys.monitoring.set_events(tool, events.PY_START)
        jitted = wrap(model)
        check_against_eager(jitted, model)
        assert sys.monitoring.get_tool(tool) == "test_tools"
        assert sys.monitoring.get_events(tool) == events.PY_START
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    assert set(seen) >= CODES
