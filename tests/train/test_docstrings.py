"""The examples in docstrings run as they are shown, on every backend."""

import doctest
import inspect
from types import ModuleType

import numpy as np
import plugrad as pg
import plugrad_train as pt
import pytest

from tests.docs.test_docstrings import PARSER, run

WITHOUT = {  # names without an example of their own, and what shows them
    "CheckpointError": "Checkpoints",
    "CheckpointWarning": "Checkpoints",
    "EarlyStopping": "docs/train.md",
    "Fitted": "fit",
    "NonFiniteError": "skip_nonfinite",
    "Optimizer": "sgd",
    "Padded": "Batches",
    "Progress": "docs/train.md",
    "Restored": "Checkpoints",
    "Transform": "scale_by_adam",
    "adagrad": "sgd",
    "adamw": "docs/train.md",
    "check_finite": "docs/train.md",
    "draw_curves": "docs/train.md",
    "lion": "sgd",
    "read_log": "docs/train.md",
    "rmsprop": "sgd",
    "scale_by_learning_rate": "scale_by_adam",
    "scale_by_lion": "lion",
    "scale_by_rms": "rmsprop",
    "scale_by_rss": "adagrad",
    "scale_by_schedule": "scale_by_learning_rate",
    "scale_loss": "half_precision",
    "trace": "sgd",
}


def documented():
    """Return what the package offers by its dotted name."""
    found = {}
    for name in pt.__all__:
        value = getattr(pt, name)
        if not isinstance(value, ModuleType):
            found[name] = value
        elif hasattr(value, "__all__"):
            names = {n for n in value.__all__ if inspect.isfunction(getattr(value, n))}
            mine = {n for n in names if getattr(value, n).__module__ == value.__name__}
            found |= {f"{name}.{n}": getattr(value, n) for n in mine}
    return {n: v for n, v in found.items() if v.__name__ != "initializer"}


def test_every_name_has_an_example():
    without = [n for n, v in documented().items() if ">>>" not in (v.__doc__ or "")]
    assert sorted(without) == sorted(WITHOUT)


@pytest.mark.parametrize("name", sorted({*documented()} - {*WITHOUT}))
def test_the_example_runs_as_it_is_shown(name, backend):
    text = inspect.getdoc(documented()[name])
    text = text.replace("backend='cpu'", f"backend={backend!r}")
    names = {"pg": pg, "pt": pt, "np": np}
    test: doctest.DocTest = PARSER.get_doctest(text, names, name, None, None)
    assert not run(test)
