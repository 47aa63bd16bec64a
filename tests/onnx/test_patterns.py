"""RegexFullMatch: RE2 matches a model's patterns, and none of them runs forever."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.parser import parse_model
from plugrad_onnx import ModelError, load, op

from tests.processes import python

HEAD = '<ir_version: 8, opset_import: ["": 20]>\n'
MATCH = """g (string[N] x) => (bool[N] y) {
  y = RegexFullMatch <pattern = "%s"> (x)
}"""
needs_re2 = pytest.mark.skipif(
    find_spec("re2") is None,
    reason="google-re2 is not installed: see pyproject.toml",
)


def matched(pattern, *texts):
    """Return for each text whether a model's pattern matches it."""
    model = load(parse_model(HEAD + MATCH % pattern))
    return model(np.array(texts, object)).tolist()


PATTERNS = [
    (r"[a-c]{2,3}x?", {"ab": True, "abcx": True, "a": False, "abcd": False, "": False}),
    (r"(\\W|^)[\\w.]{0,25}@(a|b)x$", {"me@ax": True, "me@cx": False}),
    (r"a*", {"a" * 1000: True, "b": False}),
    (r"(ab)*", {"ab" * 100: True, "aba": False}),
    (r"\\d+", {"12": True, "\u0663": False}),
    (r"\\p{Greek}.", {"\u03b1\u00fc": True, "a\u00fc": False}),
    (r"(?i)ab|c", {"AB": True, "C": True, "abc": False}),
]


@needs_re2
@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_patterns_match_whole_texts(pattern, expected):
    assert matched(pattern, *expected) == [*expected.values()]


@needs_re2
@pytest.mark.parametrize("pattern", ["(a", r"(a)\\1", "(?=a)a", "a{1001}", r"(?>a)"])
def test_invalid_patterns(pattern):
    with pytest.raises(ValueError, match=r"is not a valid RE2 pattern: [a-z]"):
        matched(pattern, "a")


@needs_re2
def test_a_deeply_nested_pattern_is_matched():
    assert matched("(" * 5000 + ")" * 5000, "", "a") == [True, False]


@needs_re2
def test_text_that_is_not_utf_8_matches_no_character():
    """A file's text is bytes; the reader turns invalid UTF-8 into surrogates."""
    texts = helper.make_tensor("t", TensorProto.STRING, [3], [b"a\xff", b"ab", b"\xc3"])
    y = helper.make_tensor_value_info("y", TensorProto.BOOL, [3])
    node = helper.make_node("RegexFullMatch", ["t"], ["y"], pattern="a.")
    graph = helper.make_graph([node], "g", [], [y], initializer=[texts])
    opsets = [helper.make_opsetid("", 20)]
    model = load(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    assert model().tolist() == [False, True, False]


# The process may use 2 seconds of processor time after it has loaded the model.
LIMITED = """
import resource, sys
import numpy as np
from onnx.parser import parse_model
from plugrad_onnx import load

pattern, text = sys.argv[1:]
model = load(parse_model(
    '<ir_version: 8, opset_import: ["": 20]> g (string[N] x) => (bool[N] y) '
    '{ y = RegexFullMatch <pattern = "%s"> (x) }' % pattern
))
model(np.array(["warm"], object))
spent = resource.getrusage(resource.RUSAGE_SELF)
seconds = int(spent.ru_utime + spent.ru_stime) + 2
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
print(model(np.array([text], object)).tolist())
"""
SLOW_PATTERNS = [
    "(a+)+$",
    "(a*)*(a*)*b",
    "(a|aa)+b",
    "a*a*a*a*a*a*a*a*b",
    "((a?){30}){30}b",
]
SLOW_PATTERNS += ["(a|a|aa)(a|a|aa)" * 20 + "b", "(?:a|ab?)*c", "([a-z]+)*1"]


@needs_re2
@pytest.mark.parametrize("pattern", SLOW_PATTERNS)
def test_no_pattern_runs_for_ever(pattern):
    """Python's re would try 2**40 ways for the first one, which takes about a day."""
    done = python(LIMITED, pattern, "a" * 40 + "!")
    assert (done.returncode, done.stdout) == (0, "[False]\n"), done.stderr


@needs_re2
def test_the_time_is_linear_in_the_text():
    done = python(LIMITED, "(a+)+$", "a" * 100_000 + "!")
    assert (done.returncode, done.stdout) == (0, "[False]\n"), done.stderr


def test_without_re2_load_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "re2", None)
    message = (
        r"op RegexFullMatch of ONNX, opset 20: needs the module re2: "
        r"pip install 'plugrad-onnx\[re2\]'"
    )
    with pytest.raises(ModelError, match=message):
        load(parse_model(HEAD + MATCH % "a"))


def test_ops_of_plugins_say_what_to_install():
    @op("Needy", domain="test.needs", requires={"no_such_module": "some-package"})
    def needy(x):
        return x

    text = """<ir_version: 8, opset_import: ["": 20, "test.needs": 1]>
        g (float[N] x) => (float[N] y) { y = test.needs.Needy (x) }"""
    with pytest.raises(ModelError, match=r"no_such_module: pip install 'some-package'"):
        load(parse_model(text))


def test_string_split_takes_its_delimiter_literally():
    """The delimiter is not a pattern, so splitting is as fast as str.split."""
    text = """g (string[N] x) => (string[N, M] y, int64[N] n) {
      y, n = StringSplit <delimiter = "(a+)+$"> (x)
    }"""
    y, n = load(parse_model(HEAD + text))(np.array(["b(a+)+$c", "a" * 40], object))
    assert n.tolist() == [2, 1]
    assert y.numpy().tolist() == [[b"b", b"c"], [b"a" * 40, b""]]
