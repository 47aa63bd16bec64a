"""The examples in docstrings give the output that they show, on every backend."""

import inspect
from types import ModuleType

import plugrad_train as pt
import pytest

from tests.docs.test_docstrings import check_examples

SHOWN_ELSEWHERE = {  # a name without its own example: where it is shown
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
    """Return the package's functions and classes by dotted name."""
    found = {}
    for name in pt.__all__:
        value = getattr(pt, name)
        if not isinstance(value, ModuleType):
            found[name] = value
        elif hasattr(value, "__all__"):
            names = {n for n in value.__all__ if inspect.isfunction(getattr(value, n))}
            defined_here = {
                n for n in names if getattr(value, n).__module__ == value.__name__
            }
            found |= {f"{name}.{n}": getattr(value, n) for n in defined_here}
    return {n: v for n, v in found.items() if v.__name__ != "initializer"}


def test_every_name_has_an_example():
    without = [n for n, v in documented().items() if ">>>" not in (v.__doc__ or "")]
    assert sorted(without) == sorted(SHOWN_ELSEWHERE)


@pytest.mark.parametrize("name", sorted({*documented()} - {*SHOWN_ELSEWHERE}))
def test_the_example_gives_the_output_that_it_shows(name, backend):
    check_examples(name, documented()[name], backend, pt=pt)
