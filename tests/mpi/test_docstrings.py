"""The examples in docstrings give the output that they show, with one rank."""

import doctest
import inspect

import numpy as np
import plugrad as pg
import pytest

from tests.docs.test_docstrings import PARSER, run

from .launch import needs_mpi

mpi = pytest.importorskip("plugrad_mpi", reason="plugins/mpi is not installed")
SHOWN_ELSEWHERE = {  # a name without its own example: where it is shown
    "DivergenceError": "docs/mpi.md",
    "Sharded": "sharded",
    "receive": "send",
}


def test_every_name_has_an_example():
    docs = {name: getattr(mpi, name).__doc__ for name in mpi.__all__}
    assert sorted(n for n, doc in docs.items() if ">>>" not in doc) == sorted(
        SHOWN_ELSEWHERE
    )


@needs_mpi
@pytest.mark.parametrize("name", sorted({*mpi.__all__} - {*SHOWN_ELSEWHERE}))
def test_the_example_gives_the_output_that_it_shows(name, backend):
    text = inspect.getdoc(getattr(mpi, name))
    text = text.replace("backend='cpu'", f"backend={backend!r}")
    names = {"pg": pg, "mpi": mpi, "np": np}
    test: doctest.DocTest = PARSER.get_doctest(text, names, name, None, None)
    assert not run(test)
