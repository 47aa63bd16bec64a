"""DeepLIFT and DeepSHAP: contributions to a difference, by secants.

Contents: ``deep_lift``; ``deep_shap``; the check that contributions add up.
"""

from __future__ import annotations

import numpy as np
import plugrad as pg
from plugrad.plugin import Tensor, TensorLike

from .examples import (
    Model,
    Target,
    broadcast,
    checked,
    in_chunks,
    value_and_gradient,
)
from .gradients import Contributions
from .pairs import recording
from .secants import with_secants


def deep_lift(
    f: Model,
    x: TensorLike,
    baseline: TensorLike = 0.0,
    target: Target = None,
    *,
    tolerance: float | None = 1e-3,
    chunk: int | None = None,
) -> Contributions:
    """Return the contribution of each element to ``f(x) - f(baseline)``, by DeepLIFT.

    Where the gradient multiplies derivatives, the rescale rule multiplies slopes
    ``(y - y₀) / (x - x₀)`` between the baseline and ``x``. So nothing is lost where a
    ReLU or a sigmoid is flat, and the contributions of an example add up to the
    difference of the values. Products, maxima, ``where`` and softmax have rules of
    their own that lose nothing; layer and RMS norms, LSTM and GRU are differentiated as
    compositions of these functions.

    Args:
        f: The model: a function of a batch of examples, which returns a tensor whose
            first axis is that of the examples. It runs once for the baseline and once
            for ``x``, and must run the same kernels both times.
        x: The examples; they must be real.
        baseline: The input to compare the examples with: a tensor that can be broadcast
            to ``x``.
        target: The value that is explained, as in ``attribute``.
        tolerance: The largest ``gap`` that an example may have, relative to the larger
            of the absolute values of ``f`` at ``x`` and at the baseline. None skips the
            check. The check reads values, so ``jit`` cannot replay a function that
            includes it.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        A ``Contributions``.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: The contributions do not add up, ``f`` does not run the same kernels
            for the baseline as for ``x``, or another argument is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.relu(x[:, 0] + x[:, 1] - 1.0)
        >>> found = attr.deep_lift(model, [[2.0, 1.0]])
        >>> found.input.numpy().round(4).tolist()  # the gradient at the baseline is 0
        [[1.3333, 0.6667]]
        >>> found.value.tolist(), found.start.tolist()
        ([2.0], [0.0])

    Source:
        A. Shrikumar et al., "Learning Important Features Through Propagating Activation
        Differences", 2017. Products of two tensors: the Shapley values of S. M.
        Lundberg and S.-I. Lee, "A Unified Approach to Interpreting Model Predictions",
        2017.

    """
    name = "deep_lift"
    values = checked(name, f, x)
    origin = broadcast(name, "baseline", baseline, values)
    _check_tolerance(name, tolerance)
    without_rule: set[str] = set()
    found = _contributions(name, f, values, origin, target, chunk, without_rule)
    _check_gap(name, found, tolerance, without_rule)
    return found


def _contributions(
    name: str,
    f: Model,
    x: Tensor,
    baseline: Tensor,
    target: Target,
    chunk: int | None,
    without_rule: set[str],
) -> Contributions:
    """Return the contributions; add kernels that have no rule to ``without_rule``."""

    def work(target: Target, x: Tensor, baseline: Tensor) -> tuple[Tensor, ...]:
        with recording() as runs:
            run = with_secants(value_and_gradient)
            start, _ = run(f, baseline, target)
            runs.read()
            value, slopes = run(f, x, target)
            runs.check_all_read()
        without_rule.update(runs.without_rule)
        return (x - baseline) * slopes, value, start

    return Contributions(*in_chunks(name, work, (x, baseline), target, chunk))


