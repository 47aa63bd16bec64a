"""Every public function has an example in its docstring, which gives the output shown.

``pytest tests/docs/test_docstrings.py -k relu`` runs one. An example shows the output
on cpu, and runs on every backend: the name of the backend in ``backend='cpu'`` is
replaced, and floating numbers are compared to the digits that are shown.
"""

import doctest
import inspect
import math
import re

import numpy as np
import plugrad as pg
import pytest
from plugrad import importing, plugin
from plugrad_conformance.check import require_dtypes

from tests.surface import public

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?")
PARSER = doctest.DocTestParser()


def documented():
    """Return the public functions and classes, and those for plugin authors."""
    authors = {f"plugin.{n}": getattr(plugin, n) for n in plugin.__all__}
    authors |= {f"importing.{n}": getattr(importing, n) for n in importing.__all__}
    return {
        name: value
        for name, value in {**public(), **authors}.items()
        if inspect.isroutine(value) or inspect.isclass(value) or hasattr(value, "func")
        if not (inspect.isclass(value) and issubclass(value, BaseException))
    }


class Checker(doctest.OutputChecker):
    """Compare text as doctest does, and floating numbers to the digits shown."""

    def check_output(self, want, got, optionflags):
        """Return whether the output ``got`` matches the shown ``want``."""
        if super().check_output(want, got, optionflags):
            return True
        if [*NUMBER.split(want)] != [*NUMBER.split(got)]:
            return self._equal_without_spaces(want, got)
        return all(map(close, NUMBER.findall(want), NUMBER.findall(got)))

    def _equal_without_spaces(self, want, got):
        """Compare without spaces, because NumPy aligns columns with spaces."""
        want, got = (re.sub(r"\s+", "", text) for text in (want, got))
        if [*NUMBER.split(want)] != [*NUMBER.split(got)]:
            return False
        return all(map(close, NUMBER.findall(want), NUMBER.findall(got)))


def close(want, got):
    """Return whether a number equals the one shown, to the digits shown."""
    if want == got:
        return True
    if not set(".e") & set(want):
        return False
    digits = len(want.partition("e")[0].partition(".")[2])
    exponent = int(want.partition("e")[2] or 0)
    unit = 10.0 ** (exponent - digits)
    return math.isclose(float(want), float(got), rel_tol=1e-5, abs_tol=unit)


def check_examples(name, value, backend, **modules):
    """Check that the examples of a docstring give what they show on a backend.

    ``modules`` are the modules, in addition to pg and np, that the examples know.
    """
    text = inspect.getdoc(value) or ""
    text = text.replace("backend='cpu'", f"backend={backend!r}")
    names = {"pg": pg, "np": np, **modules}
    test = PARSER.get_doctest(text, names, name, None, None)
    assert test.examples, "write an example into its docstring: >>> pg.relu([-1.0])"
    assert not run(test)


def run(test):
    """Run a doctest; return its report of failures."""
    reports = []
    runner = doctest.DocTestRunner(Checker(), verbose=False)
    runner.run(test, out=reports.append)
    return "".join(reports)


WITH_STRINGS = ("less",)  # its example compares strings too


@pytest.mark.parametrize("name", sorted(documented()))
def test_the_example_gives_the_output_that_it_shows(name, backend):
    if name.startswith("strings.") or name in WITH_STRINGS:
        require_dtypes(backend, "string")
    check_examples(name, documented()[name], backend)


@pytest.mark.parametrize(
    ("want", "got", "equal"),
    [
        ("Tensor([1., 2.])", "Tensor([1., 2.])", True),
        ("Tensor([0.4621, 2.])", "Tensor([0.46211717, 2.0000002])", True),
        ("Tensor([0.4621, 2.])", "Tensor([0.47211717, 2.])", False),
        ("[1, 2]", "[1, 3]", False),
        ("[ 1.,  2.]", "[1., 2.]", True),
        ("1e-07", "1.5e-07", True),
        ("(2, 3)", "(2, 3, 1)", False),
    ],
)
def test_numbers_are_compared_to_the_digits_that_are_shown(want, got, equal):
    assert Checker().check_output(want + "\n", got + "\n", 0) is equal


def test_a_wrong_example_is_found():
    test = PARSER.get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert "Expected:\n    3" in run(test)
