"""The examples in docstrings give the output that they show, on every backend."""

import plugrad_attribution as attr
import pytest

from tests.docs.test_docstrings import check_examples

SHOWN_ELSEWHERE = {  # a name without its own example: where it is shown
    "AlphaBeta": "docs/attribution.md",
    "Attribution": "attribute",
    "Box": "EpsilonGammaBox",
    "Covered": "coverage",
    "EpsilonAlpha2Beta1": "docs/attribution.md",
    "EpsilonAlpha2Beta1Flat": "docs/attribution.md",
    "EpsilonPlus": "attribute",
    "EpsilonPlusFlat": "docs/attribution.md",
    "ExcitationBackprop": "docs/attribution.md",
    "Flat": "Composite",
    "Gamma": "Composite",
    "Layer": "docs/attribution.md",
    "MissingRule": "docs/attribution.md",
    "Patching": "patching",
    "Row": "Ledger",
    "WSquare": "docs/attribution.md",
    "ZPlus": "docs/attribution.md",
}


def documented():
    """Return the package's functions and classes by name."""
    found = {name: getattr(attr, name) for name in attr.__all__}
    surrogates = {
        f"surrogates.{name}": getattr(attr.surrogates, name)
        for name in attr.surrogates.__all__
    }
    return found | surrogates


def test_every_name_has_an_example():
    without = [n for n, v in documented().items() if ">>>" not in (v.__doc__ or "")]
    assert sorted(without) == sorted(SHOWN_ELSEWHERE)


@pytest.mark.parametrize("name", sorted({*documented()} - {*SHOWN_ELSEWHERE}))
def test_the_example_gives_the_output_that_it_shows(name, backend):
    check_examples(name, documented()[name], backend, attr=attr)