def deep_shap(
    f: Model,
    x: TensorLike,
    baselines: TensorLike,
    target: Target = None,
    *,
    tolerance: float | None = 1e-3,
    chunk: int | None = None,
) -> Contributions:
    """Return the mean contributions of ``deep_lift`` over several baselines.

    They approximate the SHAP values of ``f`` for these baselines, and add up to the
    difference between the value of ``x`` and the mean value of the baselines.

    Args:
        f: The model, as in ``deep_lift``.
        x: The examples; they must be real.
        baselines: Examples to compare with, such as a sample of the training data: a
            tensor whose first axis is that of the baselines, and whose other axes match
            those of ``x``.
        target: The value that is explained, as in ``attribute``.
        tolerance: The largest ``gap`` that an example may have, as in ``deep_lift``.
        chunk: The number of examples to process at once, to limit memory.

    Returns:
        A ``Contributions``; ``start`` is the mean value of the baselines.

    Raises:
        TypeError: ``f`` is not a function, or ``x`` is not real.
        ValueError: The contributions do not add up, or an argument is invalid.

    Example:
        >>> import plugrad_attribution as attr
        >>> model = lambda x: pg.relu(x[:, 0] + x[:, 1] - 1.0)
        >>> found = attr.deep_shap(model, [[2.0, 1.0]], [[0.0, 0.0], [2.0, 0.0]])
        >>> found.input.numpy().round(4).tolist()
        [[0.6667, 0.8333]]

    Source:
        S. M. Lundberg and S.-I. Lee, "A Unified Approach to Interpreting Model
        Predictions", 2017.

    """
    name = "deep_shap"
    values = checked(name, f, x)
    several = pg.astype(pg.asarray(baselines), values.dtype)
    if several.ndim == 0 or several.shape[1:] != values.shape[1:] or not len(several):
        shape = ", ".join(str(size) for size in values.shape[1:])
        raise ValueError(
            f"{name}: baselines must have the shape (n, {shape}), that is, n examples "
            f"like those of x; got {several.shape}"
        )
    _check_tolerance(name, tolerance)
    without_rule: set[str] = set()
    total = pg.zeros_like(values)
    starts = []
    for number in range(several.shape[0]):
        origin = pg.broadcast_to(several[number], values.shape)
        one = _contributions(name, f, values, origin, target, chunk, without_rule)
        total = total + one.input
        starts.append(one.start)
    start = pg.mean(pg.stack(starts), axis=0)
    found = Contributions(total / several.shape[0], one.value, start)
    _check_gap(name, found, tolerance, without_rule)
    return found


# --- the check that contributions add up -----------------------------------------


def _check_tolerance(name: str, tolerance: float | None) -> None:
    """Raise unless a tolerance is a positive number or None."""
    if tolerance is not None and not tolerance > 0:
        raise ValueError(
            f"{name}: tolerance must be positive, or None to skip the check, got "
            f"{tolerance!r}"
        )


def _check_gap(
    name: str, found: Contributions, tolerance: float | None, without_rule: set[str]
) -> None:
    """Raise if the contributions of an example do not add up.

    Args:
        name: The name of the method.
        found: The contributions.
        tolerance: The largest gap that is allowed, relative to the values.
        without_rule: The kernels that had no rule.

    """
    if tolerance is None:
        return
    gap, value, start = (v.numpy() for v in (found.gap, found.value, found.start))
    is_large = ~(np.abs(gap) <= tolerance * np.maximum(np.abs(value), np.abs(start)))
    if not is_large.any():
        return
    worst = int(np.argmax(np.where(is_large, np.abs(gap), -1.0)))
    total = value[worst] - start[worst]
    if without_rule:
        why = f"There is no rule for {', '.join(sorted(without_rule))}."
    else:
        why = "The value may also depend on x through comparisons, indices, functions "
        why += "with custom_grad or stop_gradient."
    raise ValueError(
        f"{name}: the contributions of example {worst} add up to "
        f"{total + gap[worst]:.6g}, but its value and that of the baseline differ by "
        f"{total:.6g}. {why} Pass tolerance=None to get them anyway, and check their "
        "gap"
    )
